"""The catalogue of schedules.

    schedules = Schedules(store, catalog="lake")
    schedules.create(nightly, by="vera")
    schedules.suspend("page_views_nightly")

The invariant: what happened before a schedule was created or resumed, or got another trigger, constraints or DAG, never counts
for it. Each of these makes a new generation, which stores its time and the newest event, and discards the pending runs of the old
one. Any other change, such as of its conf or priority, keeps the generation and applies to pending runs: no event is discarded,
and a claimed launch keeps the conf that it may have been started with.

:class:`ScheduleWriter` writes schedules and registered runs; an instance writes only one of the two kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

import sqlalchemy as sa

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.scheduling.constraints.constraint import RequiredFacts
from airflow_snowpack.scheduling.errors import (
    DiscardsEvents,
    InvalidSchedule,
    KeptByRun,
    NameTaken,
    RunExists,
    RunNotFound,
    ScheduleExists,
    ScheduleNotFound,
    ScheduleNotReadable,
)
from airflow_snowpack.scheduling.events.event_log import last_number, number_in_turn
from airflow_snowpack.scheduling.history import note
from airflow_snowpack.scheduling.launches.active_runs import release_slots, watch_runs
from airflow_snowpack.scheduling.launches.launcher import close_launch
from airflow_snowpack.scheduling.pending_runs.model import OPEN, PendingState, is_open
from airflow_snowpack.scheduling.pending_runs.wait_queue import wake_next
from airflow_snowpack.scheduling.permission import MayStart, StartPermission
from airflow_snowpack.scheduling.schedule import LaunchBacklog, Schedule, readable
from airflow_snowpack.scheduling.triggers.trigger import ALL_CHANGES, TABLES, changes_key, table_key
from airflow_snowpack.store import Actor, Store, new_id, storable, write_audit
from airflow_snowpack.store.tables.schedules import (
    launches,
    pending_events,
    pending_jobs,
    schedule_clocks,
    schedule_dags,
    schedule_groups,
    schedule_runs,
    schedule_triggers,
    schedules,
    table_places,
)

T = TypeVar("T")

SLOW_WRITERS = timedelta(seconds=1)
"""How far behind a table writer's clock may be: an unread commit this shortly before a schedule was changed counts too."""

CHANGES = {
    "created": ("create_schedule", "register_run"),
    "updated": ("update_schedule", "update_run"),
    "deleted": ("delete_schedule", "unregister_run"),
    "suspended": ("suspend_schedule", "disable_run"),
    "resumed": ("resume_schedule", "enable_run"),
}
"""Audit trail names of changes, for schedules and registered runs, by their names in the history."""


