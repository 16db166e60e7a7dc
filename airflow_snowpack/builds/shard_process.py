"""A subprocess that writes one shard after another, and its two ends.

    process = ShardProcess()
    process.write(ShardTask(storage, run_id, 7, 0, plan, folder))       # raises what went wrong over there
    process.close()

A task and its answer are pickled and go through pipes, so that no credential stands on a command line. The invariant: **the
subprocess never outlives its parent**, not even one that was killed: it ends when the pipe that its tasks come through does.
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from airflow_snowpack.builds.attempt import Place, write_attempt
from airflow_snowpack.builds.errors import BuildError, raised_elsewhere
from airflow_snowpack.builds.model import ShardAttemptResult
from airflow_snowpack.builds.shards import ShardPlan
from airflow_snowpack.builds.spool import SpooledShard
from airflow_snowpack.builds.storage import Storage

# Not by "-m", which would make this module another one over there; "-P", as a file in the current folder may have any name.
COMMAND = (sys.executable, "-P", "-c", "from airflow_snowpack.builds.shard_process import serve; serve()")


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
        """Write the attempt; its folder carries a fresh id."""
        place = Place(self.run_id, self.shard_id, self.attempt, uuid4().hex)
        batches = SpooledShard(self.folder, self.shard_id).batches(self.plan.key_column, self.plan.batch_size)
        return write_attempt(self.storage, place, self.plan, batches)


class ShardProcess:
    """The parent's end."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def write(self, task: ShardTask) -> ShardAttemptResult:
        """Have a task done.

        :raises BuildError: what went wrong with it.
        :raises ProcessDied: the subprocess was killed, or ended by itself.
        """
        to, answers = _pipes(self._process)
        try:
            pickle.dump(task, to)
            to.flush()
            answer = pickle.load(answers)
        except (EOFError, OSError, pickle.UnpicklingError):
            code = self._process.wait()
            raise ProcessDied(f"its process ended with {'signal' if code < 0 else 'code'} {abs(code)}") from None
        if isinstance(answer, ShardAttemptResult):
            return answer
        raise raised_elsewhere(*answer)

    def kill(self) -> None:
        """End it at once, whatever it does; from any thread."""
        self._process.kill()

    def close(self) -> None:
        """End it and wait for that."""
        self.kill()
        self._process.wait()
        for pipe in _pipes(self._process):
            with suppress(OSError):  # a task that was only half sent
                pipe.close()


def serve() -> None:
    """The subprocess's end: do what comes in, until nothing can come any more."""
    tasks: queue.SimpleQueue[ShardTask] = queue.SimpleQueue()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else is printed must not get among the answers
    threading.Thread(target=_receive, args=(sys.stdin.buffer, tasks), daemon=True).start()
    while True:
        pickle.dump(_answer(tasks.get()), answers)
        answers.flush()


def _answer(task: ShardTask) -> Any:
    try:
        return task.run()
    except BuildError as error:
        return type(error).__name__, str(error)
    except Exception as error:  # noqa: BLE001 - whatever it is, the parent decides what becomes of the shard
        return BuildError.__name__, f"{type(error).__name__}: {error}"


def _receive(source: IO[bytes], tasks: queue.SimpleQueue[ShardTask]) -> None:
    while True:
        try:
            tasks.put(pickle.load(source))
        except BaseException:  # noqa: BLE001 - the end of the pipe, or half a task: the parent is gone
            os._exit(1)


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout
