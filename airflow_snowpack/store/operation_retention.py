"""How long operations stay, and with them which table came from which.

    forget_operations(store)

The invariant: a pair of tables stays as long as its newest operation does.
"""

from __future__ import annotations

from datetime import timedelta

from airflow_snowpack.store.operation_tables import operation_edges, operation_tables, operations
from airflow_snowpack.store.retention import Kind, age_limit, prune_batch
from airflow_snowpack.store.store import Store

KEEP = timedelta(days=90)
OPERATIONS = Kind(
    operations,
    age=operations.c.at,
    order=(operations.c.at, operations.c.operation_id),
    belongings=(operation_tables.c.operation_id,),
)
EDGES = Kind(
    operation_edges,
    age=operation_edges.c.last_at,
    order=(operation_edges.c.last_at, operation_edges.c.source, operation_edges.c.target),
)


def forget_operations(store: Store, *, keep: timedelta = KEEP) -> int:
    """Delete what is older; a batch at most, as it is called again and again.

    :returns: how many operations went.
    """
    before = age_limit(store.clock(), keep)
    gone = prune_batch(store, OPERATIONS, before).rows[operations.name]
    prune_batch(store, EDGES, before)
    return gone
