"""The frequent steps on Postgres: each is a single statement, with one round trip and one commit.

The CTEs feed each other in the order of locking, and all of them see the same snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.jobs import statements as do
from airflow_snowpack.jobs.claim_order import ORDER
from airflow_snowpack.store.audit import insert_entry
from airflow_snowpack.store.counters import record_counts
from airflow_snowpack.store.pg_prepared import PgPrepared
from airflow_snowpack.store.tables.jobs import job_queue


def _submit(lock: Any, *, audited: bool) -> Any:
    locked = lock.cte("locked")
    writes = [do.insert_job(locked).cte("inserted"), do.enqueue(locked).cte("queued")]
    # The audit entry is part of the statement, which saves a transaction around two.
    writes += [insert_entry(locked).cte("audited")] if audited else []
    return sa.select(locked.c.holder).add_cte(*writes)


def _claim(lease: Any) -> Any:
    claimed = lease.cte("claimed")
    started = do.start_job(claimed).cte("started")
    renewed = do.renew_lock(started).cte("renewed")
    place = (claimed.c[column.name] for column in ORDER)
    return sa.select(started, *place).where(started.c.job_id == claimed.c.job_id).add_cte(renewed)


def _finish() -> Any:
    acked = do.LEASES.release.returning(job_queue.c.job_id).cte("acked")
    ended = do.end_job(acked).cte("ended")
    unlocked = do.unlock_table(ended).cte("unlocked")
    recorded = do.record_actions(ended).cte("recorded")
    counted = record_counts(ended).cte("counted")
    return sa.select(ended.c.job_id).add_cte(unlocked, recorded, counted)


SUBMIT = PgPrepared(_submit(do.lock_free_table(), audited=False))
SUBMIT_AUDITED = PgPrepared(_submit(do.lock_free_table(), audited=True))


@cache
def submit_to_locked(*, audited: bool) -> PgPrepared:
    """Return the submit for a table whose lock may be abandoned, which costs a fifth more."""
    return PgPrepared(_submit(do.lock_table(for_job=True), audited=audited))


CLAIM_NEXT = PgPrepared(_claim(do.CLAIM_NEXT))
CLAIM_KEY = PgPrepared(_claim(do.CLAIM_KEY))
TAKE_OVER = PgPrepared(_claim(do.LEASES.take_over))
FINISH = PgPrepared(_finish())


class PostgresSteps:
    """Submit, claim, take over and finish, in one statement each."""

    claim_next = staticmethod(CLAIM_NEXT.first)
    claim_key = staticmethod(CLAIM_KEY.first)
    take_over = staticmethod(TAKE_OVER.first)

    def submit(self, conn: sa.Connection, values: Mapping[str, Any]) -> bool:
        audited = "a_subject" in values
        if (SUBMIT_AUDITED if audited else SUBMIT).first(conn, values) is not None:
            return True
        return submit_to_locked(audited=audited).first(conn, values) is not None

    def finish(self, conn: sa.Connection, values: Mapping[str, Any]) -> bool:
        return FINISH.first(conn, values) is not None
