"""One attempt of a task: the tables it receives, and the outputs it passes to its consumers.

    with TableHandover(registry, open_catalog, attempt, catalog_name="lake", consumers=task.downstream_task_ids) as handover:
        def work():
            df = handover.read(ref, session)
            return handover.give(df.where("distance > 500"))
        ref = handover.run(session, work)
    return ref.to_json()                                     # the XCom

Invariant: nothing is committed before everything is written; then one transaction commits all of it. A table is recorded before
it exists, and committed, fenced, when the block ends without an error. A block that fails or loses its fence commits nothing and
leaves its tables to the collector. Received tables are read as recorded, and are not dropped until the block ends.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import pyarrow as pa
from pyiceberg.catalog import Catalog

from airflow_snowpack.interim.errors import InterimReadingLost, StaleInterimAttempt, UnusableOutput
from airflow_snowpack.interim.forms import FrameKind, frame_kind
from airflow_snowpack.interim.frames.tables import read_as_arrow, read_as_batches, read_on_spark, sources_of, write_table
from airflow_snowpack.interim.map_reduce.errors import function_failure
from airflow_snowpack.interim.model import OutputOptions, Reading, TaskAttempt, Writing
from airflow_snowpack.interim.names import DEFAULT_OUTPUT, Scope
from airflow_snowpack.interim.refs import Ref, TableRef, ViewRef, is_named, is_ref, read_named
from airflow_snowpack.interim.registry import InterimRegistry, Output
from airflow_snowpack.lineage.operation import TableAt
from airflow_snowpack.spark import SparkFailed, SparkInterrupted, SparkWork
from airflow_snowpack.store import storable
from airflow_snowpack.store.keep_alive import KeepAlive

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)
MAX_OUTPUT_NAME = 250
"""In characters: the name is part of a key in the store."""
T = TypeVar("T")


class TableHandover:
    """The inputs and outputs of one attempt.

    :param open_catalog: called only if the task uses tables.
    :param catalog_name: the first part of ``lake.snowpack_interim.t``.
    :param consumers: the ids of the tasks that may need the outputs.
    :param options: the default options of :meth:`give`.
    """

    def __init__(
        self,
        registry: InterimRegistry,
        open_catalog: Callable[[], Catalog],
        attempt: TaskAttempt,
        *,
        catalog_name: str,
        consumers: Iterable[str],
        options: OutputOptions | None = None,
    ) -> None:
        self.registry = registry
        self.attempt = attempt
        self.consumers = frozenset(consumers)
        self.options = options or OutputOptions()
        self.work = SparkWork()
        self._open_catalog = open_catalog
        self._catalog_name = catalog_name
        self._readings: list[Reading] = []
        self._received: dict[str, TableRef] = {}
        self._begun: dict[str, Writing] = {}
        self._outputs: dict[str, Output] = {}
        self._passed_on: list[Ref] = []
        self._working = False
        self._interrupted = False  # no event: a signal may arrive while its lock is held
        self._stop: Callable[[], None] | None = None
        self._heartbeat = Heartbeat(registry, attempt, on_lost=self.interrupt)

    def receive(self, refs: Iterable[Ref]) -> None:
        """Protect these tables from being dropped until the block ends.

        :raises InterimTableGone: one no longer exists; none was received.
        :raises InvalidInterimRef: a reference names another table than the record of its id.
        """
        new = [ref for ref in refs if ref.of.table_id not in self._received]
        if new:
            self._add(self.registry.consume(new, attempt=self.attempt))

    def receive_named(self, name: str, scope: Scope) -> TableRef:
        """Find a table by name and protect it from being dropped until the block ends, or raise :class:`InterimTableNotFound`."""
        reading = self.registry.consume_named(name, scope=scope, attempt=self.attempt)
        self._add(reading)
        return reading.tables[0]

    def resolved(self, value: Any) -> Any:
        """Replace table names by references, and a mapped task's results by a list, at any depth; keep unchanged containers.

        :raises InterimTableNotFound: a name points to no table.
        """
        if is_named(value):
            return self.receive_named(*read_named(value))
        if isinstance(value, Mapping) and not is_ref(value):
            found = {key: self.resolved(item) for key, item in value.items()}
            return value if all(found[key] is item for key, item in value.items()) else found
        if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
            items = [self.resolved(item) for item in value]
            return value if all(new is item for new, item in zip(items, value, strict=True)) else type(value)(items)
        if type(value).__name__ == "LazyXComSequence":
            return self.resolved(value[:])  # all of them in one request to Airflow
        return value

    def has_received(self, ref: Ref) -> bool:
        return ref.of.table_id in self._received

    def recorded(self, ref: Ref) -> Ref:
        """Return the reference with its table as recorded, if it was received: other fields of a reference are not trusted."""
        table = self._received.get(ref.of.table_id, ref.of)
        return replace(ref, of=table) if isinstance(ref, ViewRef) else table

    def read(self, ref: Ref, session: SparkSession) -> DataFrame:
        """Return the rows as a lazy Spark DataFrame, valid until the block ends; raises like :meth:`receive`."""
        self.receive([ref])
        return read_on_spark(self.recorded(ref), session)

    def read_arrow(self, ref: Ref) -> pa.Table:
        """Return the rows in memory, without Spark.

        :raises InterimTableGone: the table no longer exists.
        :raises UnreadableView: only Spark can read this view.
        """
        self.receive([ref])
        return read_as_arrow(self.recorded(ref), self._open_catalog())

    def read_batches(self, ref: Ref) -> pa.RecordBatchReader:
        """Return the rows batch by batch, without Spark, until the block ends; raises like :meth:`read_arrow`."""
        self.receive([ref])
        return read_as_batches(self.recorded(ref), self._open_catalog())

    def give(
        self, frame: Any, output: str = DEFAULT_OUTPUT, *, options: OutputOptions | None = None, **recorded: Any
    ) -> TableRef:
        """Write rows as an output of the task, to be committed when the block ends without an error.

        :param frame: a DataFrame of Spark or pandas, or anything with an Arrow stream.
        :param recorded: for the lineage: the fields ``kind``, ``detail`` and ``inputs`` of
            :class:`~airflow_snowpack.interim.registry.Output`; received tables and the sources of a DataFrame's plan are added.
        :raises UnusableOutput: the store cannot hold this name, or the task has already returned the output.
        :raises UnwritableFrame: Iceberg cannot store these rows.
        :raises StaleInterimAttempt: an attempt that started later has begun.
        """
        if frame_kind(frame) is FrameKind.SPARK and not self._working:
            return self.run(frame.sparkSession, lambda: self.give(frame, output, options=options, **recorded))
        if storable(output) != output or len(output) > MAX_OUTPUT_NAME:
            rule = f"at most {MAX_OUTPUT_NAME} characters, none of them NUL or half of a surrogate pair"
            raise UnusableOutput(
                "output", output, f"the name of a table in a result has {rule}; rename the key of its dictionary"
            )
        if output in self._begun:
            raise UnusableOutput("output", output, "the task has returned this output already")
        options = options or self.options
        writing = self.registry.begin(self.attempt, catalog=self._catalog_name, output=output, options=options)
        self._begun[output] = writing
        sources = [*recorded.pop("inputs", ()), *sources_of(frame)]
        self._heartbeat.add(writing)
        written = write_table(frame, writing.table, self._open_catalog(), self.registry.store.identity)
        made = Output(writing, written.snapshot_id, written.rows, written.location, inputs=sources, **recorded)
        self._outputs[output] = made
        return made.ref

    def pass_on(self, ref: Ref) -> None:
        """Return another task's table as this task's output, too: this task's consumers then need it."""
        self._passed_on.append(ref)

    def run(self, session: SparkSession, call: Callable[[], T]) -> T:
        """Run work on Spark; :meth:`interrupt` stops it.

        :raises FunctionError: a function that maps or reduces rows has failed.
        :raises SparkFailed: Spark refused the work, or failed.
        :raises StaleInterimAttempt, InterimReadingLost: another attempt has taken over, or Airflow reported that this one ended.
        :raises SparkInterrupted: :meth:`interrupt` stopped it.
        """
        self._working = True
        try:
            return self.work.run(session, call)
        except SparkFailed as failed:
            raise function_failure(failed) or failed from failed.__cause__
        except SparkInterrupted:
            self._heartbeat.refuse_lost()
            raise
        finally:
            self._working = False

    def supervise(self, call: Callable[[], T], stop: Callable[[], None]) -> T:
        """Run work outside of this process; :meth:`interrupt` or the loss of a lease stops it.

        :param stop: ends the work and thereby ``call``; any thread may call it, repeatedly.
        :raises StaleInterimAttempt, InterimReadingLost: another attempt has taken over, or Airflow reported that this one ended.
        """
        self._stop = stop
        try:
            if self._interrupted:  # before there was work to stop
                stop()
            return call()
        except Exception:
            self._heartbeat.refuse_lost()
            raise
        finally:
            self._stop = None

    def interrupt(self) -> None:
        """Stop the work on Spark and supervised work. A signal handler may call this."""
        self._interrupted = True
        self.work.interrupt()
        if (stop := self._stop) is not None:
            stop()

    def abandon(self, why: str) -> None:
        """Leave the written tables to the collector. Any thread may call this, repeatedly."""
        for writing in list(self._begun.values()):
            self._heartbeat.remove(writing)
            self.registry.abandon(writing, why)
        self._begun.clear()

    def __enter__(self) -> Self:
        self._heartbeat.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        try:
            if error is None:
                self._commit()
            else:
                self._clean_up(f"the task failed with {type(error).__name__}")
        except BaseException:
            self._clean_up("it could not be committed")
            raise
        finally:
            self._heartbeat.__exit__(kind, error, traceback)
            self._release()

    def _add(self, reading: Reading) -> None:
        self._readings.append(reading)
        self._received |= {table.table_id: table for table in reading.tables}
        self._heartbeat.add(reading)

    def _commit(self) -> None:
        if self._passed_on:
            self.registry.pin_on(self._passed_on, consumers=self.consumers, attempt=self.attempt)
        assert self._begun.keys() == self._outputs.keys(), "an output is written, or its write has raised"
        read = [TableAt(table.table, table.snapshot_id) for table in self._received.values()]
        outputs = [replace(output, inputs=[*read, *output.inputs]) for output in self._outputs.values()]
        for output in outputs:
            self._heartbeat.remove(output.writing)
        self.registry.commit(*outputs, consumers=self.consumers)
        self._begun.clear()
        for output in outputs:
            log.info("Committed %s for %s", output.writing.table, ", ".join(sorted(self.consumers)) or "no consumers")

    def _clean_up(self, why: str) -> None:
        """Abandon the outputs after a failure, which stays the reported error; the collector finds the rest."""
        try:
            self.abandon(why)
        except Exception:
            log.warning("The outputs of %s could not be abandoned; the collector drops them", self.attempt, exc_info=True)

    def _release(self) -> None:
        for reading in self._readings:
            try:
                self.registry.release(reading)
            except Exception:  # the task is done; the reading ends with its lease
                log.warning("The tables that %s has read could not be released; their lease expires", self.attempt, exc_info=True)


