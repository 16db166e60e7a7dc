"""Subprocesses that share the shards of a build, each of which may need several tries.

    ShardCrew(storage, run_id, plan, folder, tries=3).write(range(8), processes=2)

The invariant: when ``write`` returns, however it does, no subprocess is left.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

from airflow_snowpack.builds.errors import BuildError, InvalidBuild, InvalidKey, ShardFailed, TooManyKeys
from airflow_snowpack.builds.shard_process import ProcessDied, ShardProcess, ShardTask
from airflow_snowpack.builds.shards import ShardPlan
from airflow_snowpack.builds.storage import Storage

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.1
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 4.0


class ShardCrew:
    """Writes shards of a spool.

    :param folder: of the spool.
    :param tries: for each shard, at least 1.
    :param pause: waits so many seconds between two tries, or until the crew is to end.
    """

    def __init__(
        self,
        storage: Storage,
        run_id: str,
        plan: ShardPlan,
        folder: Path,
        *,
        tries: int,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        self._storage = storage
        self._run_id = run_id
        self._plan = plan
        self._folder = folder
        self._tries = tries
        self._shards: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._running: set[ShardProcess] = set()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._pause = pause or self._over.wait

    def write(self, shard_ids: Iterable[int], processes: int, stop: threading.Event | None = None) -> None:
        """Write these shards.

        :param stop: when it is set, from whatever thread, everything ends at once.
        :raises ShardFailed: a shard could not be written in all of its tries.
        :raises InvalidKey: see :func:`write_shard`.
        :raises BuildError: it was stopped.
        """
        for shard_id in shard_ids:
            self._shards.put(shard_id)
        with ThreadPoolExecutor(processes, "snowpack-shards") as pool:
            workers = [pool.submit(self._work) for _ in range(processes)]
            try:
                while wait(workers, LOOK_SECONDS, FIRST_EXCEPTION).not_done:
                    if (stop is not None and stop.is_set()) or any(each.done() and each.exception() for each in workers):
                        break
            finally:
                self._end_all()
        for worker in workers:
            worker.result()
        if stop is not None and stop.is_set():
            raise BuildError(f"The writing of the run {self._run_id} was stopped before all of its shards were there.")

    def _end_all(self) -> None:
        with self._lock:
            self._over.set()
            for process in self._running:
                process.kill()

    def _work(self) -> None:
        process: ShardProcess | None = None
        try:
            while not self._over.is_set():
                process = self._written(self._shards.get_nowait(), process)
        except queue.Empty:
            pass
        finally:
            self._end(process)

    def _written(self, shard_id: int, process: ShardProcess | None) -> ShardProcess | None:
        """Write a shard; the answer is the process that did it, for the next one."""
        last: Exception | None = None
        for attempt in range(self._tries):
            process = process or self._start()
            task = ShardTask(self._storage, self._run_id, shard_id, attempt, self._plan, self._folder)
            try:
                process.write(task)
            except (InvalidKey, InvalidBuild, TooManyKeys):
                self._end(process)
                raise
            except (BuildError, ProcessDied) as error:
                self._end(process)
                if self._over.is_set():
                    return None
                log.warning("Try %s of %s at shard %s failed: %s", attempt + 1, self._tries, shard_id, error)
                process, last = None, error
                if attempt + 1 < self._tries:
                    self._pause(min(FIRST_PAUSE_S * 2**attempt, LONGEST_PAUSE_S))
                if self._over.is_set():
                    return None
            else:
                return process
        raise ShardFailed(shard_id, self._tries, last)

    def _start(self) -> ShardProcess:
        process = ShardProcess()
        with self._lock:
            self._running.add(process)
            if self._over.is_set():
                process.kill()
        return process

    def _end(self, process: ShardProcess | None) -> None:
        if process is None:
            return
        with self._lock:
            self._running.discard(process)
        process.close()
