"""Temporary folders on the local disk, which are removed soon after their processes end.

    with scratch("snowpack-shard-") as folder:
        write_shard(plan, batches, folder)

A killed process cannot remove its folder. So each folder has a file that its process keeps locked, which the system unlocks when
the process ends; creating a folder first removes those whose file is not locked. The folder of a live process is never removed,
whatever its age.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

log = logging.getLogger(__name__)

PREFIXES = ("snowpack-shard-", "snowpack-spool-")
LOCK = ".in-use"
UNLOCKED_S = 60.0
"""The age below which a folder may still be waiting for its lock."""
NEVER_LOCKED_S = 7 * 24 * 3600.0
"""The age above which a folder without a lock file, from a version that had none, belongs to a killed process."""


@contextmanager
def scratch(prefix: str) -> Iterator[Path]:
    """Create a folder with one of ``PREFIXES`` and remove it at the end; first remove the folders of killed processes."""
    sweep()
    with tempfile.TemporaryDirectory(prefix=prefix) as name:
        folder = Path(name)
        with (folder / LOCK).open("wb") as lock:
            with suppress(OSError):  # a file system without locks, where no process can find it unlocked either
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder


def sweep(now: float | None = None) -> list[Path]:
    """Remove the folders of this user's killed processes, and return them. ``now`` is in seconds since 1970."""
    now = time.time() if now is None else now
    try:
        found = [entry for entry in os.scandir(tempfile.gettempdir()) if entry.name.startswith(PREFIXES)]
    except OSError:  # files can be created there, but not listed
        return []
    return [Path(entry.path) for entry in found if _is_left_over(entry, now) and _removed(Path(entry.path))]


def _is_left_over(entry: os.DirEntry[str], now: float) -> bool:
    age = 0.0
    try:
        status = entry.stat(follow_symlinks=False)
        if status.st_uid != os.getuid() or not entry.is_dir(follow_symlinks=False):
            return False
        age = now - status.st_mtime
        if age < UNLOCKED_S:
            return False
        with (Path(entry.path) / LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except FileNotFoundError:  # it has no lock file, or was removed
        return age > NEVER_LOCKED_S
    except OSError:  # locked, or not readable by this user
        return False


def _removed(folder: Path) -> bool:
    with suppress(OSError):
        shutil.rmtree(folder)
        log.info("scratch_removed: %s, the folder of a killed process", folder)
        return True
    return False
