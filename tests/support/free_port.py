"""A port for a server that a test starts later, by its number."""

from __future__ import annotations

import random
import socket

# Below the ports that Linux and macOS choose for outgoing connections: one of those would be taken by any connection that another
# process opens before the server starts, or before it is started again.
FIRST, LAST = 10_000, 32_000

_chance = random.SystemRandom()


def free_port() -> int:
    """Return a port of 127.0.0.1 that nothing uses."""
    while True:
        port = _chance.randint(FIRST, LAST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
