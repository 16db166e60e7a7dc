"""The frequent steps on SQLite: several statements in one ``BEGIN IMMEDIATE``, which excludes other writers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.jobs import statements as do
from airflow_snowpack.jobs.claim_order import ORDER
from airflow_snowpack.store.audit import INSERT_ENTRY
from airflow_snowpack.store.counters import RECORD_COUNTS
from airflow_snowpack.store.tables.jobs import job_queue

LOCK = do.lock_table(for_job=True)
INSERT_JOB = do.insert_job()
ENQUEUE = do.enqueue()
START = do.start_job()
RENEW_LOCK = do.renew_lock()
ACK = do.LEASES.release.returning(job_queue.c.job_id)
END = do.end_job()
UNLOCK = do.unlock_table()
RECORD = do.record_actions()


class SqliteSteps:
    """Submit, claim, take over and finish; each must run in a transaction."""

    def submit(self, conn: sa.Connection, values: Mapping[str, Any]) -> bool:
        if conn.execute(LOCK, values).first() is None:
            return False
        conn.execute(INSERT_JOB, values)
        conn.execute(ENQUEUE, values)
        if "a_subject" in values:
            conn.execute(INSERT_ENTRY, values)
        return True

    def claim_next(self, conn: sa.Connection, values: Mapping[str, Any]) -> sa.Row[Any] | None:
        return self._start(conn, do.CLAIM_NEXT, values)

    def claim_key(self, conn: sa.Connection, values: Mapping[str, Any]) -> sa.Row[Any] | None:
        return self._start(conn, do.CLAIM_KEY, values)

    def take_over(self, conn: sa.Connection, values: Mapping[str, Any]) -> sa.Row[Any] | None:
        return self._start(conn, do.LEASES.take_over, values)

    def finish(self, conn: sa.Connection, values: Mapping[str, Any]) -> bool:
        if conn.execute(ACK, values).first() is None:
            return False
        ended = conn.execute(END, values).first()
        if ended is None:
            return False
        conn.execute(UNLOCK, {**values, "b_table": ended.lock_key})
        keep_records(conn, values, ended.lock_key)
        conn.execute(RECORD_COUNTS, values)
        return True

    def _start(self, conn: sa.Connection, lease: Any, values: Mapping[str, Any]) -> sa.Row[Any] | None:
        claimed = conn.execute(lease, values).first()
        if claimed is None:
            return None
        place = [sa.literal(getattr(claimed, column.name), column.type).label(column.name) for column in ORDER]
        start = START.returning(*place)
        row: sa.Row[Any] = conn.execute(start, {**values, "b_key": claimed.job_id, "b_count": claimed.attempt_count}).one()
        conn.execute(RENEW_LOCK, {**values, "b_key": row.job_id, "b_table": row.lock_key})
        return row


def keep_records(conn: sa.Connection, values: Mapping[str, Any], lock_key: str) -> None:
    shared = {"b_now": values["b_now"], "b_table": lock_key}
    if values["b_records"]:
        conn.execute(RECORD, [{**record, **shared} for record in values["b_records"]])
