"""Who makes which interim table, who needs it, and who reads it.

    registry = InterimRegistry(store)
    writing = registry.begin(holder.slot(), holder=holder, catalog="lake")     # on record before the table exists
    df.writeTo(str(writing.table)).using("iceberg").create()
    ref = registry.hand_on(writing, snapshot_id=snapshot_id, rows=rows, consumers=task.downstream_task_ids)

    reading = registry.consume(find_refs(arguments), holder=holder)           # InterimTableGone, if it came too late
    ...
    registry.release(reading)

The signatures stand; what they do is being written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from airflow_snowpack.interim.model import (
    Holder,
    InterimPolicy,
    InterimTable,
    Reading,
    Scope,
    Slot,
    TableState,
    TaskKey,
    Writing,
)
from airflow_snowpack.interim.refs import Ref, TableRef
from airflow_snowpack.preservation import Preservation
from airflow_snowpack.store import Store


class InterimRegistry:
    """Keeps the tables on record.

    :param policy: where tables go, and how long what is held is held.
    """

    def __init__(self, store: Store, policy: InterimPolicy | None = None) -> None:
        self.store = store
        self.policy = policy or InterimPolicy()

    def begin(
        self,
        slot: Slot,
        *,
        holder: Holder,
        catalog: str,
        name: str | None = None,
        scope: Scope = Scope.RUN,
        preservation: Preservation = Preservation.NONE,
        ttl: timedelta | None = None,
    ) -> Writing:
        """Announce a table, and take the slot over from whichever attempt had it. The table is to be created afterwards.

        :param catalog: where the table is to be, as this installation calls the catalog.
        :param name: what others may find the table by, once it is handed on.
        :param ttl: for how long it is preserved (``FULL``), or keeps its global name; ``None``: without end.
        :raises StaleInterimAttempt: a later try of the same task instance has begun.
        :raises InvalidInterimTable: a name or duration that cannot be used.
        """
        raise NotImplementedError

    def hand_on(
        self,
        writing: Writing,
        *,
        snapshot_id: int | None,
        rows: int | None,
        consumers: Iterable[str],
        location: str | None = None,
    ) -> TableRef:
        """The table is complete: from now on it never changes, and its consumers may read it. One transaction, all or nothing.

        :param consumers: the ids of the tasks directly downstream, in the same run.
        :param location: the table's folder, if it is known at no cost.
        :raises StaleInterimAttempt: another attempt has the slot; nothing was handed on.
        """
        raise NotImplementedError

    def abandon(self, writing: Writing, why: str) -> bool:
        """Give up a table that will not be handed on; ``False``: another attempt has the slot already."""
        raise NotImplementedError

    def consume(self, refs: Iterable[Ref], *, holder: Holder) -> Reading:
        """Keep these tables from being dropped, all of them or none.

        :raises InterimTableGone: one is not there any more; the message names the task to clear.
        """
        raise NotImplementedError

    def release(self, reading: Reading) -> bool:
        """The reader is through; ``False``: it had been taken for dead before."""
        raise NotImplementedError

    def heartbeat(self, held: Writing | Reading) -> bool:
        """Move the end of the lease; ``False``: it is held no more, stop the work."""
        raise NotImplementedError

    def pin_on(self, refs: Iterable[Ref], *, consumers: Iterable[str], holder: Holder) -> None:
        """A task hands tables on that others made: its own consumers, in its own run, need them too.

        :raises InterimTableGone: one is not there any more.
        """
        raise NotImplementedError

    def named(self, name: str, *, scope: Scope = Scope.RUN, dag_id: str = "", run_id: str = "") -> TableRef:
        """The table that a name points to now; ``consume_named`` also keeps it from going.

        :param dag_id, run_id: the run whose name it is, for :attr:`Scope.RUN`.
        :raises InterimTableNotFound: the name points to nothing.
        """
        raise NotImplementedError

    def consume_named(self, name: str, *, scope: Scope = Scope.RUN, holder: Holder) -> Reading:
        """Find a table by its name and keep it from being dropped, in one step; ``reading.tables[0]`` is the table.

        :raises InterimTableNotFound: the name points to nothing.
        """
        raise NotImplementedError

    def nudge(self, dag_id: str, run_id: str, *, at_once: bool = True) -> bool:
        """Something ended in this run: the collector is to look at it; ``False``: the run has no tables.

        :param at_once: ``False`` for a task that is about to end and tells so itself: look a moment later.
        """
        raise NotImplementedError

    def discard(self, table_id: str) -> InterimTable:
        """Let go of a table that is preserved or named: the collector drops it next. Nothing that is needed is let go of.

        :raises InterimTableNotFound: there is no such table.
        :raises InterimTableInUse: somebody needs it.
        """
        raise NotImplementedError

    def tables(
        self,
        *,
        dag_id: str | None = None,
        run_id: str | None = None,
        state: TableState | None = None,
        limit: int = 100,
        before: tuple[datetime, str] | None = None,
    ) -> list[InterimTable]:
        """The newest first.

        :param before: ``(created_at, table_id)`` of the last one of the page before.
        """
        raise NotImplementedError

    def table(self, asked: str) -> InterimTable:
        """One table, by its id or its whole name.

        :raises InterimTableNotFound: there is none.
        """
        raise NotImplementedError

    def consumers_of(self, task: TaskKey) -> Sequence[str]:
        """The consumers that tables of this task instance are pinned for."""
        raise NotImplementedError
