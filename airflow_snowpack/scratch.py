"""Temporary folders on the local disk, removed soon after their processes end.

    with scratch_folder() as folder:
        write_shard(plan, batches, folder)

A killed process cannot remove its folder. Each process therefore locks a file in its folder, and the system releases the lock
however the process ends; creating a folder first removes the folders whose file is not locked. The invariant: the folder of a
live process is never removed, whatever its age.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

log = logging.getLogger(__name__)

PREFIX, LOCK = "snowpack-scratch-", ".in-use"
NEVER_LOCKED_FOR = timedelta(hours=1)
"""An older folder without the file is removed too: its process was killed right after it created the folder."""


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Create a folder and remove it at the end, after removing the folders that killed processes of this user left."""
    for left_over in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # locked, or just removed
            _remove_abandoned(left_over)
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
        with suppress(OSError):  # a file system without locks: no process can find the file unlocked either
            fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return folder, lock
        os.close(lock)  # another process considered it abandoned before it was locked


def _remove_abandoned(folder: Path) -> None:
    """:raises OSError: a process uses the folder."""
    found = folder.lstat()  # any user may create links here, to folders that this user can change
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return
    try:
        lock = os.open(folder / LOCK, os.O_RDWR)
    except FileNotFoundError:
        if time.time() - found.st_mtime > NEVER_LOCKED_FOR.total_seconds():
            _remove(folder)
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(folder)
        log.info("scratch_removed: %s, the folder of a killed process", folder)
    finally:
        os.close(lock)


def _remove(folder: Path) -> None:
    # Folders may lack write permission, as in a repository. What cannot be removed is left to the next process.
    for root, folders, _ in os.walk(folder):
        for name in folders:
            path = Path(root) / name
            if not path.is_symlink():
                with suppress(OSError):  # owned by another user
                    path.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)
