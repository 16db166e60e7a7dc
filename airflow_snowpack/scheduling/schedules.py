"""The catalogue of schedules.

    schedules = Schedules(store, catalog="lake")
    schedules.create(nightly, by="vera")
    schedules.suspend("page_views_nightly")

The invariant: what happened before a schedule was created or resumed, or got another trigger, other constraints or another DAG,
never counts for it. Each of these makes a new generation that stores its time and the newest event, and discards the pending runs
of the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.errors import InvalidSchedule, ScheduleNotFound, ScheduleNotReadable
from airflow_snowpack.scheduling.permission import MayStart
from airflow_snowpack.scheduling.schedule import Schedule
from airflow_snowpack.scheduling.schedule_writer import Origin, ScheduleWriter, Waiting
from airflow_snowpack.scheduling.triggers.trigger import changes_key, table_key
from airflow_snowpack.store import Actor, IdMaker, Store, new_id, storable
from airflow_snowpack.store.tables.schedules import schedule_triggers, schedules

if TYPE_CHECKING:
    from airflow_snowpack.iceberg.names import TableName


@dataclass(frozen=True, slots=True)
class StoredSchedule:
    """A schedule in the store.

    :param definition: its JSON.
    :param read: the schedule; ``None`` when this version cannot read it, for the reason in ``problem``. It can be shown,
        suspended, changed and deleted; its events are kept and not counted.
    :param enabled: whether events count for it; otherwise it is suspended.
    :param generation: a new one after each change of its trigger, constraints or DAG, and after resuming.
    """

    name: str
    dag_id: str
    definition: Any
    read: Schedule | None
    problem: str | None
    enabled: bool
    generation: str
    origin: Origin
    created_at: datetime
    changed_at: datetime
    changed_by: str | None

    @property
    def schedule(self) -> Schedule:
        """:raises ScheduleNotReadable: this version cannot read it."""
        if self.read is None:
            raise ScheduleNotReadable(self.name, self.problem or "")
        return self.read


class Schedules:
    """Creates, changes and finds schedules. A registered run is listed here, and changed by :class:`RegisteredRuns` alone.

    :param catalog: of the tables that triggers name.
    :param actor: who makes the changes; each is then audited.
    :param probes: the names of the load probes that the installation registers.
    :param may_start: whether the actor may start a DAG; ``None`` for any DAG. Without it, creating, changing, resuming and
        running a schedule of the DAG raise :class:`DagNotAllowed`.
    """

    def __init__(
        self,
        store: Store,
        *,
        catalog: str,
        actor: Actor | None = None,
        make_id: IdMaker = new_id,
        probes: Collection[str] = (),
        may_start: MayStart | None = None,
    ) -> None:
        self.store = store
        self.catalog = catalog
        self.actor = actor
        self._writer = ScheduleWriter(store, catalog=catalog, actor=actor, make_id=make_id, probes=probes, may_start=may_start)
        self.starts = self._writer.starts

    def check_probes(self, schedule: Schedule) -> None:
        """:raises InvalidSchedule: a constraint names a load probe that the installation does not register."""
        self._writer.check_probes(schedule)

    def create(self, schedule: Schedule, *, by: str | None = None, origin: Origin = Origin.HAND) -> StoredSchedule:
        """:raises ScheduleExists: the name is taken; :class:`NameTaken` when a registered run has it.

        :raises InvalidSchedule: from :meth:`check_probes`, also when it is updated.
        """
        return self._changed(lambda conn: self._writer.create(conn, schedule, by=by, origin=origin))

    def update(
        self, schedule: Schedule, *, by: str | None = None, origin: Origin = Origin.HAND, discard: bool = False
    ) -> StoredSchedule:
        """Change everything but whether it is enabled. With another trigger, other constraints or another DAG, its pending runs
        are discarded, and counting starts from zero; they keep waiting with the other values otherwise.

        :param discard: whether events that wait may be discarded.
        :raises DiscardsEvents: they may not, and the change would discard some.
        :raises ScheduleNotFound: no schedule has this name.
        :raises KeptByRun: it is a registered run.
        """
        return self._changed(lambda conn: self._writer.update(conn, schedule, by=by, origin=origin, discard=discard))

    def waiting(self, name: str) -> Waiting:
        """Return what waits for a schedule, and is discarded when it is suspended or deleted, or gets another trigger, other
        constraints or another DAG.
        """
        return self.store.read(lambda conn: self._writer.waiting(conn, name))

    def delete(self, name: str, *, by: str | None = None) -> None:
        """Delete it with its pending runs.

        :raises ScheduleNotFound: no schedule has this name.
        :raises KeptByRun: it is a registered run.
        """
        self._writer.change(lambda conn: self._writer.delete(conn, name, by=by))

    def suspend(self, name: str, *, by: str | None = None) -> StoredSchedule:
        """Discard its pending runs and count no more events. Suspending twice changes nothing.

        :raises ScheduleNotFound: no schedule has this name.
        :raises KeptByRun: it is a registered run.
        """
        return self._changed(lambda conn: self._writer.switch(conn, name, on=False, by=by))

    def resume(self, name: str, *, by: str | None = None) -> StoredSchedule:
        """Count events again, from now on. Resuming twice changes nothing.

        :raises ScheduleNotFound: no schedule has this name.
        :raises ScheduleNotReadable: this version cannot read it.
        :raises KeptByRun: it is a registered run.
        """
        return self._changed(lambda conn: self._writer.switch(conn, name, on=True, by=by))

    def get(self, name: str) -> StoredSchedule:
        """:raises ScheduleNotFound: no schedule has this name."""
        if (row := self.store.first(sa.select(schedules).where(schedules.c.name == name))) is None:
            raise ScheduleNotFound(name)
        return _stored_from(row)

    def list(
        self,
        *,
        dag_id: str | None = None,
        enabled: bool | None = None,
        search: str | None = None,
        after: str | None = None,
        limit: int = 1_000,
    ) -> list[StoredSchedule]:
        """Return schedules in the order of their names.

        :param search: part of the name or of the DAG's id, ignoring case.
        :param after: return only later names, for the next page.
        """
        query = matching(sa.select(schedules), dag_id=dag_id, enabled=enabled, search=search, after=after).limit(limit)
        return [_stored_from(row) for row in self.store.all(query)]

    def of_table(self, table: TableName) -> Sequence[str]:
        """Return the names of the schedules that listen to a table."""
        keys = [table_key(table), changes_key(table)]
        listening = sa.select(schedule_triggers.c.schedule).where(schedule_triggers.c.event_key.in_(keys))
        return self.store.scalars(listening.distinct().order_by(schedule_triggers.c.schedule))

    def count(self) -> dict[bool, int]:
        """Return the numbers of enabled (``True``) and suspended schedules."""
        query = sa.select(schedules.c.enabled, sa.func.count().label("number")).group_by(schedules.c.enabled)
        return {True: 0, False: 0} | {row.enabled: row.number for row in self.store.all(query)}

    def _changed(self, write: Callable[[sa.Connection], sa.Row[Any]]) -> StoredSchedule:
        return _stored_from(self._writer.change(write))


def matching(
    query: sa.Select[Any], *, dag_id: str | None, enabled: bool | None, search: str | None, after: str | None
) -> sa.Select[Any]:
    """Return a query for the schedules that match, in the order of their names, as :meth:`Schedules.list` has it."""
    query = query.order_by(schedules.c.name)
    query = query if dag_id is None else query.where(schedules.c.dag_id == storable(dag_id))
    query = query if enabled is None else query.where(schedules.c.enabled.is_(enabled))
    query = query if after is None else query.where(schedules.c.name > storable(after))
    if not search:
        return query
    text, searched = storable(search).lower(), (schedules.c.name, schedules.c.dag_id)
    return query.where(sa.or_(*(sa.func.lower(each).contains(text, autoescape=True) for each in searched)))


def _stored_from(row: sa.Row[Any]) -> StoredSchedule:
    read, problem = None, None
    try:
        read = Schedule.from_json(row.definition)
    except InvalidSchedule as error:
        problem = str(error)
    columns = ("name", "dag_id", "definition", "enabled", "generation", "created_at", "changed_at", "changed_by")
    same = {name: getattr(row, name) for name in columns}
    return StoredSchedule(**same, read=read, problem=problem, origin=Origin(row.origin))
