"""The catalogue of registered runs: what may run under which name, with what, and when.

    runs = RegisteredRuns(store, catalog="lake", actor=Actor("vera", "cli"))
    runs.register(RegisteredRun("features_daily", dag_id="make_features", cron="0 8 * * *"))
    runs.disable("features_daily")

The invariant: a registered run has a schedule exactly when it has a cron, the two change in one transaction, and nobody else
changes that schedule. A disabled one's schedule is suspended, so that no ticks pile up until it is enabled again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

import sqlalchemy as sa

from airflow_snowpack.preservation import Preservation
from airflow_snowpack.scheduling.errors import NameTaken, RunExists, RunNotFound
from airflow_snowpack.scheduling.events.event_log import number_in_turn
from airflow_snowpack.scheduling.registered_run import RegisteredRun
from airflow_snowpack.scheduling.schedule_writer import Origin, ScheduleWriter
from airflow_snowpack.store import Actor, IdMaker, Store, new_id, storable, write_audit
from airflow_snowpack.store.tables.schedules import registered_runs, schedule_clocks

T = TypeVar("T")


class Became(StrEnum):
    """What an upsert did."""

    REGISTERED = "registered"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A registered run as the store has it.

    :param updated_at: when it was registered, changed, enabled or disabled last.
    :param next_run_at: when its cron comes next; ``None`` without one, and while it is disabled.
    """

    name: str
    dag_id: str
    conf: Mapping[str, Any]
    cron: str | None
    tz: str
    preservation: Preservation | None
    enabled: bool
    description: str
    created_at: datetime
    updated_at: datetime
    updated_by: str | None
    next_run_at: datetime | None

    @property
    def run(self) -> RegisteredRun:
        """It as it was registered.

        :raises InvalidRun: this version cannot use it.
        """
        said = {name: getattr(self, name) for name in ("conf", "cron", "tz", "preservation", "enabled", "description")}
        return RegisteredRun(self.name, self.dag_id, **said)


