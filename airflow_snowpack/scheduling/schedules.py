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
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

import sqlalchemy as sa

from airflow_snowpack.scheduling.constraints import MaxConcurrent, SinceLastRun
from airflow_snowpack.scheduling.cron import next_tick
from airflow_snowpack.scheduling.errors import InvalidSchedule, ScheduleExists, ScheduleNotFound, ScheduleNotReadable
from airflow_snowpack.scheduling.events import last_number, number_in_turn
from airflow_snowpack.scheduling.history import note
from airflow_snowpack.scheduling.holding import let_go
from airflow_snowpack.scheduling.leaves import Cron, Every, RunsFailed, RunsSucceeded
from airflow_snowpack.scheduling.pending import OPEN, PendingState
from airflow_snowpack.scheduling.run_ends import watch_runs
from airflow_snowpack.scheduling.schedule import Schedule
from airflow_snowpack.store import Actor, IdMaker, Store, new_id, storable, write_audit
from airflow_snowpack.store.schedule_tables import (
    launches,
    pending_jobs,
    schedule_clocks,
    schedule_dags,
    schedule_groups,
    schedule_runs,
    schedule_triggers,
    schedules,
)

T = TypeVar("T")


CHANGES = {
    "created": "create_schedule",
    "updated": "update_schedule",
    "deleted": "delete_schedule",
    "suspended": "suspend_schedule",
    "resumed": "resume_schedule",
}
"""What the audit trail calls the changes that the history names."""


