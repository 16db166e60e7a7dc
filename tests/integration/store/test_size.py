"""The size of the store is estimated without a look at its tables."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import sqlalchemy as sa
from query_plans import scans, sent_by

from airflow_snowpack.store import Store, open_store
from airflow_snowpack.store.size import read_size
from airflow_snowpack.store.tables.jobs import job_history, jobs

ROWS = 500


def write(store: Store, change: Callable[[sa.Connection], object]) -> None:
    """Write, and let Postgres count as its autovacuum does from time to time."""
    store.transact(change)
    if store.is_postgres:
        store.single(lambda conn: conn.exec_driver_sql(f"ANALYZE {job_history.name}"))


def test_rows_and_bytes_are_estimated_from_what_the_database_keeps(store_url: str) -> None:
    row = {"job_id": "a", "at": datetime(2026, 1, 1, tzinfo=UTC), "event": "submitted", "detail": {"by": "x" * 200}}
    with open_store(store_url) as store:
        before = read_size(store)
        assert set(before.rows) >= {job_history.name, jobs.name}
        write(store, lambda conn: conn.execute(sa.insert(job_history), [row] * ROWS))
        filled = read_size(store)
        assert filled.rows[job_history.name] == ROWS
        assert filled.bytes > before.bytes
        write(store, lambda conn: conn.execute(sa.delete(job_history).where(job_history.c.id <= 200)))
        if not store.is_postgres:  # which takes the larger of two estimates until it has vacuumed
            assert read_size(store).rows[job_history.name] == ROWS - 200

        sent = sent_by(store, lambda: read_size(store))
        assert len(sent) <= 3
        assert scans(store, [each for each in sent if "pragma" not in each[0]], list(before.rows)) == []
