"""A temporary folder for one build, which is removed with the build, or by the next one when the process was killed.

    with scratch_folder() as scratch: ...

The invariant: a folder is removed only when no process has the lock on the file ``lock`` in it, and the kernel releases that
lock however its process ends.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

PREFIX = "snowpack-image-"
LOCK = "lock"
UNLOCKED_FOR = timedelta(hours=1)
"""From this age on, a folder without a lock file is removed too: its process was killed right after it had created the folder."""


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Create a folder, and remove those that killed processes of this user left behind."""
    _remove_abandoned()
    folder, lock = _locked_folder()
    try:
        yield folder
    finally:
        _remove(folder)
        os.close(lock)


def _locked_folder() -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return folder, lock
        os.close(lock)  # another process took it for abandoned before it was locked


def _remove_abandoned() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            # Any user may create links here, to folders that this user may change.
            found = folder.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and _is_abandoned(folder):
                _remove(folder)
        except FileNotFoundError:
            continue  # its process has removed it


def _is_abandoned(folder: Path) -> bool:
    try:
        lock = os.open(folder / LOCK, os.O_RDWR)
    except FileNotFoundError:
        return time.time() - folder.stat().st_mtime > UNLOCKED_FOR.total_seconds()
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def _remove(folder: Path) -> None:
    # A repository may contain folders without write permission; what cannot be removed is left to the next build.
    for root, folders, _ in os.walk(folder):
        for name in folders:
            path = Path(root) / name
            if not path.is_symlink():
                path.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)
