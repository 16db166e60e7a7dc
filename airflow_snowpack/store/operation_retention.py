"""Forgetting operations that are too old to matter, and with them which table came from which.

    forget_operations(store, keep=timedelta(days=90))

The invariant: a pair of tables stays as long as its newest operation does.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import sqlalchemy as sa

from airflow_snowpack.store.operation_tables import operation_edges, operation_tables, operations
from airflow_snowpack.store.store import Store

KEEP = timedelta(days=90)
BATCH = 1_000


def forget_operations(store: Store, *, keep: timedelta = KEEP) -> int:
    """Delete what is older; a batch at most, as it is called again and again.

    :returns: how many operations went.
    """
    before = store.clock() - keep
    return store.transact(lambda conn: _forget(conn, before))


def _forget(conn: sa.Connection, before: datetime) -> int:
    o, e = operations.c, operation_edges.c
    old = conn.execute(sa.select(o.operation_id).where(o.at < before).order_by(o.at).limit(BATCH)).scalars().all()
    if old:
        conn.execute(sa.delete(operation_tables).where(operation_tables.c.operation_id.in_(old)))
        conn.execute(sa.delete(operations).where(o.operation_id.in_(old)))
    pairs = conn.execute(sa.select(e.source, e.target).where(e.last_at < before).order_by(e.last_at).limit(BATCH)).all()
    if pairs:
        # Looked at again: a pair may have been connected anew since it was read.
        gone = sa.delete(operation_edges).where(
            e.source == sa.bindparam("b_source"), e.target == sa.bindparam("b_target"), e.last_at < before
        )
        conn.execute(gone, [{"b_source": pair.source, "b_target": pair.target} for pair in pairs])
    return len(old)
