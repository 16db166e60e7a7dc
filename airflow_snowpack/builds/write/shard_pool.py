"""Subprocesses that write the shards of a spool in parallel, each shard in several tries if needed.

    ShardPool(storage, run_id, plan, folder, tries=3).write(range(8), processes=2)

Tasks and answers are pickled and go through pipes, so that no credential appears on a command line. The invariants: when
``write`` returns or raises, no subprocess is left; and no subprocess outlives its parent, as it ends when the pipe of its tasks
does.
"""

from __future__ import annotations

import logging
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from airflow_snowpack.builds.errors import BuildError, InvalidBuild, InvalidRowKey, ShardFailed, TooManyKeys, raised_elsewhere
from airflow_snowpack.builds.model import ShardAttemptResult
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.write.attempt import AttemptPlace, ShardPlan, write_attempt
from airflow_snowpack.builds.write.spool import spooled_rows

log = logging.getLogger(__name__)

STOP_CHECK_S = 0.1
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 4.0
# Not by "-m", which would load this module a second time under another name; "-P", as the current folder may hold any file.
COMMAND = (sys.executable, "-P", "-c", "from airflow_snowpack.builds.write.shard_pool import serve; serve()")


class ShardPool:
    """Writes the shards of a spool.

    :param folder: of the spool.
    :param tries: of each shard, at least 1.
    :param pause: waits for a number of seconds between two tries, or until the pool is stopped.
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
        self._stopped = threading.Event()
        self._pause = pause or self._stopped.wait

    def write(self, shard_ids: Iterable[int], processes: int, stop: threading.Event | None = None) -> None:
        """Write these shards.

        :param stop: stops all subprocesses at once when any thread sets it.
        :raises ShardFailed: a shard could not be written in any of its tries.
        :raises InvalidRowKey: see :func:`write_shard`.
        :raises BuildError: ``stop`` was set.
        """
        for shard_id in shard_ids:
            self._shards.put(shard_id)
        with ThreadPoolExecutor(processes, "snowpack-shards") as pool:
            workers = [pool.submit(self._work) for _ in range(processes)]
            try:
                while wait(workers, STOP_CHECK_S, FIRST_EXCEPTION).not_done:
                    if (stop is not None and stop.is_set()) or any(each.done() and each.exception() for each in workers):
                        break
            finally:
                self._stop()
        for worker in workers:
            worker.result()
        if stop is not None and stop.is_set():
            raise BuildError(f"The run {self._run_id} was stopped before all of its shards were written.")

    def _stop(self) -> None:
        with self._lock:
            self._stopped.set()
            for process in self._running:
                process.kill()

    def _work(self) -> None:
        process: ShardProcess | None = None
        try:
            while not self._stopped.is_set():
                process = self._written(self._shards.get_nowait(), process)
        except queue.Empty:
            pass
        finally:
            self._end(process)

    def _written(self, shard_id: int, process: ShardProcess | None) -> ShardProcess | None:
        """Write a shard, and return the process that did, for the next one."""
        last: Exception | None = None
        for attempt in range(self._tries):
            process = process or self._start()
            task = ShardTask(self._storage, self._run_id, shard_id, attempt, self._plan, self._folder)
            try:
                process.write(task)
            except (InvalidRowKey, InvalidBuild, TooManyKeys):
                self._end(process)
                raise
            except (BuildError, ProcessDied) as error:
                self._end(process)
                if self._stopped.is_set():
                    return None
                log.warning("Try %s of %s at shard %s failed: %s", attempt + 1, self._tries, shard_id, error)
                process, last = None, error
                if attempt + 1 < self._tries:
                    self._pause(min(FIRST_PAUSE_S * 2**attempt, LONGEST_PAUSE_S))
                if self._stopped.is_set():
                    return None
            else:
                return process
        raise ShardFailed(shard_id, self._tries, last)

    def _start(self) -> ShardProcess:
        process = ShardProcess()
        with self._lock:
            self._running.add(process)
            if self._stopped.is_set():
                process.kill()
        return process

    def _end(self, process: ShardProcess | None) -> None:
        if process is None:
            return
        with self._lock:
            self._running.discard(process)
        process.close()


class ProcessDied(Exception):
    """The subprocess has ended without an answer."""


@dataclass(frozen=True, slots=True)
class ShardTask:
    """One try at one shard.

    :param folder: of the spool.
    """

    storage: Storage
    run_id: str
    shard_id: int
    attempt: int
    plan: ShardPlan
    folder: Path

    def run(self) -> ShardAttemptResult:
        """Write the attempt, in a folder with a new id."""
        place = AttemptPlace(self.run_id, self.shard_id, self.attempt, uuid4().hex)
        batches = spooled_rows(self.folder, self.shard_id, self.plan.key_column, self.plan.batch_size)
        return write_attempt(self.storage, place, self.plan, batches)


class ShardProcess:
    """A subprocess that writes one shard after another, as its parent sees it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._tasks, self._answers = self._process.stdin, self._process.stdout

    def write(self, task: ShardTask) -> ShardAttemptResult:
        """Run a task.

        :raises BuildError: what the task raised.
        :raises ProcessDied: the subprocess was killed, or ended by itself.
        """
        try:
            pickle.dump(task, self._tasks)
            self._tasks.flush()
            answer = pickle.load(self._answers)
        except (EOFError, OSError, pickle.UnpicklingError):
            code = self._process.wait()
            raise ProcessDied(f"its process ended with {'signal' if code < 0 else 'code'} {abs(code)}") from None
        if isinstance(answer, ShardAttemptResult):
            return answer
        raise raised_elsewhere(*answer)

    def kill(self) -> None:
        """End it at once; any thread may call this."""
        self._process.kill()

    def close(self) -> None:
        """End it and wait for its end."""
        self.kill()
        self._process.wait()
        for pipe in (self._tasks, self._answers):
            with suppress(OSError):  # a task that was only half sent
                pipe.close()


def serve() -> None:
    """Run tasks in the subprocess until the parent is gone."""
    tasks: queue.SimpleQueue[ShardTask] = queue.SimpleQueue()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # other output must not mix with the answers
    threading.Thread(target=_receive, args=(sys.stdin.buffer, tasks), daemon=True).start()
    while True:
        pickle.dump(_answer(tasks.get()), answers)
        answers.flush()


def _answer(task: ShardTask) -> Any:
    try:
        return task.run()
    except BuildError as error:
        return type(error).__name__, str(error)
    except Exception as error:  # noqa: BLE001 - the parent decides what any failure means for the shard
        return BuildError.__name__, f"{type(error).__name__}: {error}"


def _receive(source: IO[bytes], tasks: queue.SimpleQueue[ShardTask]) -> None:
    while True:
        try:
            tasks.put(pickle.load(source))
        except BaseException:  # noqa: BLE001 - the end of the pipe, or half a task: the parent is gone
            os._exit(1)
