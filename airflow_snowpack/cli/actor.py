"""Who sits at the command line, for the audit trail."""

from __future__ import annotations

import getpass
import os


def os_user() -> str:
    """The name of the operating system's user; ``uid 50000`` in a container whose user has no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # KeyError up to Python 3.12, OSError since
        return f"uid {os.getuid()}"
