"""Idempotency keys: a request that is repeated because its answer was lost is one job.

A key belongs to the actor that used it. It is written in one transaction with the job and expires after a day, or when its job is
deleted. The same key with another request is refused, as in the IETF's draft of the ``Idempotency-Key`` header.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

import sqlalchemy as sa

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.jobs.errors import InvalidKey, KeyUsedBefore
from airflow_snowpack.jobs.model import DEFAULT_PRIORITY, Job
from airflow_snowpack.store import Actor, upsert
from airflow_snowpack.store.retention import RetainedRows
from airflow_snowpack.store.tables.jobs import idempotency_keys, jobs

KEPT = timedelta(days=1)
KEYS = RetainedRows(
    idempotency_keys,
    age=idempotency_keys.c.at,
    order=(idempotency_keys.c.at, idempotency_keys.c.actor, idempotency_keys.c.key),
)
PLANNED = ("auto",)
KEY = re.compile(r"[\x20-\x7e]{1,255}")


# As text: in ON CONFLICT … WHERE, SQLAlchemy would add another idempotency_keys to the subquery.
job_of_key = jobs.c.job_id == sa.literal_column("idempotency_keys.job_id", sa.Text)
job_is_deleted = sa.exists().where(job_of_key, jobs.c.deleted_at.is_not(None))


class KeyTaken(Exception):
    """Another transaction was first with the same key; internal to this room."""


@dataclass(frozen=True, slots=True)
class Submission:
    """The job of a request; ``again`` if the request was repeated with the same key, and the job already existed."""

    job: Job
    again: bool = False


class KeepsJob(Protocol):
    """What a submission writes in one transaction with its job, so that a repeated request never becomes a second job."""

    def keep(self, conn: sa.Connection, job_id: str, now: datetime) -> None:
        """Store the job's id; an error undoes the submission."""
        ...


@dataclass(frozen=True, slots=True)
class RequestKey:
    """The idempotency key of one request of an actor; the fingerprint digests table, actions, options and priority."""

    actor: str
    key: str
    fingerprint: str

    @classmethod
    def of(
        cls,
        actor: Actor,
        key: str,
        table: TableName,
        actions: Sequence[str],
        options: Mapping[str, Any] | None,
        priority: int = DEFAULT_PRIORITY,
        *,
        dry_run: bool,
        planned: bool = False,
    ) -> RequestKey:
        """Return the key of a request.

        :param planned: a plan chooses the actions and options, so they may differ when the request is repeated.
        :raises InvalidKey: the key is not 1 to 255 printable ASCII characters.
        """
        if not KEY.fullmatch(key):
            raise InvalidKey(key)
        actions, options = (PLANNED, None) if planned else (actions, options)
        parts: list[Any] = [table.lock_key, sorted(str(action) for action in actions), options or {}, dry_run]
        # Left out if it is the default, so that keys from before priorities existed still match.
        parts += [] if priority == DEFAULT_PRIORITY else [priority]
        return cls(actor.name, key, hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest())

    def find_job(self, conn: sa.Connection, now: datetime) -> str | None:
        """Return the id of the job that this request created before.

        :raises KeyUsedBefore: the key was used with another request.
        """
        mine = sa.and_(idempotency_keys.c.actor == self.actor, idempotency_keys.c.key == self.key)
        row = conn.execute(sa.select(idempotency_keys).where(mine, ~_expired(now))).first()
        if row is None:
            return None
        if row.fingerprint != self.fingerprint:
            raise KeyUsedBefore(self.key, row.job_id)
        return str(row.job_id)

    def keep(self, conn: sa.Connection, job_id: str, now: datetime) -> None:
        """Store the key with its job.

        :raises KeyTaken: another transaction was first; this one must not be committed.
        """
        written = upsert(idempotency_keys, ["fingerprint", "job_id", "at"], where=_expired(now))
        row = {"actor": self.actor, "key": self.key, "fingerprint": self.fingerprint, "job_id": job_id, "at": now}
        if conn.execute(written.values(row).returning(idempotency_keys.c.key)).first() is None:
            raise KeyTaken(self.key)


def _expired(now: datetime) -> sa.ColumnElement[bool]:
    return sa.or_(idempotency_keys.c.at <= now - KEPT, job_is_deleted)
