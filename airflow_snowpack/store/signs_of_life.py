"""The background processes that use this store, and when each was last seen.

    sign = SignOfLife(store, Role.SWEEPER, "snowpack_sweep.sweep", period=timedelta(minutes=5))
    sign.beat()                                # each round of the role; most calls write nothing
    [each.instance for each in read_signs(conn) if each.is_alive(now)]

One row for each role and instance. A process is one instance (``host:pid``); a DAG task is the same instance in all of its runs.
A row promises the next sign within its period, so a DAG that sweeps every five minutes does not count as missing after two. A
role reports itself after its work is done, so a role whose runs all fail counts as missing. A store that does not answer is
logged, and the process goes on.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.recurring import Recurring
from airflow_snowpack.store.dialect import row_mapper, storable, upsert
from airflow_snowpack.store.schema import signs_of_life
from airflow_snowpack.store.store import Store

log = logging.getLogger(__name__)

BEAT = timedelta(seconds=30)
"""The period of a process that runs continuously."""
GONE_AFTER = timedelta(minutes=5)
"""The shortest time without a sign after which an instance counts as gone; above the gap between two dispatcher DAG runs."""
MISSED_PERIODS = 3
"""The number of periods without a sign after which an instance counts as gone."""
REMOVE_AFTER = timedelta(hours=1)
"""A running instance deletes the rows of instances of its role that have been gone for this long."""
JOBS_ENDED = "jobs_ended"
"""In the detail of a worker: how many jobs it has run to their end."""
MAX_INSTANCES = 20
"""The number of instances read per role."""


class Role(StrEnum):
    WORKER = "worker"
    SWEEPER = "sweeper"
    SCHEDULER = "scheduler"
    POLLER = "poller"
    COLLECTOR = "collector"
    NOTIFIER = "notifier"
    API = "api"


@dataclass(frozen=True, slots=True)
class Sign:
    """One instance of a role, as last reported.

    :param started_at: when the process, or the latest run of the task, started.
    :param period: the longest time to the next sign.
    :param detail: the host (``host``), the DAG of a task (``dag``), the catalog that it reaches, and of a worker
        :data:`JOBS_ENDED`.
    """

    role: str
    instance: str
    started_at: datetime
    seen_at: datetime
    period: timedelta
    detail: Mapping[str, str]

    def is_alive(self, now: datetime) -> bool:
        """Return whether the instance counts as running."""
        return is_alive(self.seen_at, now, self.period)


WRITE = upsert(signs_of_life, ["started_at", "seen_at", "period_s", "detail"])
_sign_from = row_mapper(Sign, period=lambda row: timedelta(seconds=row.period_s))


class SignOfLife:
    """Reports one instance of a role, by default this process; ``period`` is the longest time between two signs."""

    def __init__(
        self,
        store: Store,
        role: Role,
        instance: str | None = None,
        *,
        period: timedelta = BEAT,
        detail: Mapping[str, str] | None = None,
    ) -> None:
        host = socket.gethostname()
        self._store = store
        self._period = period
        self._row: dict[str, Any] = {
            "role": role.value,
            "instance": storable(instance or f"{host}:{os.getpid()}"),
            "period_s": period.total_seconds(),
            "detail": {"host": host, **{name: storable(value) for name, value in (detail or {}).items()}},
        }
        self._started_at: datetime | None = None
        self._seen_at: datetime | None = None
        self._tidied_at: datetime | None = None
        self._problem = Recurring(log)

    def note(self, name: str, value: str) -> None:
        """Change the detail that the next sign has."""
        self._row = {**self._row, "detail": {**self._row["detail"], name: storable(value)}}

    def beat(self) -> None:
        """Write the row, in one statement, unless it was written less than :data:`BEAT` ago."""
        now = self._store.clock()
        if self._seen_at is not None and abs(now - self._seen_at) < BEAT:
            return
        try:
            self._write(now)
            if self._tidied_at is None or abs(now - self._tidied_at) >= REMOVE_AFTER:
                self._remove_gone(now)
                self._tidied_at = now
        except Exception as problem:  # noqa: BLE001 - whatever it is, the process goes on
            self._problem.failed(problem, "sign_of_life_not_written: %s %s", self._row["role"], self._row["instance"])
        else:
            self._problem.passed()

    def _write(self, now: datetime) -> None:
        self._started_at = self._started_at or now
        self._store.execute(WRITE, {**self._row, "started_at": self._started_at, "seen_at": now})
        self._seen_at = now

    def _remove_gone(self, now: datetime) -> None:
        """Remove the rows of other instances of this role that have been gone for :data:`REMOVE_AFTER`."""
        before, table = now - REMOVE_AFTER, signs_of_life.c
        old = sa.select(signs_of_life).where(table.role == self._row["role"], table.seen_at < before)
        found = [_sign_from(row) for row in self._store.all(old)]
        gone = [each.instance for each in found if not each.is_alive(before)]
        if gone:
            delete = sa.delete(signs_of_life).where(
                table.role == self._row["role"], table.instance.in_(gone), table.seen_at < before
            )
            self._store.execute(delete)


def read_signs(conn: sa.Connection) -> list[Sign]:
    """Return the newest instances of each role, at most :data:`MAX_INSTANCES`, newest first."""
    place = sa.func.row_number().over(partition_by=signs_of_life.c.role, order_by=signs_of_life.c.seen_at.desc())
    ranked = sa.select(signs_of_life, place.label("place")).subquery()
    query = sa.select(ranked).where(ranked.c.place <= MAX_INSTANCES).order_by(ranked.c.role, ranked.c.place)
    return [_sign_from(row) for row in conn.execute(query)]


def newest_signs(conn: sa.Connection, role: Role, limit: int) -> list[Sign]:
    """Return the instances of a role that were seen last, newest first."""
    of_role = sa.select(signs_of_life).where(signs_of_life.c.role == role.value)
    return [_sign_from(row) for row in conn.execute(of_role.order_by(signs_of_life.c.seen_at.desc()).limit(limit))]


def last_seen(conn: sa.Connection, role: Role) -> datetime | None:
    """Return when any instance of the role was last seen; ``None`` for never."""
    newest = sa.select(signs_of_life.c.seen_at).where(signs_of_life.c.role == role.value)
    seen_at: datetime | None = conn.execute(newest.order_by(signs_of_life.c.seen_at.desc()).limit(1)).scalar()
    return seen_at


def is_alive(seen_at: datetime | None, now: datetime, period: timedelta = BEAT) -> bool:
    """Return whether an instance last seen at this time counts as running."""
    return seen_at is not None and now - seen_at < max(GONE_AFTER, MISSED_PERIODS * period)