class ScheduleOrigin(StrEnum):
    """Where a schedule comes from: a file; the API, pages or command line; a file, and then edited; or a registered run."""

    FILE = "file"
    HAND = "hand"
    EDITED = "edited"
    RUN = "run"


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits for a schedule, even to be started, and is discarded if what decides when it runs changes."""

    runs: int = 0
    events: int = 0


@dataclass(frozen=True, slots=True)
class StoredSchedule:
    """A stored schedule.

    :param read: the schedule; ``None`` if this version cannot read it, with the reason in ``problem``. It can then be shown,
        suspended, changed and deleted; its events are kept but not counted.
    :param enabled: whether events count for it; otherwise it is suspended.
    :param generation: new after each change of its trigger, constraints or DAG, and after resuming.
    """

    name: str
    dag_id: str
    definition: Any
    read: Schedule | None
    problem: str | None
    enabled: bool
    generation: str
    origin: ScheduleOrigin
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
    """Creates, changes and finds schedules. Registered runs are listed here, but only :class:`RegisteredRuns` changes them.

    :param catalog: of the tables that triggers name.
    :param actor: who makes the changes, for the audit trail.
    :param may_start: whether the actor may start a DAG; ``None`` for any DAG. Without permission, creating, changing, resuming
        and running a schedule of the DAG raise :class:`DagNotAllowed`.
    """

    def __init__(
        self,
        store: Store,
        *,
        catalog: str,
        actor: Actor | None = None,
        probes: Collection[str] = (),
        may_start: MayStart | None = None,
    ) -> None:
        self.store = store
        self.catalog = catalog
        self.actor = actor
        self.probes = probes
        self._writer = ScheduleWriter(store, catalog, actor, probes=probes, may_start=may_start)
        self.starts = self._writer.starts

    def create(
        self, schedule: Schedule, *, by: str | None = None, origin: ScheduleOrigin = ScheduleOrigin.HAND
    ) -> StoredSchedule:
        """Create a schedule.

        :raises ScheduleExists: the name is taken; :class:`NameTaken` if by a registered run.
        :raises InvalidSchedule: as :func:`check_probes`.
        """
        return self._changed(lambda conn: self._writer.create(conn, schedule, by=by, origin=origin))

    def update(
        self, schedule: Schedule, *, by: str | None = None, origin: ScheduleOrigin = ScheduleOrigin.HAND, discard: bool = False
    ) -> StoredSchedule:
        """Change everything except whether it is enabled. Another trigger, constraints or DAG discard its pending runs and
        restart counting; otherwise the pending runs keep waiting with the new values.

        :raises DiscardsEvents: the change would discard events, and ``discard`` is not set.
        :raises InvalidSchedule: as :func:`check_probes`.
        :raises ScheduleNotFound: no schedule has this name.
        :raises KeptByRun: it is a registered run.
        """
        return self._changed(lambda conn: self._writer.update(conn, schedule, by=by, origin=origin, discard=discard))

    def waiting(self, name: str) -> Waiting:
        """Return what is discarded if the schedule is suspended or deleted, or gets another trigger, constraints or DAG."""
        return self.store.read(lambda conn: self._writer.waiting(conn, name))

    def delete(self, name: str, *, by: str | None = None) -> None:
        """Delete it with its pending runs.

        :raises ScheduleNotFound: no schedule has this name.
        :raises KeptByRun: it is a registered run.
        """
        self._writer.change(lambda conn: self._writer.delete(conn, name, by=by))

    def suspend(self, name: str, *, by: str | None = None) -> StoredSchedule:
        """Discard its pending runs and ignore events; idempotent.

        :raises ScheduleNotFound: no schedule has this name.
        :raises KeptByRun: it is a registered run.
        """
        return self._changed(lambda conn: self._writer.switch(conn, name, on=False, by=by))

    def resume(self, name: str, *, by: str | None = None) -> StoredSchedule:
        """Count events again from now on; idempotent.

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
        """Return schedules by name after the name ``after``; ``search`` matches part of a name or a DAG's id, ignoring case."""
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
    """Return a query for the matching schedules by name, with the filter of :meth:`Schedules.list`."""
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
    return StoredSchedule(**same, read=read, problem=problem, origin=ScheduleOrigin(row.origin))


def check_probes(schedule: Schedule, probes: Collection[str]) -> None:
    """:raises InvalidSchedule: a constraint names a load probe that the installation does not register."""
    for number, constraint in enumerate(schedule.constraints):
        for probe in sorted(set(constraint.required_facts(schedule.dag_id).probes).difference(probes)):
            known = f"registered are {', '.join(sorted(probes))}" if probes else "none is registered"
            problem = f"[snowpack] load_probes has no load probe of this name; {known}"
            raise InvalidSchedule(f"constraints[{number}].{constraint.kind}.probe", probe, problem)


