"""The workers, one by one: their last signs of life, and the jobs that they have claimed.

    for worker in list_workers(store):
        print(worker.name, worker.state, [claim.job_id for claim in worker.claims])

A worker process claims under the name of its sign. A task's sign has the name of DAG and task for all of its runs, and its claims
name the run as well. A claim without a sign, as of a task that runs its own job, is a worker too.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import sqlalchemy as sa

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.jobs.rows import table_from
from airflow_snowpack.store import Store
from airflow_snowpack.store.signs_of_life import JOBS_ENDED, Role, Sign, newest_signs
from airflow_snowpack.store.tables.jobs import job_queue, jobs

MOST = 100
"""How many signs are read, those that were seen last; and again how many claims, the oldest."""


class WorkerState(StrEnum):
    """``gone``: it has not been seen for too long, or its lease has expired."""

    WORKING = "working"
    IDLE = "idle"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class WorkerClaim:
    """A job that a worker has claimed; without a heartbeat until ``lease_until``, it returns to the queue."""

    job_id: str
    table: TableName
    claimed_at: datetime
    lease_until: datetime


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """A worker.

    :param host, started_at, seen_at: ``None`` without a sign.
    :param jobs_ended: since it started, as of its last sign; ``None`` if it does not count them.
    """

    name: str
    state: WorkerState
    host: str | None
    started_at: datetime | None
    seen_at: datetime | None
    jobs_ended: int | None
    claims: tuple[WorkerClaim, ...]


def list_workers(store: Store) -> list[WorkerReport]:
    """Return the workers, in two statements: those that work, then idle ones, then those that are gone."""
    now = store.clock()
    signs, rows = store.read(lambda conn: (newest_signs(conn, Role.WORKER, MOST), conn.execute(CLAIMS).all()))
    claims: defaultdict[str, list[WorkerClaim]] = defaultdict(list)
    names = {_claims_as(sign): sign for sign in signs}
    for row in rows:
        ref = TaskRef.parse(row.claimed_by)
        name = row.claimed_by if row.claimed_by in names or ref is None else f"{ref.dag_id}/{ref.task_id}"
        claims[name if name in names else row.claimed_by].append(
            WorkerClaim(row.job_id, table_from(row), row.claimed_at, row.visible_at)
        )
    known = [_report(sign.instance, sign, claims.pop(name, []), now) for name, sign in names.items()]
    others = [_report(name, None, found, now) for name, found in claims.items()]
    return sorted([*known, *others], key=lambda worker: ([*WorkerState].index(worker.state), worker.name))


ACTIVE = sa.select(
    *(job_queue.c[name] for name in ("job_id", "claimed_at", "claimed_by", "visible_at")),
    *(jobs.c[name] for name in ("catalog", "catalog_id", "database_name", "table_name")),
).join(jobs, jobs.c.job_id == job_queue.c.job_id)
CLAIMS = ACTIVE.where(job_queue.c.claimed_at.is_not(None)).order_by(job_queue.c.claimed_at).limit(MOST)


def _claims_as(sign: Sign) -> str:
    dag = sign.detail.get("dag")
    return sign.instance if dag is None else f"{dag}/{sign.instance.removeprefix(f'{dag}.')}"


def _report(name: str, sign: Sign | None, claims: list[WorkerClaim], now: datetime) -> WorkerReport:
    is_alive = sign is not None and sign.is_alive(now)
    if any(claim.lease_until > now for claim in claims) and (is_alive or sign is None):
        state = WorkerState.WORKING
    else:
        state = WorkerState.IDLE if is_alive else WorkerState.GONE
    if sign is None:
        return WorkerReport(name, state, None, None, None, None, tuple(claims))
    ended, host = sign.detail.get(JOBS_ENDED), sign.detail.get("host")
    return WorkerReport(name, state, host, sign.started_at, sign.seen_at, None if ended is None else int(ended), tuple(claims))
