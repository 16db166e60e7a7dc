"""Which processes have opened the store, and which catalog each of them reaches, for `airflow snowpack doctor`.

    note_process(store, "worker", "pod-7", {"catalog_id": "3f2a91bc04de"})
    [sighting.host for sighting in processes(store)]      # ['pod-7']

One row for each role and host. A process notes itself when it starts. What goes wrong then is logged, and does not keep the
process from its work.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError

from airflow_snowpack.store.errors import StoreError
from airflow_snowpack.store.schema import store_facts
from airflow_snowpack.store.text import storable

if TYPE_CHECKING:
    from airflow_snowpack.store.store import Store

log = logging.getLogger(__name__)

PREFIX = "process:"
KEPT = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Sighting:
    """A process as it noted itself.

    :param role: ``api``, ``worker`` or ``scheduler``.
    :param at: when it last started.
    """

    role: str
    host: str
    at: datetime
    detail: Mapping[str, str]


def note_process(store: Store, role: str, host: str, detail: Mapping[str, str]) -> None:
    """Note that a process opened the store, in place of an earlier one of its role and host, and forget those of last week."""
    now = store.clock()
    insert = postgresql.insert if store.is_postgres else sqlite.insert
    value = json.dumps({"role": role, "host": host, "at": now.isoformat(), "detail": dict(detail)})
    row = insert(store_facts).values(name=storable(f"{PREFIX}{role}@{host}"), value=storable(value))
    row = row.on_conflict_do_update(index_elements=[store_facts.c.name], set_={"value": row.excluded.value})

    def write(conn: sa.Connection) -> None:
        conn.execute(row)
        old = [name for name, sighting in _read(conn).items() if sighting.at < now - KEPT]
        if old:
            conn.execute(sa.delete(store_facts).where(store_facts.c.name.in_(old)))

    try:
        store.transact(write)
    except (StoreError, SQLAlchemyError) as problem:
        log.warning("process_not_noted: %s on %s: %s", role, host, problem)


def processes(store: Store) -> list[Sighting]:
    """Return the processes that opened this store in the last week, by role and host."""
    since = store.clock() - KEPT
    found = store.read(_read).values()
    return sorted((each for each in found if each.at >= since), key=lambda each: (each.role, each.host))


def _read(conn: sa.Connection) -> dict[str, Sighting]:
    query = sa.select(store_facts).where(store_facts.c.name.startswith(PREFIX, autoescape=True))
    return {row.name: _sighting(json.loads(row.value)) for row in conn.execute(query)}


def _sighting(value: dict[str, object]) -> Sighting:
    detail = value["detail"]
    assert isinstance(detail, dict)
    return Sighting(str(value["role"]), str(value["host"]), datetime.fromisoformat(str(value["at"])), detail)
