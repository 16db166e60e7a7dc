"""Makes a folder in memory for what the tests write, and prints its path: ``python tests/support/memory_folder.py``.

The tests wait for the disk about half of their time, because SQLite and Postgres sync each commit. Where memory is scarce,
where programs may not run from it (the JVM loads libraries that it unpacks), or where TMPDIR is set, the usual folder is used.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import psutil

MEMORY = Path("/dev/shm")
CGROUP = Path("/sys/fs/cgroup")
ROOM = 8 * 1024**3
"""What a run may write, with a reserve."""
FOR_PROCESSES = 6 * 1024**3
"""What four test processes with their JVMs and servers need."""


def memory_folder() -> str:
    """Return a new folder in memory, or the temporary folder of the system."""
    usual = tempfile.gettempdir()
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK) or os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:
        return usual
    if shutil.disk_usage(MEMORY).free < ROOM or _available() < ROOM + FOR_PROCESSES:
        return usual
    folder = tempfile.mkdtemp(prefix="snowpack-tests-", dir=MEMORY)
    Path(folder).chmod(0o755)  # Postgres, which does not run as root, has its data below
    return folder


def _available() -> int:
    """Return the memory that is left to this machine or container."""
    available = psutil.virtual_memory().available
    limit, used = CGROUP / "memory.max", CGROUP / "memory.current"
    if limit.exists() and (most := limit.read_text().strip()).isdigit():
        available = min(available, int(most) - int(used.read_text()))
    return available


if __name__ == "__main__":
    print(memory_folder())
