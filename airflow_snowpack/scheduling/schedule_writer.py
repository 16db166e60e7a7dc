"""Write schedules in the caller's transaction: their rows, what they listen to, and the end of their pending runs.

    writer.change(lambda conn: writer.create(conn, nightly, origin=Origin.HAND))

The invariant: a change of when a schedule runs makes a new generation that stores its time and the newest event, and discards the
pending runs of the old one. Any other change keeps the generation and what waits. A registered run is changed by the writer of
registered runs alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

import sqlalchemy as sa

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
from airflow_snowpack.scheduling.pending_runs.edits import apply_edit
from airflow_snowpack.scheduling.pending_runs.model import OPEN, PendingState
from airflow_snowpack.scheduling.permission import MayStart, StartPermission
from airflow_snowpack.scheduling.schedule import Schedule, readable
from airflow_snowpack.scheduling.triggers.trigger import ALL_CHANGES, TABLES
from airflow_snowpack.store import Actor, IdMaker, Store, write_audit
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
"""How far the clock of a table's writer may be behind: what was committed so shortly before a schedule was created, changed or
resumed, and has not been read yet, counts too.
"""

CHANGES = {
    "created": ("create_schedule", "register_run"),
    "updated": ("update_schedule", "update_run"),
    "deleted": ("delete_schedule", "unregister_run"),
    "suspended": ("suspend_schedule", "disable_run"),
    "resumed": ("resume_schedule", "enable_run"),
}
"""The names of changes in the audit trail, of a schedule and of a registered run, by their names in the history."""


class Origin(StrEnum):
    """Where a schedule comes from: a file; the API, pages or command line; a file, and then edited; or a registered run."""

    FILE = "file"
    HAND = "hand"
    EDITED = "edited"
    RUN = "run"


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits for a schedule, and is discarded with a change of when it runs.

    :param runs: its pending runs, also those that wait to be started.
    :param events: the events that they have.
    """

    runs: int = 0
    events: int = 0


