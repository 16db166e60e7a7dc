"""One attempt of a task at its interim tables: what it was handed, and what it hands on.

    with Handover(registry, lambda: catalog, holder, catalog_name="lake", consumers=task.downstream_task_ids) as handover:
        def work():
            df = handover.read(ref, session)
            return handover.give(df.where("distance > 500"))
        handed = handover.run(session, work)
    return handed.to_json()                                     # the XCom

The invariant: nothing is handed on before everything is written, and then all of it at once. A table is on record before it
exists and is handed on when the block ends well, each output fenced; a block that fails, or whose fence has moved, hands on
nothing and leaves its tables to the collector. What was received is read as it is on record, and stays where it is until the
block ends, however it ends.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from airflow_snowpack.interim.errors import UnusableOutput
from airflow_snowpack.interim.forms import FrameKind, frame_kind
from airflow_snowpack.interim.frames.reading import read_as_arrow, read_on_spark
from airflow_snowpack.interim.frames.writing import sources_of, write_table
from airflow_snowpack.interim.heartbeat import Heartbeat
from airflow_snowpack.interim.map_reduce.errors import function_failure
from airflow_snowpack.interim.model import DEFAULT_OUTPUT
from airflow_snowpack.interim.names import Scope
from airflow_snowpack.interim.outputs import Complete
from airflow_snowpack.interim.refs import TableRef, ViewRef
from airflow_snowpack.lineage.operation import TableAt
from airflow_snowpack.preservation import Preservation
from airflow_snowpack.spark import SparkFailed, SparkInterrupted, SparkWork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import timedelta

    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyspark.sql import DataFrame, SparkSession

    from airflow_snowpack.interim.frames.writing import Written
    from airflow_snowpack.interim.model import Holder, Reading, Writing
    from airflow_snowpack.interim.refs import Ref
    from airflow_snowpack.interim.registry import InterimRegistry

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Keeping:
    """What becomes of a table that was handed on.

    :param name: what others find it by; ``None``: only who is handed its reference.
    :param scope: where the name is known.
    :param preservation: ``FULL`` keeps it when nobody needs it any more.
    :param ttl: for how long it is preserved, or keeps its global name; ``None``: without end.
    """

    name: str | None = None
    scope: Scope = Scope.RUN
    preservation: Preservation = Preservation.NONE
    ttl: timedelta | None = None


@dataclass(slots=True)
class _Given:
    """An output on its way; ``written`` when it is complete."""

    writing: Writing
    written: Written | None = None
    recorded: dict[str, Any] = field(default_factory=dict)


class Handover:
    """One attempt's giving and taking.

    :param catalog: loads the catalog when it is needed; a task that hands over nothing needs none.
    :param holder: the attempt.
    :param catalog_name: what the catalog is called, as in ``lake.snowpack_interim.t``.
    :param consumers: the ids of the tasks that may need what is handed on.
    :param keeping: what becomes of the outputs for which :meth:`give` says nothing else.
    """

    def __init__(
        self,
        registry: InterimRegistry,
        catalog: Callable[[], Catalog],
        holder: Holder,
        *,
        catalog_name: str,
        consumers: Iterable[str],
        keeping: Keeping | None = None,
    ) -> None:
        self.registry = registry
        self.holder = holder
        self.consumers = frozenset(consumers)
        self.keeping = keeping or Keeping()
        self.work = SparkWork()
        self._catalog = catalog
        self._catalog_name = catalog_name
        self._readings: list[Reading] = []
        self._received: dict[str, TableRef] = {}
        self._given: dict[str, _Given] = {}
        self._passed_on: list[Ref] = []
        self._working = False
        self._heartbeat = Heartbeat(registry, on_lost=lambda _: self.work.interrupt())

    def receive(self, refs: Iterable[Ref]) -> None:
        """Keep what these point to where it is, until the block ends.

        :raises InterimTableGone: one is not there any more; none was received.
        :raises InvalidInterimRef: one names another table than the one on record under its id.
        """
        new = [ref for ref in refs if ref.of.table_id not in self._received]
        if new:
            self._hold(self.registry.consume(new, holder=self.holder))

    def recorded(self, ref: Ref) -> Ref:
        """The same reference with its table as it is on record, if it was received: whoever made it may have written anything."""
        table = self._received.get(ref.of.table_id, ref.of)
        return replace(ref, of=table) if isinstance(ref, ViewRef) else table

    def receive_named(self, name: str, scope: Scope) -> TableRef:
        """Find a table by its name, and keep it where it is.

        :raises InterimTableNotFound: the name points to nothing.
        """
        reading = self.registry.consume_named(name, scope=scope, holder=self.holder)
        self._hold(reading)
        return reading.tables[0]

    def read(self, ref: Ref, session: SparkSession) -> DataFrame:
        """The rows with Spark, lazily: as long as the block lasts.

        :raises InterimTableGone: they are not there any more.
        """
        self.receive([ref])
        return read_on_spark(self.recorded(ref), session)

    def read_arrow(self, ref: Ref) -> pa.Table:
        """The rows in memory, without Spark.

        :raises InterimTableGone: they are not there any more.
        :raises UnreadableView: it takes Spark to read this view.
        """
        self.receive([ref])
        return read_as_arrow(self.recorded(ref), self._catalog())

    def give(self, frame: Any, output: str = DEFAULT_OUTPUT, *, keeping: Keeping | None = None, **recorded: Any) -> TableRef:
        """Write rows as this output of the task. They are handed on when the block ends well.

        :param frame: a DataFrame of Spark or pandas, or anything that gives an Arrow stream.
        :param recorded: for its lineage, as :class:`~airflow_snowpack.interim.outputs.Complete` has it: ``kind``, ``detail``,
            and ``inputs`` beside what was received and what a DataFrame's own plan reads.
        :raises UnwritableFrame: Iceberg cannot keep these rows.
        :raises StaleInterimAttempt: an attempt that started later has begun.
        """
        if frame_kind(frame) is FrameKind.SPARK and not self._working:
            return self.run(frame.sparkSession, lambda: self.give(frame, output, keeping=keeping, **recorded))
        if output in self._given:
            raise UnusableOutput("output", output, "this output was given already")
        keep = keeping or self.keeping
        writing = self.registry.begin(
            self.holder.slot(output),
            holder=self.holder,
            catalog=self._catalog_name,
            name=keep.name,
            scope=keep.scope,
            preservation=keep.preservation,
            ttl=keep.ttl,
        )
        sources = [*recorded.get("inputs", ()), *sources_of(frame)]
        given = self._given[output] = _Given(writing, recorded=recorded | {"inputs": sources})
        self._heartbeat.hold(writing)
        written = given.written = write_table(frame, writing.table, self._catalog(), self.registry.store.identity)
        return TableRef(writing.table_id, str(writing.table), written.snapshot_id, written.rows, writing.slot.producer)

    def pass_on(self, ref: Ref) -> None:
        """A table that another task made is this task's output too: its consumers are to find it."""
        self._passed_on.append(ref)

    def run(self, session: SparkSession, call: Callable[[], T]) -> T:
        """Work on Spark that :meth:`interrupt` stops.

        :raises FunctionError: a function that rows are mapped or reduced with has failed.
        :raises SparkFailed: Spark refused it, or failed in it.
        :raises StaleInterimAttempt, InterimReadingLost: it was stopped because another attempt has taken over, or because Airflow
            has said that this one has ended.
        :raises SparkInterrupted: it was stopped by :meth:`interrupt`.
        """
        self._working = True
        try:
            return self.work.run(session, call)
        except SparkFailed as failed:
            raise function_failure(failed) or failed from failed.__cause__
        except SparkInterrupted:
            self._heartbeat.check()
            raise
        finally:
            self._working = False

    def interrupt(self) -> None:
        """Stop the work on Spark. It may be called from a signal handler."""
        self.work.interrupt()

    def abandon(self, why: str) -> None:
        """Give up what was written: it is the collector's now. From any thread, and again and again."""
        for given in list(self._given.values()):
            self._heartbeat.let_go(given.writing)
            self.registry.abandon(given.writing, why)
        self._given.clear()

    def __enter__(self) -> Self:
        self._heartbeat.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        try:
            if error is None:
                self._hand_on()
            else:
                self._leave(f"the task failed: {kind.__name__ if kind else 'for no reason'}")
        except BaseException:
            self._leave("it could not be handed on")
            raise
        finally:
            self._heartbeat.__exit__(kind, error, traceback)
            for reading in self._readings:
                self._release(reading)

    def _hold(self, reading: Reading) -> None:
        self._readings.append(reading)
        self._received |= {table.table_id: table for table in reading.tables}
        self._heartbeat.hold(reading)

    def _hand_on(self) -> None:
        if self._passed_on:
            self.registry.pin_on(self._passed_on, consumers=self.consumers, holder=self.holder)
        given = list(self._given.values())
        outputs = [self._complete(each) for each in given]
        for each in given:
            self._heartbeat.let_go(each.writing)
        self.registry.hand_on_all(outputs, consumers=self.consumers)
        self._given.clear()
        for each in given:
            log.info("Handed on %s to %s", each.writing.table, ", ".join(sorted(self.consumers)) or "nobody")

    def _complete(self, given: _Given) -> Complete:
        written = given.written
        assert written is not None, "what was given is written, or has raised"
        inputs = [*(TableAt(table.table, table.snapshot_id) for table in self._received.values()), *given.recorded["inputs"]]
        return Complete(given.writing, written.snapshot_id, written.rows, written.location, **given.recorded | {"inputs": inputs})

    def _leave(self, why: str) -> None:
        """Tidy up after a failure, which is what is to be told; what is left behind is found without being told."""
        try:
            self.abandon(why)
        except Exception:
            log.warning("What %s has written could not be given up; the collector finds it", self.holder, exc_info=True)

    def _release(self, reading: Reading) -> None:
        try:
            self.registry.release(reading)
        except Exception:
            # The task is done; its reading ends with its lease.
            log.warning("What %s has read could not be released; the collector finds it", self.holder, exc_info=True)
