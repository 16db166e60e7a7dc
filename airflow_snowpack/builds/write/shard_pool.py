"""Write shards without Spark: spool the rows to the local disk, then let parallel subprocesses write them shard by shard.

    spool = Spool(folder, schema, Placing(Sharding.hash(8), KeyType.STRING), "tail_number")
    for batch in batches: spool.add(batch)
    spool.close()
    ShardPool(SpooledRun(storage, run_id, plan, folder, spool.chunks), tries=3).write(range(8), processes=2)

Rows are collected into chunks of about 100 MB. Each chunk is sorted by shard and written as one Arrow file, beside the row
numbers at which its shards begin: 10,000 shards need no more files than one, and the writer of a shard reads only its part. Tasks
and answers are pickled and sent through pipes, so no credential appears on a command line. Invariants: no subprocess is left when
``write`` returns or raises; and none outlives its parent, because it ends with the pipe of its tasks.
"""

from __future__ import annotations

import logging
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

from airflow_snowpack.arrow.casting import cast_batch
from airflow_snowpack.backoff import backoff
from airflow_snowpack.builds.errors import BuildError, InvalidBuild, InvalidRowKey, ShardFailed, TooManyKeys, raised_elsewhere
from airflow_snowpack.builds.model import ShardAttemptResult, ShardingKind
from airflow_snowpack.builds.sharding import Placing, plain_keys
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.write.attempt import AttemptPlace, ShardPlan, write_attempt

log = logging.getLogger(__name__)

CHUNK_BYTES = 100 * 1024 * 1024
BEGINS = ".npy"
STOP_CHECK_S = 0.1
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=1), timedelta(seconds=4)
# Not "-m", which would load this module again under another name; "-P", because the current folder may hold any file.
COMMAND = (sys.executable, "-P", "-c", "from airflow_snowpack.builds.write.shard_pool import serve; serve()")


class Spool:
    """Collects rows on the local disk.

    :param folder: an empty local folder with space for all rows.
    :param chunk_bytes: the size of the rows to buffer in memory.
    :ivar chunks: how many files of rows were written.
    :raises InvalidBuild: the sharding is by an expression, which only Spark can evaluate, or by a column that does not exist.
    """

    def __init__(
        self, folder: Path, schema: pa.Schema, placing: Placing, key_column: str, *, chunk_bytes: int = CHUNK_BYTES
    ) -> None:
        sharding = placing.sharding
        if sharding.kind is ShardingKind.EXPRESSION:
            problem = "an SQL expression needs Spark; shard by hash or categories, or build with Spark"
            raise InvalidBuild("sharding", sharding.sql, problem)
        self._by = sharding.column or key_column
        if self._by not in schema.names:
            raise InvalidBuild("column", self._by, f"it must be one of the columns {', '.join(schema.names)}")
        self._folder = folder
        self._schema = schema
        self._placing = placing
        self._key = key_column
        self._chunk_bytes = chunk_bytes
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self.chunks = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        :raises InvalidRowKey: a key is null or outside of 64 bits, or a value is not a category.
        :raises InvalidBuild: the columns differ from the schema.
        """
        try:
            if batch.schema != self._schema:
                batch = cast_batch(batch.select(self._schema.names), self._schema, by_name=True)
        except (KeyError, pa.ArrowException, ValueError) as error:
            raise InvalidBuild("rows", batch.schema.names, f"they do not fit the first rows' columns ({error})") from error
        try:
            batch.validate(full=True)
        except pa.ArrowException as error:
            raise InvalidBuild("rows", batch.schema.names, f"they are not valid Arrow data ({error})") from error
        plain_keys(batch.column(self._key))
        self._pending.append(batch)
        self._pending_bytes += batch.nbytes
        if self._pending_bytes >= self._chunk_bytes:
            self.close()

    def close(self) -> None:
        """Write the buffered rows."""
        if not self._pending:
            return
        table = pa.Table.from_batches(self._pending, self._schema).combine_chunks()
        shards = self._placing.shards(table.column(self._by).combine_chunks()).to_numpy()
        order = np.argsort(shards, kind="stable")
        placed = table.take(pa.array(order)).combine_chunks()
        begins = np.searchsorted(shards[order], np.arange(self._placing.sharding.num_shards + 1))
        path = _chunk(self._folder, self.chunks)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, self._schema) as writer:
            writer.write_table(placed)
        np.save(path.with_suffix(BEGINS), begins)
        self.chunks += 1
        self._pending, self._pending_bytes = [], 0


def spooled_rows(folder: Path, chunks: int, shard_id: int, key_column: str, batch_size: int) -> Iterator[pa.RecordBatch]:
    """Yield a shard's rows from the files of a :class:`Spool`, sorted by key; all of them are in memory meanwhile.

    :raises FileNotFoundError: a file was removed.
    """
    parts = [_rows_in_chunk(_chunk(folder, number), shard_id) for number in range(chunks)]
    if parts:
        yield from pa.concat_tables(parts).sort_by(key_column).to_batches(batch_size)


def _chunk(folder: Path, number: int) -> Path:
    return folder / f"chunk-{number:05d}.arrow"


def _rows_in_chunk(path: Path, shard_id: int) -> pa.Table:
    begin, end = np.load(path.with_suffix(BEGINS), mmap_mode="r")[shard_id : shard_id + 2]
    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_file(file).read_all().slice(int(begin), int(end - begin))


@dataclass(frozen=True, slots=True)
class SpooledRun:
    """A run whose rows a :class:`Spool` wrote to ``folder``, in as many files as ``chunks``."""

    storage: Storage
    run_id: str
    plan: ShardPlan
    folder: Path
    chunks: int

    def write(self, shard_id: int, attempt: int) -> ShardAttemptResult:
        """Write an attempt at a shard, in a new folder."""
        place = AttemptPlace(self.run_id, shard_id, attempt, uuid4().hex)
        batches = spooled_rows(self.folder, self.chunks, shard_id, self.plan.key_column, self.plan.batch_size)
        return write_attempt(self.storage, place, self.plan, batches)


class ShardPool:
    """Writes the shards of a spooled run.

    :param tries: per shard, at least 1.
    :param pause: waits between tries, in seconds, or until the pool is stopped.
    """

    def __init__(self, run: SpooledRun, *, tries: int, pause: Callable[[float], object] | None = None) -> None:
        self._run = run
        self._tries = tries
        self._shards: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._running: set[ShardProcess] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._pause = pause or self._stopped.wait

    def write(self, shard_ids: Iterable[int], processes: int, stop: threading.Event | None = None) -> None:
        """Write these shards.

        :param stop: kills all subprocesses when set, by any thread.
        :raises ShardFailed: a shard failed in all of its tries.
        :raises BuildError: ``stop`` was set, or :func:`write_shard` raised an error that no retry would change.
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
            raise BuildError(f"The run {self._run.run_id} was stopped before all of its shards were written.")

    def _stop(self) -> None:
        with self._lock:
            self._stopped.set()
            for process in self._running:
                process.kill()

    def _work(self) -> None:
        process: ShardProcess | None = None
        try:
            while not self._stopped.is_set():
                process = self._write_shard(self._shards.get_nowait(), process)
        except queue.Empty:
            pass
        finally:
            self._end(process)

    def _write_shard(self, shard_id: int, process: ShardProcess | None) -> ShardProcess | None:
        """Write a shard, and return the process to reuse for the next shard."""
        last: Exception | None = None
        for attempt in range(self._tries):
            process = process or self._start()
            try:
                process.write(self._run, shard_id, attempt)
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
                    self._pause(backoff(FIRST_PAUSE, attempt, LONGEST_PAUSE).total_seconds())
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


