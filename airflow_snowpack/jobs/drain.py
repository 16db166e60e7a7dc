"""Drain mode: nothing is submitted, claimed or swept; running jobs finish and pending jobs wait.

It is switched on before the store is moved or upgraded (the specification's "backend migration").
"""

from __future__ import annotations

import sqlalchemy as sa

from airflow_snowpack.jobs.model import DrainState
from airflow_snowpack.jobs.statements import DRAIN
from airflow_snowpack.store import Actor, Store, storable, upsert, write_audit
from airflow_snowpack.store.tables.jobs import switches


def read_drain(conn: sa.Connection) -> DrainState:
    """Return the state of the switch; off until first used."""
    row = conn.execute(sa.select(switches).where(switches.c.name == DRAIN)).first()
    if row is None:
        return DrainState(on=False)
    return DrainState(on=row.enabled, since=row.changed_at, by=row.changed_by, reason=row.reason)


def write_drain(store: Store, *, on: bool, by: str | None, reason: str | None, actor: Actor | None = None) -> DrainState:
    """Set the switch. Switching it on while it is on only changes the reason, if one is given."""
    reason = reason and storable(reason)
    values = {"enabled": on, "changed_at": store.clock(), "changed_by": by and storable(by), "reason": reason}
    switched = upsert(switches, values, where=switches.c.enabled != on).values(name=DRAIN, **values)
    renewed = sa.update(switches).values(reason=reason)
    renewed = renewed.where(switches.c.name == DRAIN, switches.c.enabled, switches.c.reason.is_distinct_from(reason))

    def write(conn: sa.Connection) -> DrainState:
        # Another process may set it in between: only a returned row was changed here.
        change = None
        if read_drain(conn).on != on and conn.execute(switched.returning(switches.c.name)).first() is not None:
            change = "drain_on" if on else "drain_off"
        elif on and reason and conn.execute(renewed.returning(switches.c.name)).first() is not None:
            change = "drain_reason"
        if change is not None:
            write_audit(conn, store, actor, change, DRAIN, reason=reason)
        return read_drain(conn)

    return store.transact(write)
