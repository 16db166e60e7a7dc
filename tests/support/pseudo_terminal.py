"""A real terminal for a program to write on.

screen = PseudoTerminal()
screen.out.write("hello")
screen.shown()                # 'hello'; closes it
"""

from __future__ import annotations

import os


class PseudoTerminal:
    """Keeps what was written; the kernel passes it on when it likes, so it is read to its end."""

    def __init__(self) -> None:
        self._mine, theirs = os.openpty()
        self.out = os.fdopen(theirs, "w")

    def shown(self) -> str:
        """All that was written. Nothing more can be."""
        self.out.close()
        parts = []
        try:
            while part := os.read(self._mine, 65536):
                parts.append(part)
        except OSError:
            pass  # how Linux tells that the other end is closed
        os.close(self._mine)
        return b"".join(parts).decode()