class ScheduleWriter:
    """Changes rows. Every method expects that its transaction began with :func:`number_in_turn`, as all do that publish events: a
    transaction that locked rows before could deadlock with another.

    :param catalog: of the tables that triggers name.
    :param actor: who makes the changes; each is then audited.
    :param of_runs: whether it changes registered runs; otherwise the other schedules.
    :param probes: the names of the load probes that the installation registers.
    :param may_start: whether the actor may start a DAG; ``None`` for any DAG.
    """

    def __init__(
        self,
        store: Store,
        *,
        catalog: str,
        actor: Actor | None,
        make_id: IdMaker,
        of_runs: bool = False,
        probes: Collection[str] = (),
        may_start: MayStart | None = None,
    ) -> None:
        self.starts = StartPermission(actor, may_start)
        self._store = store
        self._catalog = catalog
        self._actor = actor
        self._make_id = make_id
        self._of_runs = of_runs
        self._probes = probes

    def change(self, work: Callable[[sa.Connection], T]) -> T:
        """Run a change in a transaction of its own, while no other changes a schedule and no events get numbers.

        :raises DagNotAllowed: the actor may not start the DAG of what is created, changed or resumed; nothing was changed.
        """

        def in_turn(conn: sa.Connection) -> T:
            number_in_turn(conn)
            return work(conn)

        return self.starts.transact(self._store, in_turn)

    def check_probes(self, schedule: Schedule) -> None:
        """:raises InvalidSchedule: a constraint names a load probe that the installation does not register."""
        for number, constraint in enumerate(schedule.constraints):
            for probe in sorted(set(constraint.required_facts(schedule.dag_id).probes).difference(self._probes)):
                known = f"registered are {', '.join(sorted(self._probes))}" if self._probes else "none is registered"
                problem = f"[snowpack] load_probes has no load probe of this name; {known}"
                raise InvalidSchedule(f"constraints[{number}].{constraint.kind}.probe", probe, problem)

    def create(self, conn: sa.Connection, schedule: Schedule, *, origin: Origin, by: str | None = None) -> sa.Row[Any]:
        """:raises ScheduleExists, RunExists, NameTaken: the name is taken.

        :raises InvalidSchedule: from :meth:`check_probes`.
        """
        self.starts.require(schedule.dag_id)
        self.check_probes(schedule)
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
        origin: Origin,
        by: str | None = None,
        enabled: bool | None = None,
        discard: bool = False,
    ) -> sa.Row[Any]:
        """Change a schedule. With another trigger, other constraints or another DAG, its pending runs are discarded, and counting
        starts from zero; they keep waiting with the other values otherwise.

        :param enabled: whether it is enabled from now on; ``None`` leaves it as it is.
        :param discard: whether events that wait may be discarded.
        :raises DiscardsEvents: they may not, and the change would discard some.
        :raises ScheduleNotFound, RunNotFound, KeptByRun: from :meth:`required`.
        :raises InvalidSchedule: from :meth:`check_probes`.
        """
        row = self.required(conn, schedule.name)
        self.starts.require(row.dag_id, schedule.dag_id)
        self.check_probes(schedule)
        origin = Origin.EDITED if origin is Origin.HAND and row.origin != Origin.HAND else origin
        changed = sa.update(schedules).where(schedules.c.name == schedule.name).values(**_definition(schedule, origin))
        was = readable(row.definition)
        if was is not None and enabled in (None, row.enabled) and was.runs_like(schedule):
            apply_edit(conn, self._store, was, schedule)
            edited = conn.execute(changed.values(**self._change(by)).returning(schedules)).one()
            self._record(conn, edited, "updated", edited.changed_by)
            return edited
        if not discard and (waiting := self.waiting(conn, schedule.name)).runs:
            raise DiscardsEvents(schedule.name, waiting.runs, waiting.events)
        self._discard(conn, schedule.name, "the schedule was changed")
        switched = {} if enabled is None else {"enabled": enabled}
        return self._apply(conn, changed.values(**self._generation(by), **switched), "updated", **switched)

    def delete(self, conn: sa.Connection, name: str, *, by: str | None = None) -> None:
        """Delete it with its pending runs.

        :raises ScheduleNotFound, RunNotFound, KeptByRun: from :meth:`required`.
        """
        row = self.required(conn, name)
        self._discard(conn, name, "the schedule was deleted")
        self._forget(conn, name)
        conn.execute(sa.delete(schedules).where(schedules.c.name == name))
        self._record(conn, row, "deleted", self._name_of(by))

    def switch(self, conn: sa.Connection, name: str, *, on: bool, by: str | None = None) -> sa.Row[Any]:
        """Resume or suspend it. Doing so twice changes nothing.

        :raises ScheduleNotFound, RunNotFound, KeptByRun: from :meth:`required`.
        :raises ScheduleNotReadable: this version cannot read it.
        """
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

        :raises NameTaken: a registered run has the name, or a schedule that of a registered run.
        """
        row = _locked(conn, name)
        if row is not None and self._of_runs != (row.origin == Origin.RUN):
            raise NameTaken(name, "schedule" if self._of_runs else "registered run")
        return row

    def required(self, conn: sa.Connection, name: str) -> sa.Row[Any]:
        """Return the schedule's row, locked until the transaction ends.

        :raises ScheduleNotFound, RunNotFound: no schedule or registered run has this name.
        :raises KeptByRun: it is a registered run, and this writer does not change those.
        """
        row = _locked(conn, name)
        if self._of_runs and (row is None or row.origin != Origin.RUN):
            raise RunNotFound(name)
        if row is None:
            raise ScheduleNotFound(name)
        if row.origin == Origin.RUN and not self._of_runs:
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

    def _generation(self, by: str | None) -> dict[str, Any]:
        return {"generation": self._make_id(), **self._change(by)}

    def _change(self, by: str | None) -> dict[str, Any]:
        return {"changed_at": self._store.clock(), "changed_by": self._name_of(by)}

    def _name_of(self, by: str | None) -> str | None:
        return self._actor.name if by is None and self._actor is not None else by

    def _apply(self, conn: sa.Connection, change: sa.Insert | sa.Update, what: str, **detail: Any) -> sa.Row[Any]:
        """Write a schedule's row and, as it is then, its triggers, groups and clocks; a suspended one has none."""
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
        if tables:  # due at once: until they are read, a commit of a slow writer may look older than the change
            mine = sa.and_(table_places.c.table_key.in_(sorted(tables)), table_places.c.look_at > now)
            conn.execute(sa.update(table_places).where(mine).values(look_at=now))

    def _forget(self, conn: sa.Connection, name: str, *, of_dag: bool = True) -> None:
        # Clocks and triggers in the order in which a restarted period locks them. A suspended schedule's DAG stays in its group.
        for table in (schedule_clocks, schedule_triggers, schedule_dags, *([schedule_groups] if of_dag else [])):
            conn.execute(sa.delete(table).where(table.c.schedule == name))


def audit_subject(name: str, origin: str) -> str:
    """Return the subject of a schedule or, by its origin, of a registered run in the audit trail."""
    return f"run:{name}" if origin == Origin.RUN else f"schedule:{name}"


def _locked(conn: sa.Connection, name: str) -> sa.Row[Any] | None:
    return conn.execute(sa.select(schedules).where(schedules.c.name == name).with_for_update()).first()


def _waits(name: str) -> sa.ColumnElement[bool]:
    return sa.and_(pending_jobs.c.schedule == name, pending_jobs.c.state.in_([*OPEN, PendingState.LAUNCH.value]))


def _definition(schedule: Schedule, origin: Origin) -> dict[str, Any]:
    values = {"dag_id": schedule.dag_id, "priority": schedule.priority, "origin": origin.value}
    return {"definition": schedule.to_json(), **values}


def _named_dags(schedule: Schedule) -> list[str]:
    """Return the DAGs whose runs its triggers and constraints count."""
    named = {source.name for leaf in schedule.trigger.leaves() if (source := leaf.source) is not None and source.kind == "dag"}
    return sorted(named.union(RequiredFacts.of(schedule.constraints, schedule.dag_id).dag_runs))