class Heartbeat(KeepAlive):
    """Renews the leases of everything that one attempt writes and reads, in one thread.

    Only an answer of the store means that a lease is lost. While the store does not answer, the heartbeat is retried, even beyond
    the lease: no process takes a table from an attempt that Airflow reports as running, and if one has, the fence prevents this
    attempt's commit. The first loss ends the heartbeat, because the attempt can no longer commit.

    :param on_lost: called once, in the heartbeat's thread, when a lease is lost.
    :ivar lost_lease: the lost lease.
    """

    def __init__(self, registry: InterimRegistry, attempt: TaskAttempt, *, on_lost: Callable[[], None] = lambda: None) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._leased: dict[str, Writing | Reading] = {}
        self.lost_lease: Writing | Reading | None = None
        every, what = min(registry.policy.heartbeat, registry.policy.lease / 3), f"the interim tables of {attempt}"
        super().__init__(self._renew, every=every, lost_after=None, what=what, on_lost=on_lost)

    def add(self, leased: Writing | Reading) -> None:
        """Renew this lease from now on. A reading without tables has none."""
        if isinstance(leased, Writing) or leased.tables:
            with self._lock:
                self._leased[_key(leased)] = leased

    def remove(self, leased: Writing | Reading) -> None:
        """Stop renewing this lease: the table is about to be committed, abandoned or released."""
        with self._lock:
            self._leased.pop(_key(leased), None)

    def refuse_lost(self) -> None:
        """Raise :class:`StaleInterimAttempt` or :class:`InterimReadingLost` if a lost lease prevents the commit."""
        if isinstance(self.lost_lease, Writing):
            raise StaleInterimAttempt(f"the output {self.lost_lease.producer}")
        if isinstance(self.lost_lease, Reading):
            raise InterimReadingLost(str(self.lost_lease.attempt), [table.table for table in self.lost_lease.tables])

    def _renew(self) -> bool:
        """Renew every lease; return ``False`` if one is lost."""
        with self._lock:
            leased = list(self._leased.values())
        for each in leased:
            if self._registry.heartbeat(each):
                continue
            with self._lock:
                if _key(each) in self._leased:  # otherwise it was not found because it was just removed
                    self.lost_lease = self.lost_lease or each
        return self.lost_lease is None


def _key(leased: Writing | Reading) -> str:
    return leased.table_id if isinstance(leased, Writing) else leased.reading_id
