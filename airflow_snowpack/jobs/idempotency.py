"""Idempotency keys: a request that is sent twice, because its answer was lost, is one job.

A key belongs to whoever used it. It is written with the job in one transaction, so that there is no moment between the two, and
it is forgotten after a day, or when its job is deleted. The same key with another request is refused, as the IETF's draft of the
``Idempotency-Key`` header has it: whoever made that mistake would otherwise be told that something was done which was not.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.jobs.errors import InvalidKey, KeyUsedBefore
from airflow_snowpack.store import upsert
from airflow_snowpack.store.retention import Kind
from airflow_snowpack.store.schema import idempotency_keys, jobs

KEPT = timedelta(days=1)
KEYS = Kind(
    idempotency_keys,
    age=idempotency_keys.c.at,
    order=(idempotency_keys.c.at, idempotency_keys.c.actor, idempotency_keys.c.key),
)
KEY = re.compile(r"[\x20-\x7e]{1,255}")


# As text, because in ON CONFLICT … WHERE, SQLAlchemy would give the subquery an idempotency_keys of its own.
job_of_key = jobs.c.job_id == sa.literal_column("idempotency_keys.job_id", sa.Text)
job_is_deleted = sa.exists().where(job_of_key, jobs.c.deleted_at.is_not(None))


class KeyTaken(Exception):
    """Inside of this room only: another transaction was first with the same key."""


def check_key(key: str) -> str:
    """:raises InvalidKey: it cannot be a key."""
    if not KEY.fullmatch(key):
        raise InvalidKey(key)
    return key


def fingerprint(table: TableName, actions: Sequence[str], options: Mapping[str, Any] | None, *, dry_run: bool) -> str:
    """What tells two requests apart."""
    said = [table.lock_key, sorted(str(action) for action in actions), options or {}, dry_run]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def find_job(conn: sa.Connection, actor: str, key: str, request: str, now: datetime) -> str | None:
    """The id of the job that this request became before.

    :raises KeyUsedBefore: the key came with another request.
    """
    mine = sa.and_(idempotency_keys.c.actor == actor, idempotency_keys.c.key == key)
    row = conn.execute(sa.select(idempotency_keys).where(mine, ~_forgotten(now))).first()
    if row is None:
        return None
    if row.fingerprint != request:
        raise KeyUsedBefore(key, row.job_id)
    return str(row.job_id)


def keep(conn: sa.Connection, actor: str, key: str, request: str, job_id: str, now: datetime) -> None:
    """Remember the key with its job.

    :raises KeyTaken: somebody else was first; the transaction must not be committed.
    """
    row = {"actor": actor, "key": key, "fingerprint": request, "job_id": job_id, "at": now}
    written = upsert(idempotency_keys, ["fingerprint", "job_id", "at"], where=_forgotten(now))
    if conn.execute(written.values(row).returning(idempotency_keys.c.key)).first() is None:
        raise KeyTaken(key)


def _forgotten(now: datetime) -> sa.ColumnElement[bool]:
    return sa.or_(idempotency_keys.c.at <= now - KEPT, job_is_deleted)
