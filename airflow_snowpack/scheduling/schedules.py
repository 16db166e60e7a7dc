"""The schedule store: schedules by name, their triggers by event key.

    schedules = Schedules(store, catalog="lake")
    schedules.create(nightly, by="vera")
    schedules.suspend("page_views_nightly")

The invariant: what happened before a schedule was created, changed or resumed never counts for it. Each of these draws
a new generation and remembers its moment and the newest event; pending jobs of an older generation are discarded with
the change, and what was recorded or happened before is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import sqlalchemy as sa

from airflow_snowpack.scheduling.errors import InvalidSchedule, KeptByRun, NameTaken, ScheduleNotFound, ScheduleNotReadable
from airflow_snowpack.scheduling.events.event_log import number_in_turn
from airflow_snowpack.scheduling.schedule import Schedule
from airflow_snowpack.scheduling.schedule_writer import Origin, ScheduleWriter
from airflow_snowpack.store import Actor, IdMaker, Store, new_id, storable
from airflow_snowpack.store.tables.schedules import schedules

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoredSchedule:
    """A schedule as the store has it.

    :param definition: what it is read from.
    :param read: the schedule; ``None`` when this version cannot read it, and then ``problem`` says why. It can be shown,
        suspended, changed and deleted like any other; what happens is kept for it and not counted.
    :param enabled: events count for it; otherwise it is suspended.
    :param generation: changes with every change, and with resuming.
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
    """Creates, changes and finds schedules.

    The schedule of a registered run's cron is shown here and changed there.

    :param catalog: what the tables of triggers belong to.
    :param actor: on whose behalf; each change has its entry in the audit trail then, and stands in his name.
    """

    def __init__(self, store: Store, *, catalog: str, actor: Actor | None = None, make_id: IdMaker = new_id) -> None:
        self.store = store
        self.catalog = catalog
        self.actor = actor
        self._writer = ScheduleWriter(store, catalog=catalog, actor=actor, make_id=make_id)

    def create(self, schedule: Schedule, *, by: str | None = None, origin: Origin = Origin.HAND) -> StoredSchedule:
        """:raises ScheduleExists: the name is taken; :class:`NameTaken` when a registered run has it."""

        def write(conn: sa.Connection) -> None:
            row = self._writer.row(conn, schedule.name)
            if row is not None and row.origin == Origin.RUN:
                raise NameTaken(schedule.name, "registered run")
            self._writer.create(conn, schedule, by=by, origin=origin)

        return self._changed(schedule.name, write)

    def update(self, schedule: Schedule, *, by: str | None = None, origin: Origin = Origin.HAND) -> StoredSchedule:
        """Change everything but whether it is enabled. What was pending is discarded, and counting begins anew.

        :raises ScheduleNotFound: there is none of this name.
        :raises KeptByRun: it is the cron of a registered run.
        """

        def write(conn: sa.Connection) -> None:
            self._check_free(conn, schedule.name)
            self._writer.update(conn, schedule, by=by, origin=origin)

        return self._changed(schedule.name, write)

    def delete(self, name: str, *, by: str | None = None) -> None:
        """Remove it, and what is pending with it.

        :raises ScheduleNotFound: there is none of this name.
        :raises KeptByRun: it is the cron of a registered run.
        """

        def write(conn: sa.Connection) -> None:
            self._check_free(conn, name)
            self._writer.delete(conn, name, by=by)

        self._write(write)

    def suspend(self, name: str, *, by: str | None = None) -> StoredSchedule:
        """Discard what is pending and take no more events. Doing it twice changes nothing.

        :raises ScheduleNotFound: there is none of this name.
        :raises KeptByRun: it is the cron of a registered run.
        """
        return self._switch(name, on=False, by=by)

    def resume(self, name: str, *, by: str | None = None) -> StoredSchedule:
        """Take events again, from now on. Doing it twice changes nothing.

        :raises ScheduleNotFound: there is none of this name.
        :raises ScheduleNotReadable: nobody knows what it would listen to.
        :raises KeptByRun: it is the cron of a registered run.
        """
        return self._switch(name, on=True, by=by)

    def get(self, name: str) -> StoredSchedule:
        """:raises ScheduleNotFound: there is none of this name."""
        row = self.store.read(lambda conn: conn.execute(sa.select(schedules).where(schedules.c.name == name)).first())
        if row is None:
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
        """Schedules in order of their names.

        :param search: part of the name or of the DAG's id, whatever the case.
        :param after: only names that come later: the next page.
        """
        query = sa.select(schedules).order_by(schedules.c.name).limit(limit)
        query = query if dag_id is None else query.where(schedules.c.dag_id == storable(dag_id))
        query = query if enabled is None else query.where(schedules.c.enabled.is_(enabled))
        query = query if after is None else query.where(schedules.c.name > storable(after))
        if search:
            text = storable(search).lower()
            searched = (schedules.c.name, schedules.c.dag_id)
            query = query.where(sa.or_(*(sa.func.lower(each).contains(text, autoescape=True) for each in searched)))
        return [_stored_from(row) for row in self.store.read(lambda conn: conn.execute(query).all())]

    def count(self) -> dict[bool, int]:
        """How many are enabled, and how many suspended."""
        query = sa.select(schedules.c.enabled, sa.func.count()).group_by(schedules.c.enabled)
        rows = self.store.read(lambda conn: conn.execute(query).all())
        return {True: 0, False: 0} | {row[0]: row[1] for row in rows}

    def _switch(self, name: str, *, on: bool, by: str | None) -> StoredSchedule:
        def write(conn: sa.Connection) -> None:
            self._check_free(conn, name)
            self._writer.switch(conn, name, on=on, by=by)

        return self._changed(name, write)

    def _changed(self, name: str, write: Callable[[sa.Connection], None]) -> StoredSchedule:
        def change(conn: sa.Connection) -> StoredSchedule:
            write(conn)
            return _stored_from(self._writer.required(conn, name))

        return self._write(change)

    def _write(self, work: Callable[[sa.Connection], T]) -> T:
        """One change of a schedule after the other, and none while events get their numbers."""

        def in_turn(conn: sa.Connection) -> T:
            number_in_turn(conn)
            return work(conn)

        return self.store.transact(in_turn)

    def _check_free(self, conn: sa.Connection, name: str) -> None:
        if self._writer.required(conn, name).origin == Origin.RUN.value:
            raise KeptByRun(name)


def _stored_from(row: sa.Row[Any]) -> StoredSchedule:
    read, problem = None, None
    try:
        read = Schedule.from_json(row.definition)
    except InvalidSchedule as error:
        problem = str(error)
    return StoredSchedule(
        name=row.name,
        dag_id=row.dag_id,
        definition=row.definition,
        read=read,
        problem=problem,
        enabled=row.enabled,
        generation=row.generation,
        origin=Origin(row.origin),
        created_at=row.created_at,
        changed_at=row.changed_at,
        changed_by=row.changed_by,
    )
