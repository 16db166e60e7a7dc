"""Registered runs: named defaults for the runs of a DAG, optionally with a cron, and the catalogue of them.

    features = RegisteredRun(
        "features_daily",
        dag_id="make_features",
        conf={"table": "analytics.page_views", "days": 7},
        cron="0 8 * * *",
        tz="Europe/Berlin",
        preservation="FULL",
    )
    features.conf_of_run({"days": 30}, None)   # {"table": …, "days": 30, "snowpack_run": {…}}
    RegisteredRuns(store, catalog="lake", actor=Actor("vera", "cli")).register(features)

The invariant: a registered run that exists is valid, and the conf of each of its runs, by cron or by hand, has its name and the
preservation of its interim tables. It is a row among the schedules, of the origin ``run``, changed only here. A disabled run is a
suspended schedule: no ticks pile up until it is enabled again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.preservation import RUN_KEY, Preservation
from airflow_snowpack.scheduling.cron import parse_cron, parse_zone
from airflow_snowpack.scheduling.declared import optional
from airflow_snowpack.scheduling.errors import InvalidRun, InvalidSchedule, RunNotFound
from airflow_snowpack.scheduling.permission import MayStart
from airflow_snowpack.scheduling.schedule import (
    Schedule,
    parse_conf,
    parse_dag_id,
    parse_description,
    parse_flag,
    parse_name,
    read_field,
    read_fields,
    readable,
)
from airflow_snowpack.scheduling.schedules import ScheduleOrigin, ScheduleWriter, matching
from airflow_snowpack.scheduling.triggers.clock_triggers import ByHand, Cron
from airflow_snowpack.store import Actor, Store
from airflow_snowpack.store.dialect import row_mapper
from airflow_snowpack.store.tables.schedules import schedule_clocks, schedules

OURS = (RUN_KEY, "snowpack")
"""The keys that Snowpack writes into a run's conf."""


@dataclass(frozen=True)
class RegisteredRun:
    """The definition of a registered run.

    :param name: unique among registered runs and schedules, with the syntax of a schedule's name.
    :param conf: the ``dag_run.conf`` of each run. A manual run may add or replace values.
    :param cron: five fields, or six with the seconds first; ``None`` for manual runs only.
    :param tz: the IANA zone of the cron; ``UTC`` without a cron.
    :param preservation: of its runs' interim tables, unless a task or a request overrides it; ``None`` for the default.
    :param enabled: whether its cron is active; ``None`` keeps the current value, and enables a new run.
    :raises InvalidRun: a value is invalid; the error names its field.
    """

    name: str
    dag_id: str
    conf: Mapping[str, Any] = field(default_factory=dict)
    cron: str | None = None
    tz: str = "UTC"
    preservation: Preservation | str | None = None
    enabled: bool | None = None
    description: str = ""

    def __post_init__(self) -> None:
        with _invalid_run():
            for name, parse in _READERS.items():
                object.__setattr__(self, name, read_field(name, getattr(self, name), parse))
        if self.cron is None:
            object.__setattr__(self, "tz", "UTC")

    @classmethod
    def from_json(cls, value: object) -> RegisteredRun:
        """:raises InvalidRun: a field is missing, unknown or invalid."""
        with _invalid_run():
            return cls(**read_fields("run", value, known=_READERS, required=("name", "dag_id")))

    def schedule(self, *, enabled: bool) -> Schedule:
        """Return the run as a schedule."""
        return Schedule(
            self.name,
            dag_id=self.dag_id,
            trigger=ByHand() if self.cron is None else Cron(self.cron, self.tz),
            conf=self.conf_of_run({}, None),
            enabled=enabled,
            description=self.description,
        )

    def conf_of_run(self, given: Mapping[str, Any], preservation: Preservation | None) -> dict[str, Any]:
        """Return the conf of one run: its values override the defaults key by key; objects are replaced as a whole.

        :param preservation: of this run; ``None`` for the registered one.
        """
        kept = self.preservation if preservation is None else preservation
        registration = {
            "name": self.name,
            "preservation": None if kept is None else str(kept),
            "explicit": preservation is not None,
        }
        return {**self.conf, **given, RUN_KEY: registration}


def read_given(conf: object, preservation: object) -> tuple[Mapping[str, Any], Preservation | None]:
    """Read the values for one run: of its conf, and the preservation of its interim tables.

    :raises InvalidRun: the conf is not a JSON object or has a reserved key, or the preservation is unknown.
    """
    with _invalid_run():
        given = {} if conf is None else conf
        return read_field("conf", given, _conf), read_field("preservation", preservation, _preservation)


@contextmanager
def _invalid_run() -> Iterator[None]:
    """Raise errors of fields as :class:`InvalidRun`."""
    try:
        yield
    except InvalidSchedule as error:
        raise InvalidRun(error.field, error.value, error.problem) from error


def _conf(value: object) -> Mapping[str, Any]:
    conf = parse_conf(value)
    for name in OURS:
        if name in conf:
            raise ValueError(f"the key {name!r} is reserved; leave it out")
    return conf


def _preservation(value: object) -> Preservation | None:
    if value is None:
        return None
    if not isinstance(value, str) or value not in tuple(Preservation):
        raise ValueError(f"it must be {' or '.join(Preservation)}, or be left out")
    return Preservation(value)


_READERS: dict[str, Callable[[Any], Any]] = {
    "name": parse_name,
    "dag_id": parse_dag_id,
    "conf": _conf,
    "cron": optional(parse_cron),
    "tz": parse_zone,
    "preservation": _preservation,
    "enabled": optional(parse_flag),
    "description": parse_description,
}


