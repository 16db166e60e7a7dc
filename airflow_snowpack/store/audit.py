"""The audit trail: who changed what, when and through which interface. Entries are written in the transaction of the change.

    def cancel(job_id, *, actor=None):            # in a room: each method that changes something takes the actor
        def write(conn): ...; write_audit(conn, store, actor, "cancel", job_id)
        store.transact(write)

    AuditTrail(store).of(job_id)

The invariant: every change that an actor requests has an entry. Changes by tasks and the installation have no actor and no entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.store.dialect import row_mapper, storable
from airflow_snowpack.store.retention import RetainedRows
from airflow_snowpack.store.schema import audit_trail
from airflow_snowpack.store.store import Store

LAST_ID = 2**63 - 1
COLUMNS = [column for column in audit_trail.columns if column.name != "id"]


@dataclass(frozen=True, slots=True)
class Actor:
    """The user that requests a change.

    :param name: the user's name in the API or the operating system.
    :param via: where the request came in: ``api``, ``page``, ``cli``, ``task`` for an Airflow task, ``job`` for a job.
    """

    name: str
    via: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", storable(self.name))


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One change that an actor made.

    :param change: such as ``submit``, ``cancel`` or ``drain_on``.
    :param subject: what was changed: a job's id, a table's name with its catalog, ``drain``, or ``schedule:`` with a name.
    """

    id: int
    at: datetime
    actor: str
    via: str
    change: str
    subject: str
    detail: Mapping[str, Any]


def write_audit(conn: sa.Connection, store: Store, actor: Actor | None, change: str, subject: str, **detail: Any) -> None:
    """Write the entry of a change in its transaction; without an actor, write nothing."""
    if actor is not None:
        conn.execute(INSERT_ENTRY, entry_values(store, actor, change, subject, **detail))


def entry_values(store: Store, actor: Actor, change: str, subject: str, **detail: Any) -> dict[str, Any]:
    return {
        "a_at": store.clock(),
        "a_actor": actor.name,
        "a_via": actor.via,
        "a_change": change,
        "a_subject": subject,
        "a_detail": {name: storable(value) if isinstance(value, str) else value for name, value in detail.items()},
    }


def insert_entry(source: sa.FromClause | None = None) -> Any:
    """Return the statement that inserts an entry from its ``a_…`` parameters, once for each row of ``source`` (default: once)."""
    row = sa.select(*(sa.bindparam(f"a_{column.name}", type_=column.type) for column in COLUMNS))
    return sa.insert(audit_trail).from_select(
        [column.name for column in COLUMNS], row if source is None else row.select_from(source)
    )


INSERT_ENTRY = insert_entry()
entry_from = row_mapper(AuditEntry)

AUDIT_TRAIL = RetainedRows(audit_trail, age=audit_trail.c.at, order=(audit_trail.c.id,), at_least=timedelta(days=365))
"""Entries are kept for at least a year, even if other rows are deleted earlier."""


def _about(subject: str) -> sa.ColumnElement[bool]:
    return audit_trail.c.subject == storable(subject)


class AuditTrail:
    def __init__(self, store: Store) -> None:
        self._store = store

    def of(self, subject: str) -> list[AuditEntry]:
        """Return the changes of one job, table or switch, oldest first."""
        return self._read(sa.select(audit_trail).where(_about(subject)).order_by(audit_trail.c.id))

    def latest(self, limit: int = 100, before: int | None = None, subject: str | None = None) -> list[AuditEntry]:
        """Return the newest entries first, all or those of one subject; for the next page only those before an id."""
        query = sa.select(audit_trail).order_by(audit_trail.c.id.desc()).limit(limit)
        query = query if before is None else query.where(audit_trail.c.id < max(0, min(before, LAST_ID)))
        return self._read(query if subject is None else query.where(_about(subject)))

    def _read(self, query: sa.Select[Any]) -> list[AuditEntry]:
        return [entry_from(row) for row in self._store.all(query)]
