"""Folders on the local disk for shards that are being written, which do not outlive their processes for long.

    with scratch("snowpack-shard-") as folder:
        write_shard(plan, batches, folder)

A process that is killed cannot remove its folder. So each folder has a file that its process keeps locked, which the system
unlocks when the process ends, and each new folder begins with the removal of those whose file is not locked. The invariant: a
folder of a process that is alive is never removed, whatever its age.
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
"""For so long a folder may be there before its process has locked it."""
NEVER_LOCKED_S = 7 * 24 * 3600.0
"""From this age on a folder without a lock file, of a version that made none, is a killed process's."""


@contextmanager
def scratch(prefix: str) -> Iterator[Path]:
    """Make a folder, and remove it at the end; before that, remove what killed processes left.

    :param prefix: one of ``PREFIXES``.
    """
    sweep()
    with tempfile.TemporaryDirectory(prefix=prefix) as name:
        folder = Path(name)
        with (folder / LOCK).open("wb") as lock:
            with suppress(OSError):  # a file system without locks, where nobody can find it unlocked either
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder


def sweep(now: float | None = None) -> list[Path]:
    """Remove the folders of this user's killed processes, and return them.

    :param now: seconds since 1970.
    """
    now = time.time() if now is None else now
    try:
        found = [entry for entry in os.scandir(tempfile.gettempdir()) if entry.name.startswith(PREFIXES)]
    except OSError:  # a folder in which files can be made, but not listed
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
    except FileNotFoundError:  # it has no lock file, or is gone
        return age > NEVER_LOCKED_S
    except OSError:  # locked, or not ours to look into
        return False


def _removed(folder: Path) -> bool:
    with suppress(OSError):
        shutil.rmtree(folder)
        log.info("scratch_swept: %s, which a killed process left", folder)
        return True
    return False
