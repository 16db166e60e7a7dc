"""Deletes old rows of all rooms.

prune(store, timedelta(days=180), Actor("ann", "cli"), dry_run=True)    # {"jobs": 1200, "job_history": 6100, ...}
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections import Counter

    from airflow_snowpack.store import Actor, Store
    from airflow_snowpack.store.retention import Kind

SUBJECT = "store"
SHORTEST = timedelta(days=7)
"""A task that waits for a job may be days late, as after a weekend without a triggerer, and must still find the job's end."""


def retained(store: Store) -> tuple[Kind, ...]:
    """All kinds of rows that are deleted when they are old; what refers to others goes before them."""
    from airflow_snowpack.builds.registry.retention import KINDS as OF_BUILDS
    from airflow_snowpack.jobs.retention import KINDS as OF_JOBS
    from airflow_snowpack.scheduling.retention import retained as of_schedules
    from airflow_snowpack.store.audit_retention import AUDIT_TRAIL
    from airflow_snowpack.store.operation_retention import EDGES, OPERATIONS

    return (OPERATIONS, EDGES, *OF_JOBS, *OF_BUILDS, *of_schedules(store), AUDIT_TRAIL)


def prune(store: Store, older_than: timedelta, actor: Actor, *, dry_run: bool = False) -> Counter[str]:
    """Delete what is older and not needed any more, in small batches; a call that was interrupted is continued by the next.

    :param actor: for the audit trail; the entry is written before anything is deleted.
    :param dry_run: only count.
    :returns: how many rows were deleted, by table.
    :raises InvalidRetention: the period is shorter than :data:`SHORTEST`.
    """
    from airflow_snowpack.hooks.errors import InvalidRetention
    from airflow_snowpack.store import write_audit
    from airflow_snowpack.store.retention import Pruner

    if older_than < SHORTEST:
        raise InvalidRetention(older_than, SHORTEST)
    pruner = Pruner(store, retained(store), older_than=older_than, dry_run=dry_run)
    if not dry_run:
        seconds = int(older_than.total_seconds())
        store.transact(lambda conn: write_audit(conn, store, actor, "prune", SUBJECT, older_than_seconds=seconds))
    return pruner.run()
