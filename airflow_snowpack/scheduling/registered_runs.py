"""The catalogue of registered runs: schedules with a cron trigger or none, and with a conf that one run may override.

    runs = RegisteredRuns(store, catalog="lake", actor=Actor("vera", "cli"))
    runs.register(RegisteredRun("features_daily", dag_id="make_features", cron="0 8 * * *"))
    runs.disable("features_daily")

The invariant: a registered run is one row among the schedules, of the origin ``run``, and is changed here alone. A disabled one
is a suspended schedule, so that no ticks pile up until it is enabled again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.preservation import RUN_KEY, Preservation
from airflow_snowpack.scheduling.errors import InvalidSchedule, RunNotFound
from airflow_snowpack.scheduling.registered_run import RegisteredRun
from airflow_snowpack.scheduling.schedule import Schedule
from airflow_snowpack.scheduling.schedule_writer import Origin, ScheduleWriter
from airflow_snowpack.scheduling.schedules import matching
from airflow_snowpack.store import Actor, IdMaker, Store, new_id
from airflow_snowpack.store.tables.schedules import schedule_clocks, schedules


class Became(StrEnum):
    """What an upsert did."""

    REGISTERED = "registered"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A registered run as the store has it.

    :param updated_at: when it was last registered, changed, enabled or disabled.
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
        """Its definition.

        :raises InvalidRun: this version cannot use it.
        """
        fields = {name: getattr(self, name) for name in ("conf", "cron", "tz", "preservation", "enabled", "description")}
        return RegisteredRun(self.name, self.dag_id, **fields)


class RegisteredRuns:
    """Registers, changes and finds runs.

    :param catalog: of the tables that triggers name.
    :param actor: who makes the changes; each is then audited.
    """

    def __init__(self, store: Store, *, catalog: str, actor: Actor | None = None, make_id: IdMaker = new_id) -> None:
        self.store = store
        self.actor = actor
        self._writer = ScheduleWriter(store, catalog=catalog, actor=actor, make_id=make_id, of_runs=True)

    def register(self, run: RegisteredRun) -> StoredRun:
        """Register a new one; it is enabled unless it is declared disabled.

        :raises RunExists: the name is registered.
        :raises NameTaken: a schedule has the name.
        """
        return self._writer.change(lambda conn: self._register(conn, run))

    def upsert(self, run: RegisteredRun) -> tuple[StoredRun, Became]:
        """Register it or, if its name is registered, replace it.

        What is pending of a run that changes is discarded, and its cron counts from now; an equal one is not touched.

        :raises NameTaken: a schedule has the name.
        """

        def write(conn: sa.Connection) -> tuple[StoredRun, Became]:
            was = self._writer.row(conn, run.name)
            if was is None:
                return self._register(conn, run), Became.REGISTERED
            enabled = was.enabled if run.enabled is None else run.enabled
            schedule = run.schedule(enabled=enabled)
            if enabled == was.enabled and _same(schedule, was.definition):
                return self._stored(conn, run.name), Became.UNCHANGED
            self._writer.update(conn, schedule, origin=Origin.RUN, enabled=enabled)
            return self._stored(conn, run.name), Became.CHANGED

        return self._writer.change(write)

    def enable(self, name: str) -> StoredRun:
        """Let its cron count, from now on. Doing it twice changes nothing.

        :raises RunNotFound: there is none of this name.
        """
        return self._switch(name, on=True)

    def disable(self, name: str) -> StoredRun:
        """Discard what is pending, and stop its cron. Doing it twice changes nothing.

        :raises RunNotFound: there is none of this name.
        """
        return self._switch(name, on=False)

    def unregister(self, name: str) -> None:
        """Remove it, and what is pending of it. DAG runs that Airflow has already continue.

        :raises RunNotFound: there is none of this name.
        """
        self._writer.change(lambda conn: self._writer.delete(conn, name))

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
        """Return registered runs in order of their names.

        :param search: part of the name or of the DAG's id, whatever the case.
        :param after: only names that come later: the next page.
        """
        query = matching(_with_clock(), dag_id=dag_id, enabled=enabled, search=search, after=after).limit(limit)
        return [_stored_from(row) for row in self.store.all(query)]

    def locked(self, conn: sa.Connection, name: str) -> tuple[StoredRun, str]:
        """Lock the run until the transaction ends, which began with :func:`number_in_turn`.

        :returns: the run, and the generation of its schedule.
        :raises RunNotFound: there is none of this name.
        """
        generation: str = self._writer.required(conn, name).generation
        return self._stored(conn, name), generation

    def _register(self, conn: sa.Connection, run: RegisteredRun) -> StoredRun:
        self._writer.create(conn, run.schedule(enabled=run.enabled is not False), origin=Origin.RUN)
        return self._stored(conn, run.name)

    def _switch(self, name: str, *, on: bool) -> StoredRun:
        def write(conn: sa.Connection) -> StoredRun:
            self._writer.switch(conn, name, on=on)
            return self._stored(conn, name)

        return self._writer.change(write)

    def _stored(self, conn: sa.Connection, name: str) -> StoredRun:
        row = conn.execute(_with_clock().where(schedules.c.name == name)).first()
        if row is None:
            raise RunNotFound(name)
        return _stored_from(row)


def _same(schedule: Schedule, definition: object) -> bool:
    try:
        stored = Schedule.from_json(definition)
    except InvalidSchedule:  # a newer version has written it
        return False
    # As text: to Python, 1 and true are the same.
    return _text(schedule) == _text(stored)


def _text(schedule: Schedule) -> str:
    return json.dumps(schedule.to_json() | {"enabled": None}, sort_keys=True)


def _with_clock() -> sa.Select[Any]:
    """Select registered runs; the cron of one is the only leaf of its trigger, so its clock is the one of that number."""
    clock = sa.and_(schedule_clocks.c.schedule == schedules.c.name, schedule_clocks.c.leaf == 0)
    query = sa.select(schedules, schedule_clocks.c.next_at).outerjoin(schedule_clocks, clock)
    return query.where(schedules.c.origin == Origin.RUN.value)


def _stored_from(row: sa.Row[Any]) -> StoredRun:
    definition = row.definition
    conf = dict(definition["conf"])
    kept = conf.pop(RUN_KEY, {}).get("preservation")
    cron = definition["trigger"].get("cron", {})
    return StoredRun(
        name=row.name,
        dag_id=row.dag_id,
        conf=conf,
        cron=cron.get("expression"),
        tz=cron.get("tz", "UTC"),
        preservation=None if kept is None else Preservation(kept),
        enabled=row.enabled,
        description=definition["description"],
        created_at=row.created_at,
        updated_at=row.changed_at,
        updated_by=row.changed_by,
        next_run_at=row.next_at,
    )