class Became(StrEnum):
    """What an upsert did."""

    REGISTERED = "registered"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A stored registered run.

    :param updated_at: when it was last registered, changed, enabled or disabled.
    :param next_run_at: the next time of its cron; ``None`` without one, and while it is disabled.
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
        """:raises InvalidRun: this version cannot use the definition."""
        fields = {name: getattr(self, name) for name in ("conf", "cron", "tz", "preservation", "enabled", "description")}
        return RegisteredRun(self.name, self.dag_id, **fields)


class RegisteredRuns:
    """Registers, changes and finds runs.

    :param catalog: of the tables that triggers name.
    :param actor: who makes the changes, for the audit trail.
    :param may_start: whether the actor may start a DAG; ``None`` for any DAG. Without permission, registering, changing, enabling
        and running a run of the DAG raise :class:`DagNotAllowed`.
    """

    def __init__(
        self,
        store: Store,
        *,
        catalog: str,
        actor: Actor | None = None,
        may_start: MayStart | None = None,
    ) -> None:
        self.store = store
        self.actor = actor
        self._writer = ScheduleWriter(store, catalog, actor, of_runs=True, may_start=may_start)
        self.starts = self._writer.starts

    def register(self, run: RegisteredRun) -> StoredRun:
        """Register a new run, enabled unless it is declared disabled.

        :raises RunExists: the name is registered.
        :raises NameTaken: a schedule has the name.
        """
        return self._writer.change(lambda conn: self._register(conn, run))

    def upsert(self, run: RegisteredRun, *, discard: bool = False) -> tuple[StoredRun, Became]:
        """Register the run or, if its name is registered, replace it.

        A new cron or DAG, enabling and disabling discard the pending runs, and the cron counts from now. Other changes keep them
        waiting with the new values; an equal run is not touched.

        :raises DiscardsEvents: the change would discard events, and ``discard`` is not set.
        :raises NameTaken: a schedule has the name.
        """

        def write(conn: sa.Connection) -> tuple[StoredRun, Became]:
            was = self._writer.row(conn, run.name)
            if was is None:
                return self._register(conn, run), Became.REGISTERED
            self.starts.require(was.dag_id, run.dag_id)
            enabled = was.enabled if run.enabled is None else run.enabled
            schedule = run.schedule(enabled=enabled)
            if enabled == was.enabled and _same(schedule, was.definition):
                return self._stored(conn, run.name), Became.UNCHANGED
            self._writer.update(conn, schedule, origin=ScheduleOrigin.RUN, enabled=enabled, discard=discard)
            return self._stored(conn, run.name), Became.CHANGED

        return self._writer.change(write)

    def enable(self, name: str) -> StoredRun:
        """Activate its cron from now on; idempotent.

        :raises RunNotFound: there is no registered run with this name.
        """
        return self._switch(name, on=True)

    def disable(self, name: str) -> StoredRun:
        """Stop its cron and discard its pending runs; idempotent.

        :raises RunNotFound: there is no registered run with this name.
        """
        return self._switch(name, on=False)

    def unregister(self, name: str) -> None:
        """Remove it with its pending runs. Existing DAG runs in Airflow continue.

        :raises RunNotFound: there is no registered run with this name.
        """
        self._writer.change(lambda conn: self._writer.delete(conn, name))

    def get(self, name: str) -> StoredRun:
        """:raises RunNotFound: there is no registered run with this name."""
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
        """Return registered runs by name after the name ``after``; ``search`` matches part of a name or a DAG's id, ignoring
        case.
        """
        query = matching(_with_clock(), dag_id=dag_id, enabled=enabled, search=search, after=after).limit(limit)
        return [_stored_from(row) for row in self.store.all(query)]

    def locked(self, conn: sa.Connection, name: str) -> tuple[StoredRun, str]:
        """Lock the run until the transaction ends, which must have begun with :func:`number_in_turn`.

        :returns: the run, and the generation of its schedule.
        :raises RunNotFound: there is no registered run with this name.
        """
        generation: str = self._writer.required(conn, name).generation
        return self._stored(conn, name), generation

    def _register(self, conn: sa.Connection, run: RegisteredRun) -> StoredRun:
        self._writer.create(conn, run.schedule(enabled=run.enabled is not False), origin=ScheduleOrigin.RUN)
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
    stored = readable(definition)
    # As text, because 1 and true are equal in Python.
    return stored is not None and _text(schedule) == _text(stored)


def _text(schedule: Schedule) -> str:
    return json.dumps(schedule.to_json() | {"enabled": None}, sort_keys=True)


def _with_clock() -> sa.Select[Any]:
    """Select registered runs with their clocks; the cron of a run is its trigger's only leaf, number 0."""
    clock = sa.and_(schedule_clocks.c.schedule == schedules.c.name, schedule_clocks.c.leaf == 0)
    query = sa.select(schedules, schedule_clocks.c.next_at).outerjoin(schedule_clocks, clock)
    return query.where(schedules.c.origin == ScheduleOrigin.RUN.value)


def _preservation_of(row: sa.Row[Any]) -> Preservation | None:
    kept = row.definition["conf"].get(RUN_KEY, {}).get("preservation")
    return None if kept is None else Preservation(kept)


_stored_from = row_mapper(
    StoredRun,
    conf=lambda row: {name: value for name, value in row.definition["conf"].items() if name != RUN_KEY},
    cron=lambda row: row.definition["trigger"].get("cron", {}).get("expression"),
    tz=lambda row: row.definition["trigger"].get("cron", {}).get("tz", "UTC"),
    preservation=_preservation_of,
    description=lambda row: row.definition["description"],
    updated_at="changed_at",
    updated_by="changed_by",
    next_run_at="next_at",
)