class ScheduleWriter:
    """Changes rows in the caller's transaction, for :class:`Schedules` and :class:`RegisteredRuns`.

    Every method expects a transaction that began with :func:`number_in_turn`, as all that publish events do: a transaction that
    locks rows first could deadlock with another.

    :param of_runs: whether it changes registered runs instead of the other schedules.
    :param may_start: whether the actor may start a DAG; ``None`` for any DAG.
    """

    def __init__(
        self,
        store: Store,
        catalog: str,
        actor: Actor | None,
        *,
        of_runs: bool = False,
        probes: Collection[str] = (),
        may_start: MayStart | None = None,
    ) -> None:
        self.starts = StartPermission(actor, may_start)
        self._store = store
        self._catalog = catalog
        self._actor = actor
        self._of_runs = of_runs
        self._probes = probes

    def change(self, work: Callable[[sa.Connection], T]) -> T:
        """Run a change in a transaction, while no other changes a schedule or numbers events.

        :raises DagNotAllowed: the actor may not start the DAG of what is created, changed or resumed; nothing was changed.
        """

        def in_turn(conn: sa.Connection) -> T:
            number_in_turn(conn)
            return work(conn)

        return self.starts.transact(self._store, in_turn)

    def create(self, conn: sa.Connection, schedule: Schedule, *, origin: ScheduleOrigin, by: str | None = None) -> sa.Row[Any]:
        """Create a schedule or a registered run.

        :raises ScheduleExists, RunExists, NameTaken: the name is taken.
        :raises InvalidSchedule: as :func:`check_probes`.
        """
        self.starts.require(schedule.dag_id)
        check_probes(schedule, self._probes)
        if self.row(conn, schedule.name) is not None:
            raise (RunExists if self._of_runs else ScheduleExists)(schedule.name)
        values = {"name": schedule.name, "created_at": self._store.clock(), "enabled": schedule.enabled}
        new = sa.insert(schedules).values(**values, **_definition(schedule, origin), **self._generation(by))
        return self._apply(conn, new, "created", enabled=schedule.enabled)

    def update(
        self,
        conn: sa.Connection,
        schedule: Schedule,
        *,
        origin: ScheduleOrigin,
        by: str | None = None,
        enabled: bool | None = None,
        discard: bool = False,
    ) -> sa.Row[Any]:
        """Change a schedule as :meth:`Schedules.update` does, and whether it is enabled, unless that is ``None``."""
        row = self.required(conn, schedule.name)
        self.starts.require(row.dag_id, schedule.dag_id)
        check_probes(schedule, self._probes)
        origin = ScheduleOrigin.EDITED if origin is ScheduleOrigin.HAND and row.origin != ScheduleOrigin.HAND else origin
        changed = sa.update(schedules).where(schedules.c.name == schedule.name).values(**_definition(schedule, origin))
        was = readable(row.definition)
        if was is not None and enabled in (None, row.enabled) and was.runs_like(schedule):
            self._edit(conn, was, schedule)
            edited = conn.execute(changed.values(**self._change(by)).returning(schedules)).one()
            self._record(conn, edited, "updated", edited.changed_by)
            return edited
        if not discard and (waiting := self.waiting(conn, schedule.name)).runs:
            raise DiscardsEvents(schedule.name, waiting.runs, waiting.events)
        self._discard(conn, schedule.name, "the schedule was changed")
        switched = {} if enabled is None else {"enabled": enabled}
        return self._apply(conn, changed.values(**self._generation(by), **switched), "updated", **switched)

    def delete(self, conn: sa.Connection, name: str, *, by: str | None = None) -> None:
        row = self.required(conn, name)
        self._discard(conn, name, "the schedule was deleted")
        self._forget(conn, name)
        conn.execute(sa.delete(schedules).where(schedules.c.name == name))
        self._record(conn, row, "deleted", self._name_of(by))

    def switch(self, conn: sa.Connection, name: str, *, on: bool, by: str | None = None) -> sa.Row[Any]:
        """Resume or suspend a schedule; idempotent."""
        row = self.required(conn, name)
        if on:
            self.starts.require(row.dag_id)
        if row.enabled == on:
            return row
        self._discard(conn, name, "the schedule was suspended")
        switched = sa.update(schedules).where(schedules.c.name == name).values(enabled=on, **self._generation(by))
        return self._apply(conn, switched, "resumed" if on else "suspended")

    def row(self, conn: sa.Connection, name: str) -> sa.Row[Any] | None:
        """Return the schedule's row, locked until the transaction ends.

        :raises NameTaken: a registered run has the name, or a schedule if this writer changes registered runs.
        """
        row = _locked(conn, name)
        if row is not None and self._of_runs != (row.origin == ScheduleOrigin.RUN):
            raise NameTaken(name, "schedule" if self._of_runs else "registered run")
        return row

    def required(self, conn: sa.Connection, name: str) -> sa.Row[Any]:
        """Return the schedule's row, locked until the transaction ends.

        :raises ScheduleNotFound, RunNotFound: no schedule or registered run has this name.
        :raises KeptByRun: it is a registered run, which this writer does not change.
        """
        row = _locked(conn, name)
        if self._of_runs and (row is None or row.origin != ScheduleOrigin.RUN):
            raise RunNotFound(name)
        if row is None:
            raise ScheduleNotFound(name)
        if row.origin == ScheduleOrigin.RUN and not self._of_runs:
            raise KeptByRun(name)
        return row

    def waiting(self, conn: sa.Connection, name: str) -> Waiting:
        """Return what waits for a schedule or a registered run."""
        its_events = pending_jobs.outerjoin(pending_events, pending_events.c.pending_id == pending_jobs.c.pending_id)
        numbers = (sa.func.count(pending_jobs.c.pending_id.distinct()), sa.func.count(pending_events.c.event_id.distinct()))
        return Waiting(*conn.execute(sa.select(*numbers).select_from(its_events).where(_waits(name))).one())

    def _discard(self, conn: sa.Connection, name: str, why: str) -> None:
        """Discard its pending runs. A process that is launching one of them finds its fence moved."""
        ended = {"state": PendingState.DISCARDED.value, "ended_at": self._store.clock(), "ended_because": why}
        gone = conn.execute(sa.update(pending_jobs).where(_waits(name)).values(**ended).returning(pending_jobs.c.pending_id))
        for pending_id in gone.scalars().all():
            note(conn, self._store, name, "discarded", pending_id, because=why)
        gone_runs = sa.delete(launches).where(launches.c.schedule == name, launches.c.claimed_at.is_(None))
        for dag_id, run_id in conn.execute(gone_runs.returning(launches.c.dag_id, launches.c.run_id)).all():
            conn.execute(sa.delete(schedule_runs).where(schedule_runs.c.run_id == run_id, schedule_runs.c.schedule == name))
            release_slots(conn, dag_id, run_id)

    def _edit(self, conn: sa.Connection, was: Schedule, schedule: Schedule) -> None:
        """Apply the new values of a schedule that runs as before to its open pending run and its unclaimed launches."""
        longer = schedule.timeout.period - was.timeout.period
        mine = sa.and_(pending_jobs.c.schedule == schedule.name, is_open)
        for run in conn.execute(sa.select(pending_jobs).where(mine).with_for_update()).all():
            values = {"priority": schedule.priority}
            if run.expires_at is not None:
                values["expires_at"] = run.expires_at + longer
                if run.next_check_at is not None:
                    values["next_check_at"] = min(run.next_check_at, values["expires_at"])
            conn.execute(sa.update(pending_jobs).where(pending_jobs.c.pending_id == run.pending_id).values(**values))
            if run.waits_for is not None and run.priority != schedule.priority:
                wake_next(conn, [run.waits_for], self._store.clock(), skip_locked=True)
        unclaimed = sa.and_(launches.c.schedule == schedule.name, launches.c.claimed_at.is_(None))
        for launch in conn.execute(sa.select(launches).where(unclaimed).with_for_update()).all():
            absorbs = schedule.backlog is LaunchBacklog.ONE
            conf = dict(launch.conf if absorbs else close_launch(conn, launch, self._store.clock()))
            why = conf.pop("snowpack")
            if conf == was.conf:  # a run that was requested with other values keeps them
                changed = {**schedule.conf, "snowpack": why}
                conn.execute(sa.update(launches).where(launches.c.pending_id == launch.pending_id).values(conf=changed))

    def _generation(self, by: str | None) -> dict[str, Any]:
        return {"generation": new_id(), **self._change(by)}

    def _change(self, by: str | None) -> dict[str, Any]:
        return {"changed_at": self._store.clock(), "changed_by": self._name_of(by)}

    def _name_of(self, by: str | None) -> str | None:
        return self._actor.name if by is None and self._actor is not None else by

    def _apply(self, conn: sa.Connection, change: sa.Insert | sa.Update, what: str, **detail: Any) -> sa.Row[Any]:
        """Write a schedule's row and its new triggers, groups and clocks; a suspended schedule has none."""
        row = conn.execute(change.returning(schedules)).one()
        try:
            schedule = Schedule.from_json(row.definition)
        except InvalidSchedule as error:
            if row.enabled:
                raise ScheduleNotReadable(row.name, str(error)) from error
            self._forget(conn, row.name, of_dag=False)
        else:
            self._enter(conn, row, schedule, self._store.clock())
        self._record(conn, row, what, row.changed_by, **detail)
        return row

    def _record(self, conn: sa.Connection, row: sa.Row[Any], what: str, by: str | None, **detail: Any) -> None:
        """Record a change in the schedule's history and, with an actor, in the audit trail."""
        note(conn, self._store, row.name, what, by=by, **detail)
        subject = audit_subject(row.name, row.origin)
        write_audit(conn, self._store, self._actor, CHANGES[what][self._of_runs], subject, **detail)

    def _enter(self, conn: sa.Connection, row: sa.Row[Any], schedule: Schedule, now: datetime) -> None:
        name = row.name
        self._forget(conn, name)
        for dag_id in _named_dags(schedule) if row.enabled else ():
            conn.execute(sa.insert(schedule_dags).values(schedule=name, dag_id=dag_id))
            watch_runs(conn, [dag_id], now=now, look_at=now)
        for group in sorted(RequiredFacts.of(schedule.constraints, schedule.dag_id).groups):
            conn.execute(sa.insert(schedule_groups).values(schedule=name, group_name=group, dag_id=schedule.dag_id))
        if not row.enabled:
            return
        counts_after = last_number(conn)
        counts_from = now.replace(microsecond=now.microsecond // 1_000 * 1_000)  # Iceberg's times have milliseconds
        tables: set[str] = set()
        for number, leaf in enumerate(schedule.trigger.leaves()):
            key = leaf.event_key(self._catalog, name, number)
            values = {"schedule": name, "leaf": number, "generation": row.generation, "event_key": key}
            since = counts_from - SLOW_WRITERS if key.startswith(TABLES) else counts_from
            conn.execute(sa.insert(schedule_triggers).values(**values, counts_after=counts_after, counts_from=since))
            if leaf.clock is not None:
                first = leaf.clock.next_after(now)
                conn.execute(sa.insert(schedule_clocks).values(schedule=name, leaf=number, next_at=first, look_at=first))
            if key.startswith(TABLES):
                tables.add(key.removeprefix(TABLES).removesuffix(ALL_CHANGES))
        if tables:  # due at once: until they are read, a slow writer's commit may look older than the change
            mine = sa.and_(table_places.c.table_key.in_(sorted(tables)), table_places.c.look_at > now)
            conn.execute(sa.update(table_places).where(mine).values(look_at=now))

    def _forget(self, conn: sa.Connection, name: str, *, of_dag: bool = True) -> None:
        # Clocks and triggers in the order in which a restarted period locks them. A suspended schedule's DAG stays in its group.
        for table in (schedule_clocks, schedule_triggers, schedule_dags, *([schedule_groups] if of_dag else [])):
            conn.execute(sa.delete(table).where(table.c.schedule == name))


def audit_subject(name: str, origin: str) -> str:
    """Return the subject of a schedule or, by its origin, of a registered run in the audit trail."""
    return f"run:{name}" if origin == ScheduleOrigin.RUN else f"schedule:{name}"


def _locked(conn: sa.Connection, name: str) -> sa.Row[Any] | None:
    return conn.execute(sa.select(schedules).where(schedules.c.name == name).with_for_update()).first()


def _waits(name: str) -> sa.ColumnElement[bool]:
    return sa.and_(pending_jobs.c.schedule == name, pending_jobs.c.state.in_([*OPEN, PendingState.LAUNCH.value]))


def _definition(schedule: Schedule, origin: ScheduleOrigin) -> dict[str, Any]:
    values = {"dag_id": schedule.dag_id, "priority": schedule.priority, "origin": origin.value}
    return {"definition": schedule.to_json(), **values}


def _named_dags(schedule: Schedule) -> list[str]:
    """Return the DAGs whose runs its triggers and constraints count."""
    named = {source.name for leaf in schedule.trigger.leaves() if (source := leaf.source) is not None and source.kind == "dag"}
    return sorted(named.union(RequiredFacts.of(schedule.constraints, schedule.dag_id).dag_runs))