class RegisteredRuns:
    """Registers, changes and finds runs.

    :param catalog: as :class:`Schedules` has it.
    :param actor: on whose behalf; each change has its entry in the audit trail then, and stands in his name.
    """

    def __init__(self, store: Store, *, catalog: str, actor: Actor | None = None, make_id: IdMaker = new_id) -> None:
        self.store = store
        self.actor = actor
        # Without the actor: one change is one entry in the audit trail.
        self._schedules = ScheduleWriter(store, catalog=catalog, make_id=make_id)

    def register(self, run: RegisteredRun) -> StoredRun:
        """Enter a new one; it is enabled unless it says otherwise.

        :raises RunExists: the name is registered.
        :raises NameTaken: a schedule has the name.
        """

        def write(conn: sa.Connection) -> StoredRun:
            if self._row(conn, run.name) is not None:
                raise RunExists(run.name)
            return self._register(conn, run)

        return self._write(write)

    def upsert(self, run: RegisteredRun) -> tuple[StoredRun, Became]:
        """Register it or, if its name is registered, let it be as it is said here and nothing else.

        What is pending of a run that changes is discarded, and its cron counts from now; one that is as it was is not touched.

        :raises NameTaken: a schedule has the name.
        """

        def write(conn: sa.Connection) -> tuple[StoredRun, Became]:
            was = self._row(conn, run.name)
            if was is None:
                return self._register(conn, run), Became.REGISTERED
            enabled = was.enabled if run.enabled is None else run.enabled
            values = {**run.columns(), "enabled": enabled}
            if _same(values, was):
                return self._stored(conn, run.name), Became.UNCHANGED
            self._update(conn, run.name, values)
            self._follow(conn, run, was.cron, enabled=enabled)
            self._audit(conn, "update_run", run.name, enabled=enabled)
            return self._stored(conn, run.name), Became.CHANGED

        return self._write(write)

    def enable(self, name: str) -> StoredRun:
        """Let its cron count, from now on. Doing it twice changes nothing.

        :raises RunNotFound: there is none of this name.
        """
        return self._switch(name, on=True)

    def disable(self, name: str) -> StoredRun:
        """Discard what is pending, and let its cron not count. Doing it twice changes nothing.

        :raises RunNotFound: there is none of this name.
        """
        return self._switch(name, on=False)

    def unregister(self, name: str) -> None:
        """Remove it, and what is pending with it. Runs that Airflow has already go on.

        :raises RunNotFound: there is none of this name.
        """

        def write(conn: sa.Connection) -> None:
            row = self._required(conn, name)
            if row.cron is not None:
                self._schedules.delete(conn, name, by=self._by)
            else:
                self._schedules.discard(conn, name, "the run was unregistered")
            conn.execute(sa.delete(registered_runs).where(registered_runs.c.name == name))
            self._audit(conn, "unregister_run", name)

        self._write(write)

    def get(self, name: str) -> StoredRun:
        """:raises RunNotFound: there is none of this name."""
        return self.store.read(lambda conn: self._stored(conn, name))

    def list(
        self,
        *,
        dag_id: str | None = None,
        enabled: bool | None = None,
        search: str | None = None,
        after: str | None = None,
        limit: int = 1_000,
    ) -> list[StoredRun]:
        """Registered runs in order of their names.

        :param search: part of the name or of the DAG's id, whatever the case.
        :param after: only names that come later: the next page.
        """
        query = _with_clock().order_by(registered_runs.c.name).limit(limit)
        query = query if dag_id is None else query.where(registered_runs.c.dag_id == storable(dag_id))
        query = query if enabled is None else query.where(registered_runs.c.enabled.is_(enabled))
        query = query if after is None else query.where(registered_runs.c.name > storable(after))
        if search:
            text = storable(search).lower()
            searched = (registered_runs.c.name, registered_runs.c.dag_id)
            query = query.where(sa.or_(*(sa.func.lower(each).contains(text, autoescape=True) for each in searched)))
        return [_stored_from(row) for row in self.store.read(lambda conn: conn.execute(query).all())]

    def held(self, conn: sa.Connection, name: str) -> StoredRun:
        """The run, which nobody changes until the transaction ends; it began with :func:`number_in_turn`.

        :raises RunNotFound: there is none of this name.
        """
        self._required(conn, name)
        return self._stored(conn, name)

    def _register(self, conn: sa.Connection, run: RegisteredRun) -> StoredRun:
        if self._schedules.row(conn, run.name) is not None:
            raise NameTaken(run.name, "schedule")
        now, enabled = self.store.clock(), run.enabled is not False
        values = {"name": run.name, **run.columns(), "enabled": enabled, "created_at": now, "updated_at": now}
        conn.execute(sa.insert(registered_runs).values(**values, updated_by=self._by))
        self._follow(conn, run, None, enabled=enabled)
        self._audit(conn, "register_run", run.name, enabled=enabled)
        return self._stored(conn, run.name)

    def _follow(self, conn: sa.Connection, run: RegisteredRun, cron_before: str | None, *, enabled: bool) -> None:
        """Let the schedule be what the run's cron says."""
        schedule = run.schedule(enabled=enabled)
        if schedule is None and cron_before is not None:
            self._schedules.delete(conn, run.name, by=self._by)
        elif schedule is None:
            self._schedules.discard(conn, run.name, "the registered run was changed")
        elif cron_before is None:
            self._schedules.discard(conn, run.name, "the registered run was changed")
            self._schedules.create(conn, schedule, by=self._by, origin=Origin.RUN)
        else:
            self._schedules.update(conn, schedule, by=self._by, origin=Origin.RUN)
            self._schedules.switch(conn, run.name, on=enabled, by=self._by)

    def _switch(self, name: str, *, on: bool) -> StoredRun:
        def write(conn: sa.Connection) -> StoredRun:
            row = self._required(conn, name)
            if row.enabled != on:
                self._update(conn, name, {"enabled": on})
                if row.cron is not None:
                    self._schedules.switch(conn, name, on=on, by=self._by)
                elif not on:
                    self._schedules.discard(conn, name, "the registered run was disabled")
                self._audit(conn, "enable_run" if on else "disable_run", name)
            return self._stored(conn, name)

        return self._write(write)

    def _update(self, conn: sa.Connection, name: str, values: Mapping[str, Any]) -> None:
        changed = {**values, "updated_at": self.store.clock(), "updated_by": self._by}
        conn.execute(sa.update(registered_runs).where(registered_runs.c.name == name).values(**changed))

    def _write(self, work: Callable[[sa.Connection], T]) -> T:
        def in_turn(conn: sa.Connection) -> T:
            number_in_turn(conn)  # first of all, as in every change of a schedule
            return work(conn)

        return self.store.transact(in_turn)

    def _audit(self, conn: sa.Connection, change: str, name: str, **detail: Any) -> None:
        if self.actor is not None:
            write_audit(conn, self.store, self.actor, change, audit_subject(name), **detail)

    @property
    def _by(self) -> str | None:
        return None if self.actor is None else storable(self.actor.name)

    def _row(self, conn: sa.Connection, name: str) -> sa.Row[Any] | None:
        return conn.execute(sa.select(registered_runs).where(registered_runs.c.name == name).with_for_update()).first()

    def _required(self, conn: sa.Connection, name: str) -> sa.Row[Any]:
        row = self._row(conn, name)
        if row is None:
            raise RunNotFound(name)
        return row

    def _stored(self, conn: sa.Connection, name: str) -> StoredRun:
        row = conn.execute(_with_clock().where(registered_runs.c.name == name)).first()
        if row is None:
            raise RunNotFound(name)
        return _stored_from(row)


def audit_subject(name: str) -> str:
    """How the audit trail calls a registered run."""
    return f"run:{name}"


def _same(values: Mapping[str, Any], row: sa.Row[Any]) -> bool:
    """Compared as JSON: to Python, 1 and true are the same."""
    return json.dumps(dict(values), sort_keys=True) == json.dumps({name: getattr(row, name) for name in values}, sort_keys=True)


def _with_clock() -> sa.Select[Any]:
    """A run's cron is the one leaf of its schedule's trigger, so its clock is the one of that number."""
    clock = sa.and_(schedule_clocks.c.schedule == registered_runs.c.name, schedule_clocks.c.leaf == 0)
    return sa.select(registered_runs, schedule_clocks.c.next_at).outerjoin(schedule_clocks, clock)


def _stored_from(row: sa.Row[Any]) -> StoredRun:
    return StoredRun(
        name=row.name,
        dag_id=row.dag_id,
        conf=row.conf,
        cron=row.cron,
        tz=row.tz,
        preservation=None if row.preservation is None else Preservation(row.preservation),
        enabled=row.enabled,
        description=row.description,
        created_at=row.created_at,
        updated_at=row.updated_at,
        updated_by=row.updated_by,
        next_run_at=row.next_at,
    )
