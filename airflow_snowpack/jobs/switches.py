"""Drain mode: submissions are refused and the sweep pauses, while running jobs finish and pending ones wait.

It is switched on before the store is moved or upgraded (the specification's "backend migration").
"""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from airflow_snowpack.jobs.model import DrainState
from airflow_snowpack.jobs.statements import DRAIN
from airflow_snowpack.store import Store, storable
from airflow_snowpack.store.schema import switches


def read_drain(conn: sa.Connection) -> DrainState:
    """The state of the switch; off when nobody ever touched it."""
    row = conn.execute(sa.select(switches).where(switches.c.name == DRAIN)).first()
    if row is None:
        return DrainState(on=False)
    return DrainState(on=row.enabled, since=row.changed_at, by=row.changed_by, reason=row.reason)


def write_drain(
    store: Store, *, on: bool, by: str | None, reason: str | None, also: Callable[[sa.Connection], None] | None = None
) -> DrainState:
    """Set the switch. Setting it to what it is changes nothing, its time and author included."""
    insert = postgresql.insert if store.is_postgres else sqlite.insert
    said = {"changed_by": by and storable(by), "reason": reason and storable(reason)}
    values = {"enabled": on, "changed_at": store.clock(), **said}
    statement = insert(switches).values(name=DRAIN, **values)
    statement = statement.on_conflict_do_update(index_elements=["name"], set_=values, where=switches.c.enabled != on)

    def write(conn: sa.Connection) -> DrainState:
        if read_drain(conn).on == on:
            return read_drain(conn)
        # Somebody else may have set it since: only a row that comes back was changed by us.
        if conn.execute(statement.returning(switches.c.name)).first() is not None and also is not None:
            also(conn)
        return read_drain(conn)

    return store.transact(write)