Task = tuple[SpooledRun, int, int]
"""A run, a shard id, and the number of the try."""


class ProcessDied(Exception):
    """The subprocess ended without an answer."""


class ShardProcess:
    """The parent's side of a subprocess that writes one shard after another."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._tasks, self._answers = self._process.stdin, self._process.stdout

    def write(self, run: SpooledRun, shard_id: int, attempt: int) -> ShardAttemptResult:
        """Write a shard; raise its error, or ``ProcessDied`` if the subprocess was killed or exited."""
        try:
            pickle.dump((run, shard_id, attempt), self._tasks)
            self._tasks.flush()
            answer = pickle.load(self._answers)
        except (EOFError, OSError, pickle.UnpicklingError):
            code = self._process.wait()
            raise ProcessDied(f"its process ended with {'signal' if code < 0 else 'code'} {abs(code)}") from None
        if isinstance(answer, ShardAttemptResult):
            return answer
        raise raised_elsewhere(*answer)

    def kill(self) -> None:
        """Kill the subprocess; thread-safe."""
        self._process.kill()

    def close(self) -> None:
        self.kill()
        self._process.wait()
        for pipe in (self._tasks, self._answers):
            with suppress(OSError):  # a half-sent task
                pipe.close()


def serve() -> None:
    """Run tasks in the subprocess until the parent is gone."""
    tasks: queue.SimpleQueue[Task] = queue.SimpleQueue()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # other output must not mix with the answers
    threading.Thread(target=_receive, args=(sys.stdin.buffer, tasks), daemon=True).start()
    while True:
        pickle.dump(_answer(*tasks.get()), answers)
        answers.flush()


def _answer(run: SpooledRun, shard_id: int, attempt: int) -> Any:
    try:
        return run.write(shard_id, attempt)
    except BuildError as error:
        return type(error).__name__, str(error)
    except Exception as error:  # noqa: BLE001 - the parent decides what any failure means for the shard
        return BuildError.__name__, f"{type(error).__name__}: {error}"


def _receive(source: IO[bytes], tasks: queue.SimpleQueue[Task]) -> None:
    while True:
        try:
            tasks.put(pickle.load(source))
        except BaseException:  # noqa: BLE001 - the end of the pipe, or half a task: the parent is gone
            os._exit(1)
