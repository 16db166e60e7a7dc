"""The exchange folders of a worker: one for each attempt of a task that runs an entry.

    exchanges = Exchanges(Path("/var/lib/snowpack"))
    with exchanges.begin("dag/run/score/-1", attempt_id) as exchange:
        ...
    exchanges.sweep()

A folder is removed by its task, or by the supervisor of a task that was killed. Otherwise the next attempt of the same task
instance removes it or, after a day, any other entry on this worker, or a sweep. A folder that a deferred task has left counts as
used for as long as the task may wait.

The invariant: a folder that a live process uses is not removed by another one. Its user holds a lock on the file ``in_use``, and
touches it every minute, for a file system that does not pass on locks to other hosts. An entry may replace that file by a link,
which is not followed, or change the folder's owner to the user of its image, which affects no other entry.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import secrets
import shutil
import tempfile
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from airflow_snowpack.runners.entry import Entry
from airflow_snowpack.runners.entry_process import INPUTS, OUTPUTS
from airflow_snowpack.runners.errors import ExchangeFolderUnusable
from airflow_snowpack.runners.exchange import Exchange

log = logging.getLogger(__name__)

PREFIX, IN_USE = "entry-", "in_use"
STALE_AFTER = timedelta(days=1)
TOUCH_INTERVAL_S = 60.0
UNFOLLOWED = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK


class Exchanges:
    """The exchange folders below one folder of the worker.

    :param root: the setting ``runner_folder``; created when it is needed.
    :param installation: distinguishes installations that share the root, and may have DAGs and runs of the same names.
    """

    def __init__(self, root: Path, installation: str = "") -> None:
        self.root = root.absolute()
        self._installation = installation

    def begin(self, task: str, attempt: str, *, shared: bool = False) -> Exchange:
        """Create the folder of this attempt, and remove those that earlier attempts of the task instance have left.

        :param task: the task instance, ``dag/run/task/map_index``; its hash is part of the folder's name.
        :param attempt: the id of the attempt.
        :param shared: whether the entry may run as another user, as in a container or pod: every user with the folder's name can
            then read it and write its outputs.
        :raises ExchangeFolderUnusable: the folder cannot be created.
        """
        folder = self.root / f"{self._prefix(task)}{_hash(attempt)}-{secrets.token_hex(4)}"
        try:
            self.root.mkdir(mode=0o711, parents=True, exist_ok=True)
            for leftover in self.root.glob(f"{self._prefix(task)}*"):
                if not _is_in_use(leftover):
                    _remove(leftover)
            self.sweep()
            folder.mkdir(mode=0o700)
            use = _Use(folder)
            for name in (INPUTS, OUTPUTS):
                (folder / name).mkdir()
            if shared:  # whatever the umask is
                for path, mode in ((folder / INPUTS, 0o755), (folder / OUTPUTS, 0o777), (folder, 0o777)):
                    path.chmod(mode)
        except OSError as error:
            raise ExchangeFolderUnusable(folder, error.strerror) from error
        return Exchange(folder, use.end)

    def resume(self, task: str, attempt: str, entry: Entry) -> Exchange:
        """Return the folder of an attempt that has waited outside of its process, as a deferred task does.

        :raises ExchangeFolderUnusable: it does not exist on this worker.
        """
        found = list(self.root.glob(f"{self._prefix(task)}{_hash(attempt)}-*"))
        if not found:
            raise ExchangeFolderUnusable(self.root, f"it has no folder of {task}; a task that defers needs workers that share it")
        try:
            use = _Use(found[0])
        except OSError as error:
            raise ExchangeFolderUnusable(found[0], f"{IN_USE}: {error.strerror}") from error
        return Exchange(found[0], use.end, entry)

    def sweep(self, *, unused_for: timedelta = STALE_AFTER) -> list[Path]:
        """Remove and return the folders that no process has used or needs for this long.

        :raises ExchangeFolderUnusable: the root cannot be read or written to.
        """
        if not self.root.is_dir():
            return []
        try:
            return [folder for folder in self._unused(unused_for) if _remove(folder)]
        except OSError as error:
            raise ExchangeFolderUnusable(self.root, error.strerror) from error

    def _unused(self, unused_for: timedelta) -> Iterator[Path]:
        now = self._now()
        for folder in sorted(self.root.glob(f"{PREFIX}*")):
            if now - _last_use(folder, now) >= unused_for.total_seconds() and not _is_in_use(folder):
                yield folder

    def _prefix(self, task: str) -> str:
        return f"{PREFIX}{_hash(f'{self._installation}/{task}' if self._installation else task)}-"

    def _now(self) -> float:
        """Return the time of the file system, for comparison with the times of the folders."""
        with tempfile.TemporaryFile(dir=self.root) as new:
            return os.fstat(new.fileno()).st_mtime


class _Use:
    """The use of a folder by this process, until it ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = os.open(folder / IN_USE, UNFOLLOWED | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:  # this file system has no locks
            log.debug("The exchange folder %s cannot be locked: %s", folder, error)
        self._ended = threading.Event()
        self._touching = threading.Thread(target=self._touch, name="snowpack-exchange", daemon=True)
        self._touching.start()

    def end(self, needed_for: timedelta | None) -> None:
        """Release the folder, and remove it if no other process needs it."""
        if self._ended.is_set():
            return
        self._ended.set()
        self._touching.join()
        if needed_for is None:
            _remove(self._folder)
        else:
            self._keep(needed_for)
        os.close(self._lock)

    def _keep(self, needed_for: timedelta) -> None:
        try:
            os.utime(self._lock)
            until = os.fstat(self._lock).st_mtime + needed_for.total_seconds()
            os.utime(self._lock, (until, until))
        except OSError as error:  # an image may have changed the owner of the files
            log.warning(
                "The exchange folder %s is kept for a day only: its time cannot be set (%s)", self._folder, error.strerror
            )

    def _touch(self) -> None:
        while not self._ended.wait(TOUCH_INTERVAL_S):
            try:
                os.utime(self._lock)
            except OSError as error:
                log.debug("The exchange folder %s could not be touched: %s", self._folder, error)


def _last_use(folder: Path, now: float) -> float:
    """Return when a process last used the folder; now, if it is being removed."""
    try:
        begun = folder.lstat().st_mtime
    except FileNotFoundError:
        return now
    try:
        return max(begun, (folder / IN_USE).lstat().st_mtime)
    except OSError:  # it does not exist, or this user may not read it
        return begun


def _is_in_use(folder: Path) -> bool:
    """Return whether a live process of this host, or of one that shares locks with it, uses the folder."""
    try:
        lock = os.open(folder / IN_USE, UNFOLLOWED)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    else:
        return False
    finally:
        os.close(lock)


def _remove(folder: Path) -> bool:
    """Remove a folder; return whether it is gone."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        for path, _, _ in os.walk(folder):  # a folder may be read-only; its owner can change that
            try:
                os.chmod(path, 0o700)
            except OSError:
                continue
        shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        log.warning("The exchange folder %s could not be removed: files in it belong to another user. Remove it.", folder)
        return False
    return True


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]