class Origin(StrEnum):
    """Who keeps the schedule: a DAG file (or YAML file), people through API, pages and command line, or first one and then
    the other.
    """

    FILE = "file"
    HAND = "hand"
    EDITED = "edited"


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

    :param catalog: what the tables of triggers belong to.
    :param actor: on whose behalf; each change has its entry in the audit trail then, and stands in his name.
    """

    def __init__(self, store: Store, *, catalog: str, actor: Actor | None = None, make_id: IdMaker = new_id) -> None:
        self.store = store
        self.catalog = catalog
        self.actor = actor
        self._make_id = make_id

    def create(self, schedule: Schedule, *, by: str | None = None, origin: Origin = Origin.HAND) -> StoredSchedule:
        """:raises ScheduleExists: the name is taken."""

        def write(conn: sa.Connection) -> None:
            if self._row(conn, schedule.name) is not None:
                raise ScheduleExists(schedule.name)
            now = self.store.clock()
            values = {"name": schedule.name, "created_at": now, "enabled": schedule.enabled, "generation": self._make_id()}
            conn.execute(sa.insert(schedules).values(**values, **self._definition(schedule, by, origin)))
            self._listen(conn, schedule.name)
            self._record(conn, schedule.name, "created", by, enabled=schedule.enabled)

        return self._changed(schedule.name, write)

    def update(self, schedule: Schedule, *, by: str | None = None, origin: Origin = Origin.HAND) -> StoredSchedule:
        """Change everything but whether it is enabled. What was pending is discarded, and counting begins anew.

        :raises ScheduleNotFound: there is none of this name.
        """

        def write(conn: sa.Connection) -> None:
            was = Origin(self._required(conn, schedule.name).origin)
            now = Origin.EDITED if origin is Origin.HAND and was is not Origin.HAND else origin
            values = {"generation": self._make_id(), **self._definition(schedule, by, now)}
            conn.execute(sa.update(schedules).where(schedules.c.name == schedule.name).values(**values))
            self._discard(conn, schedule.name, "the schedule was changed")
            self._listen(conn, schedule.name)
            self._record(conn, schedule.name, "updated", by)

        return self._changed(schedule.name, write)

    def delete(self, name: str, *, by: str | None = None) -> None:
        """Remove it, and what is pending with it.

        :raises ScheduleNotFound: there is none of this name.
        """

        def write(conn: sa.Connection) -> None:
            self._required(conn, name)
            self._discard(conn, name, "the schedule was deleted")
            self._forget(conn, name)
            conn.execute(sa.delete(schedules).where(schedules.c.name == name))
            self._record(conn, name, "deleted", by)

        self._write(write)

    def suspend(self, name: str, *, by: str | None = None) -> StoredSchedule:
        """Discard what is pending and take no more events. Doing it twice changes nothing.

        :raises ScheduleNotFound: there is none of this name.
        """
        return self._switch(name, on=False, by=by)

    def resume(self, name: str, *, by: str | None = None) -> StoredSchedule:
        """Take events again, from now on. Doing it twice changes nothing.

        :raises ScheduleNotFound: there is none of this name.
        :raises ScheduleNotReadable: nobody knows what it would listen to.
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
            if self._required(conn, name).enabled == on:
                return
            values = {
                "enabled": on,
                "generation": self._make_id(),
                "changed_at": self.store.clock(),
                "changed_by": self._name(by),
            }
            conn.execute(sa.update(schedules).where(schedules.c.name == name).values(**values))
            self._discard(conn, name, "the schedule was suspended")
            self._listen(conn, name)
            self._record(conn, name, "resumed" if on else "suspended", by)

        return self._changed(name, write)

    def _changed(self, name: str, write: Callable[[sa.Connection], None]) -> StoredSchedule:
        def change(conn: sa.Connection) -> StoredSchedule:
            write(conn)
            return _stored_from(self._required(conn, name))

        return self._write(change)

    def _write(self, work: Callable[[sa.Connection], T]) -> T:
        """One change of a schedule after the other, and none while events get their numbers.

        Whoever holds rows and then wants numbers could wait for himself in a circle; so numbers come first, here and
        wherever events are published.
        """

        def in_turn(conn: sa.Connection) -> T:
            number_in_turn(conn)
            return work(conn)

        return self.store.transact(in_turn)

    def _record(self, conn: sa.Connection, name: str, what: str, by: str | None, **detail: Any) -> None:
        """In the schedule's history and, where somebody asked for the change, in the audit trail."""
        note(conn, self.store, name, what, by=self._name(by), **detail)
        if self.actor is not None:
            write_audit(conn, self.store, self.actor, CHANGES[what], audit_subject(name), **detail)

    def _name(self, by: str | None) -> str | None:
        return storable(self.actor.name) if by is None and self.actor is not None else by

    def _definition(self, schedule: Schedule, by: str | None, origin: Origin) -> dict[str, Any]:
        return {
            "definition": schedule.to_json(),
            "dag_id": schedule.dag_id,
            "priority": schedule.priority,
            "origin": origin.value,
            "changed_at": self.store.clock(),
            "changed_by": self._name(by),
        }

    def _listen(self, conn: sa.Connection, name: str) -> None:
        """Enter the schedule's triggers, groups and clocks as they are now; a suspended one has none."""
        row, now = self._required(conn, name), self.store.clock()
        try:
            schedule = Schedule.from_json(row.definition)
        except InvalidSchedule as error:
            if row.enabled:
                raise ScheduleNotReadable(name, str(error)) from error
            self._forget(conn, name, of_dag=False)
        else:
            self._enter(conn, row, schedule, now)

    def _enter(self, conn: sa.Connection, row: sa.Row[Any], schedule: Schedule, now: datetime) -> None:
        name = row.name
        self._forget(conn, name)
        for dag_id in _named_dags(schedule) if row.enabled else ():
            conn.execute(sa.insert(schedule_dags).values(schedule=name, dag_id=dag_id))
            watch_runs(conn, self.store, [dag_id], now=now, look_at=now)
        groups = {one.group for one in schedule.constraints if isinstance(one, MaxConcurrent) and one.group is not None}
        for group in sorted(groups):
            conn.execute(sa.insert(schedule_groups).values(schedule=name, group_name=group, dag_id=schedule.dag_id))
        if not row.enabled:
            return
        counts_after = last_number(conn)
        counts_from = now.replace(microsecond=now.microsecond // 1_000 * 1_000)  # Iceberg's moments have milliseconds
        for number, leaf in enumerate(schedule.trigger.leaves()):
            key = leaf.event_key(self.catalog, name, number)
            values = {"schedule": name, "leaf": number, "generation": row.generation, "event_key": key}
            conn.execute(sa.insert(schedule_triggers).values(**values, counts_after=counts_after, counts_from=counts_from))
            first = first_tick(leaf, now)
            if first is not None:
                conn.execute(sa.insert(schedule_clocks).values(schedule=name, leaf=number, next_at=first, look_at=first))

    def _forget(self, conn: sa.Connection, name: str, *, of_dag: bool = True) -> None:
        # Clocks and triggers in the order of who restarts a period. A group has the runs of a suspended schedule's DAG too.
        for table in (schedule_clocks, schedule_triggers, schedule_dags, *([schedule_groups] if of_dag else [])):
            conn.execute(sa.delete(table).where(table.c.schedule == name))

    def _discard(self, conn: sa.Connection, name: str, why: str) -> None:
        """End what is pending. A launch that is under way in some process meets the fence when it comes back."""
        waiting = sa.and_(pending_jobs.c.schedule == name, pending_jobs.c.state.in_([*OPEN, PendingState.LAUNCH.value]))
        ended = {"state": PendingState.DISCARDED.value, "ended_at": self.store.clock(), "ended_because": why}
        gone = conn.execute(sa.update(pending_jobs).where(waiting).values(**ended).returning(pending_jobs.c.pending_id))
        for pending_id in gone.scalars().all():
            note(conn, self.store, name, "discarded", pending_id, because=why)
        gone_runs = sa.delete(launches).where(launches.c.schedule == name, launches.c.claimed_at.is_(None))
        for dag_id, run_id in conn.execute(gone_runs.returning(launches.c.dag_id, launches.c.run_id)).all():
            conn.execute(sa.delete(schedule_runs).where(schedule_runs.c.run_id == run_id, schedule_runs.c.schedule == name))
            let_go(conn, dag_id, run_id)

    def _row(self, conn: sa.Connection, name: str) -> sa.Row[Any] | None:
        return conn.execute(sa.select(schedules).where(schedules.c.name == name).with_for_update()).first()

    def _required(self, conn: sa.Connection, name: str) -> sa.Row[Any]:
        row = self._row(conn, name)
        if row is None:
            raise ScheduleNotFound(name)
        return row


def audit_subject(name: str) -> str:
    """How the audit trail calls a schedule, which may have the name of something else."""
    return f"schedule:{name}"


def first_tick(leaf: object, now: datetime) -> datetime | None:
    """When a leaf's clock comes first; ``None`` for a leaf without one."""
    if isinstance(leaf, Cron):
        return next_tick(leaf.expression, leaf.tz, now)
    if isinstance(leaf, Every):
        assert isinstance(leaf.period, timedelta), "checked when it was made"
        return now + leaf.period
    return None


def _named_dags(schedule: Schedule) -> list[str]:
    """The DAGs whose runs its triggers and its constraints ask about."""
    named = {leaf.dag_id for leaf in schedule.trigger.leaves() if isinstance(leaf, RunsSucceeded | RunsFailed)}
    if any(isinstance(one, MaxConcurrent | SinceLastRun) for one in schedule.constraints):
        named.add(schedule.dag_id)
    return sorted(named)


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
