"""Which background roles run, which are missing, since when, and what to do about it.

    for report in read_roles(store, services.dag_states):
        print(report)        # No sweeper for 40 min: DAG snowpack_sweep is paused. Unpause it.

A role is missing when there is work for it and none of its instances has reported itself in time. A role without work is not
missing, whether it ever ran or not. The page, ``/readyz``, the metrics and ``airflow snowpack doctor`` use the same reports.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.humanize import SHORTEST_AGO, one_unit, plural
from airflow_snowpack.jobs.statements import draining
from airflow_snowpack.scheduling.sources.source import added_sources
from airflow_snowpack.scheduling.triggers.trigger import TABLES
from airflow_snowpack.store import Store
from airflow_snowpack.store.signs_of_life import GONE_AFTER, Role, Sign, read_signs
from airflow_snowpack.store.tables.interim import interim_tables
from airflow_snowpack.store.tables.jobs import job_queue, jobs, table_locks
from airflow_snowpack.store.tables.schedules import launches, schedule_triggers

SHOWN = (Role.WORKER, Role.SWEEPER, Role.SCHEDULER, Role.POLLER, Role.COLLECTOR)
RECENT = timedelta(hours=24)
"""Jobs of this period may have left claims and locks for the sweeper."""

NAMES = {Role.POLLER: "table poller", Role.COLLECTOR: "interim table collector"}
DAGS = {Role.SWEEPER: "snowpack_sweep", Role.SCHEDULER: "snowpack_dispatcher", Role.COLLECTOR: "snowpack_interim_collector"}
IMPORTED_AS = {Role.SWEEPER: "sweep", Role.SCHEDULER: "scheduler", Role.COLLECTOR: "collector"}
"""The names of these DAGs in :mod:`airflow_snowpack.dags`."""
OTHER_DAGS = {
    "prune": "snowpack_prune",
    "workers": "snowpack_workers",
    "fleet": "snowpack_maintain_fleet",
    "notifications": "snowpack_notifications",
}
"""Those that no role depends on: another DAG or process may do their work without a sign of life."""
TO_START = {
    Role.WORKER: "Start `airflow snowpack worker`, or unpause the DAG snowpack_workers.",
    Role.SWEEPER: "Unpause the DAG snowpack_sweep, or run `airflow snowpack sweep` every 5 minutes.",
    Role.SCHEDULER: "Unpause the DAG snowpack_dispatcher, or run `airflow snowpack scheduler`.",
    Role.POLLER: "It runs inside the scheduler. Start one, or search its log for tables_not_polled.",
    Role.COLLECTOR: "Unpause the DAG snowpack_interim_collector, or run `airflow snowpack interim collect` every 10 minutes.",
}
NO_WORK = {
    Role.WORKER: "no job can be claimed",
    Role.SWEEPER: "no table is locked, and no job was submitted in the last 24 h",
    Role.SCHEDULER: "no schedule is enabled, and no run waits to be started",
    Role.POLLER: "no enabled schedule listens to a table",
    Role.COLLECTOR: "there are no interim tables",
}


class DagState(StrEnum):
    """The state of a DAG in Airflow."""

    ACTIVE = "active"
    PAUSED = "paused"
    MISSING = "missing"


DagStates = Callable[[Collection[str]], Mapping[str, DagState]]


def no_dag_states(dag_ids: Collection[str]) -> Mapping[str, DagState]:
    """For a process that cannot read Airflow's database."""
    return {}


@dataclass(frozen=True, slots=True)
class RoleReport:
    """The state of a role.

    :param running: its instances that run, the one that was seen last first.
    :param last: the instance that was seen last; ``None`` when none ever reported itself.
    :param work_since: since when there is work for it, as far as that is known; ``None`` without work.
    :param dag_state: of the DAG that did its work last, or is to do it.
    """

    role: Role
    now: datetime
    running: tuple[Sign, ...]
    last: Sign | None
    work_since: datetime | None = None
    dag_state: DagState | None = None

    @property
    def is_missing(self) -> bool:
        """Whether there has been work for a while, and no instance runs."""
        return not self.running and self.work_since is not None and self.now - self.work_since >= GONE_AFTER

    @property
    def name(self) -> str:
        """The role for people."""
        return NAMES.get(self.role, self.role.value)

    @property
    def dag_id(self) -> str | None:
        """The DAG that did its work last; the one that is to do it, when none ever did."""
        return DAGS.get(self.role) if self.last is None else self.last.detail.get("dag")

    def __str__(self) -> str:
        if self.running:
            seen = _span(self.now - self.running[0].seen_at)
            return f"{plural(len(self.running), self.name)} running, last seen {seen} ago."
        if self.is_missing:
            return f"{self._gone()}{self._what_to_do()}"
        if self.work_since is not None:
            return f"{self._gone()}. There has been work for it for {_span(self.now - self.work_since)}."
        return f"{self._gone()}, and none is needed: {NO_WORK[self.role]}."

    def _gone(self) -> str:
        if self.last is None:
            return f"No {self.name} has run on this store"
        return f"No {self.name} for {_span(self.now - self.last.seen_at)}"

    def _what_to_do(self) -> str:
        dag_id = self.dag_id
        match self.dag_state:
            case DagState.PAUSED:
                return f": DAG {dag_id} is paused. Unpause it."
            case DagState.ACTIVE:
                return f": DAG {dag_id} is not paused. Check its latest runs."
            case DagState.MISSING:
                return f": Airflow has no DAG {dag_id}. {self._to_add()}"
            case _ if self.last is not None and dag_id is not None:
                return f". Check whether DAG {dag_id} is paused, and its latest runs."
            case _:
                return f". {TO_START[self.role]}"

    def _to_add(self) -> str:
        if self.dag_id != DAGS.get(self.role):
            return TO_START[self.role]
        command = TO_START[self.role].partition(", or ")[2]
        return f"Add `from airflow_snowpack.dags import {IMPORTED_AS[self.role]}` to a DAG file, or {command}"


def read_roles(store: Store, dag_states: DagStates = no_dag_states) -> list[RoleReport]:
    """Report each background role: one statement, and a second one while some role does not run.

    :param dag_states: called only while a role is missing whose work a DAG does.
    """
    now = store.clock()
    signs, work = store.read(lambda conn: _read(conn, now))
    reports = []
    for role in SHOWN:
        mine = [sign for sign in signs if sign.role == role]
        running = tuple(sign for sign in mine if sign.is_alive(now))
        reports.append(RoleReport(role, now, running, mine[0] if mine else None, work.get(role)))
    asked = {report.dag_id for report in reports if report.is_missing and report.dag_id is not None}
    states = dag_states(sorted(asked)) if asked else {}
    return [replace(report, dag_state=states.get(report.dag_id or "")) for report in reports]


def missing_dags(store: Store, dag_states: DagStates, *, has_policies: bool, has_notifiers: bool = False) -> list[str]:
    """Return which of :data:`OTHER_DAGS` this installation needs and Airflow does not have, by the names of their imports.

    :param has_policies: there are maintenance policies, which a fleet's passes apply.
    :param has_notifiers: notifiers are configured.
    """
    workers = next(report for report in read_roles(store) if report.role is Role.WORKER)
    needed = {"prune": True, "workers": workers.work_since is not None and not workers.running}
    needed |= {"fleet": has_policies, "notifications": has_notifiers}
    states = dag_states([OTHER_DAGS[name] for name, is_needed in needed.items() if is_needed])
    return [name for name in needed if states.get(OTHER_DAGS[name]) is DagState.MISSING]


def _read(conn: sa.Connection, now: datetime) -> tuple[list[Sign], dict[Role, datetime | None]]:
    signs = read_signs(conn)
    running = {sign.role for sign in signs if sign.is_alive(now)}
    if running.issuperset(SHOWN):
        return signs, {}
    return signs, _work(conn.execute(_work_query(now)).one(), now)


def _work_query(now: datetime) -> sa.Select[Any]:
    """Since when there is work for each role; of what has no beginning on record, whether there is any."""
    waits = sa.and_(job_queue.c.claimed_at.is_(None), job_queue.c.visible_at <= now, ~draining)
    polled = [
        schedule_triggers.c.event_key.startswith(begins, autoescape=True)
        for begins in (TABLES, *(f"{kind}:" for kind in sorted(added_sources())))
    ]
    recent = sa.select(jobs.c.submitted_at).where(
        jobs.c.submitted_at > now - RECENT, jobs.c.deleted_at.is_(None), ~jobs.c.dry_run
    )
    return sa.select(
        sa.select(sa.func.min(job_queue.c.enqueued_at)).where(waits).scalar_subquery().label("waits"),
        sa.select(sa.func.min(job_queue.c.enqueued_at)).scalar_subquery().label("queued"),
        sa.select(sa.func.min(table_locks.c.acquired_at)).scalar_subquery().label("locked"),
        recent.order_by(jobs.c.submitted_at, jobs.c.job_id).limit(1).scalar_subquery().label("submitted"),
        # Only enabled schedules have rows there, so that no number of suspended ones is read.
        sa.select(schedule_triggers.c.leaf).exists().label("enabled"),
        sa.select(sa.func.min(launches.c.visible_at)).where(launches.c.visible_at <= now).scalar_subquery().label("launch"),
        sa.exists().where(sa.or_(*polled)).label("listened"),
        sa.select(sa.func.min(interim_tables.c.created_at)).scalar_subquery().label("made"),
    )


def _work(row: sa.Row[Any], now: datetime) -> dict[Role, datetime | None]:
    long_ago = now - RECENT
    left = [moment for moment in (row.queued, row.locked, row.submitted) if moment is not None]
    return {
        Role.WORKER: row.waits,
        Role.SWEEPER: min(left, default=None),
        Role.SCHEDULER: long_ago if row.enabled else row.launch,
        Role.POLLER: long_ago if row.listened else None,
        Role.COLLECTOR: row.made,
    }


def _span(span: timedelta) -> str:
    return one_unit(max(span, SHORTEST_AGO))
