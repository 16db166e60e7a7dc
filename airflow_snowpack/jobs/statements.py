"""The frequent statements of the job lifecycle, whole and in one place.

All of them lock in the same order, so that no two can deadlock: queue row, then job, then table lock.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from airflow_snowpack.jobs.claim_order import FROM_HERE, FRONT, ORDER, next_turn
from airflow_snowpack.store.dialect import insert
from airflow_snowpack.store.leases import ATTEMPT_ID, NOW, UNTIL, Leases
from airflow_snowpack.store.tables.jobs import action_records, job_queue, jobs, switches, table_locks

LEASES = Leases(
    job_queue,
    key=job_queue.c.job_id,
    order=ORDER,
    group=job_queue.c.catalog_id,
    returning=ORDER,
    on_return={"turn": FRONT},
)
DRAIN = "drain"
FACTORS = ("cost_factor", "seconds_factor", "files_factor")
draining = sa.exists().where(switches.c.name == sa.literal_column(f"'{DRAIN}'"), switches.c.enabled)
CLAIM_NEXT = LEASES.claim_where(LEASES.key == LEASES.search(FROM_HERE), ~draining)
CLAIM_KEY = LEASES.claim_where(LEASES.by_key, LEASES.claimable, ~draining)

LOCK_COLUMNS = {column.name: sa.bindparam(f"b_{column.name}", type_=column.type) for column in table_locks.columns}
JOB_COLUMNS = [column.name for column in jobs.columns if column.name != "deleted_at"]

LOCK_KEY = sa.case(
    (jobs.c.catalog_id == sa.literal_column("''"), jobs.c.table_key),
    else_=jobs.c.catalog_id
    + sa.literal_column("':'", sa.Text)
    + jobs.c.database_name
    + sa.literal_column("'.'", sa.Text)
    + jobs.c.table_name,
).label("lock_key")
"""The job's :attr:`TableName.lock_key`."""

job_id = sa.bindparam("b_key", type_=sa.Text)

# A lock outlives its period while its holder is a job with a queue row: pending, running, or about to be swept. The lock's column
# is text: in ON CONFLICT … WHERE, SQLAlchemy would add another table_locks to the subquery, and any queued job with a lock would
# keep every expired lock of other tables alive.
holder_is_queued = sa.exists().where(job_queue.c.job_id == sa.literal_column("table_locks.holder", sa.Text))
# A lock is not free either while a Spark server may still work for its job: see ``rescuer.py``.
holder_left_work = sa.exists().where(
    jobs.c.job_id == sa.literal_column("table_locks.holder", sa.Text), jobs.c.spark_server.is_not(None)
)
abandoned_lock = sa.and_(table_locks.c.expires_at <= NOW, ~holder_is_queued, ~holder_left_work)


def _typed(name: str) -> sa.BindParameter[Any]:
    return sa.bindparam(f"j_{name}", type_=jobs.c[name].type)


# The columns of a new job. Lock, job and queue row share parameters: each costs a submit about as much as a column.
GIVEN = (
    "job_id", "catalog", "database_name", "table_name", "table_key", "catalog_id", "actions", "options", "submitted_by", "owner",
    "inline", "priority", "plan", "awaited",
    "table_uuid", "traceparent",
)  # fmt: skip
OF_JOB = {name: _typed(name) for name in ("catalog", "database_name", "table_name", "catalog_id")}
LOCK_OF_JOB = LOCK_COLUMNS | OF_JOB | {"holder": _typed("job_id"), "acquired_at": NOW}


def lock_free_table() -> Any:
    """Lock a table for the job of :func:`insert_job`: returns a row if the table was free and drain mode is off."""
    new = insert(table_locks).from_select([*LOCK_OF_JOB], sa.select(*LOCK_OF_JOB.values()).where(~draining))
    return new.on_conflict_do_nothing().returning(table_locks.c.holder, table_locks.c.table_key)


def lock_table(*, for_job: bool) -> Any:
    """Lock a table: returns a row if it was free or its lock abandoned, none if another holder has it.

    :param for_job: for the job of :func:`insert_job`; the same statement checks drain mode, in which it returns no row. Otherwise
        a holder that already has the lock renews it.
    """
    row = LOCK_OF_JOB if for_job else LOCK_COLUMNS
    values = sa.select(*row.values()).where(~draining if for_job else sa.true())
    new = insert(table_locks).from_select([*row], values)
    mine = table_locks.c.holder == new.excluded.holder
    statement = new.on_conflict_do_update(
        index_elements=[table_locks.c.table_key],
        set_={
            "holder": new.excluded.holder,
            "acquired_at": sa.case((mine, table_locks.c.acquired_at), else_=new.excluded.acquired_at),
            "expires_at": new.excluded.expires_at,
        },
        where=abandoned_lock if for_job else sa.or_(abandoned_lock, mine),
    )
    return statement.returning(table_locks.c.holder, table_locks.c.table_key)


def insert_job(source: sa.FromClause | None = None) -> Any:
    """Insert a pending job from its ``j_…`` parameters, once for each row of ``source`` (default: once)."""
    row = {name: _typed(name) for name in GIVEN} | {
        "status": sa.literal_column("'pending'"),
        "submitted_at": NOW,
        "dry_run": sa.false(),
        "attempt": sa.literal_column("0"),
    }
    values = sa.select(*row.values())
    return sa.insert(jobs).from_select([*row], values if source is None else values.select_from(source))


def record_job() -> Any:
    """Insert a job in any state from its ``j_…`` parameters."""
    return sa.insert(jobs).values({name: _typed(name) for name in JOB_COLUMNS})


def enqueue(source: sa.FromClause | None = None) -> Any:
    """Queue the job, visible from now on, once for each row of ``source`` (default: once)."""
    names = ["job_id", "enqueued_at", "visible_at", "attempt_count", "catalog_id", "rank", "database_name", "turn"]
    group = _typed("catalog_id"), sa.bindparam("b_rank", type_=sa.Integer), _typed("database_name")
    row = sa.select(_typed("job_id"), NOW, NOW, sa.literal_column("0"), *group, next_turn(*group))
    return sa.insert(job_queue).from_select(names, row if source is None else row.select_from(source))


def start_job(claimed: sa.FromClause | None = None) -> Any:
    """Set the claimed job to running under its new fence, with the start and results of this attempt, and return its row."""
    if claimed is None:
        key: Any = job_id
        fence: Any = ATTEMPT_ID
        attempt: Any = sa.bindparam("b_count", type_=sa.Integer)
    else:
        key, fence, attempt = claimed.c.job_id, claimed.c.attempt_id, claimed.c.attempt_count
    return (
        sa.update(jobs)
        .where(jobs.c.job_id == key)
        .values(
            status=sa.literal_column("'running'"),
            attempt_id=fence,
            attempt=attempt,
            started_at=NOW,
            results=sa.null(),
        )
        .returning(*(jobs.c[name] for name in JOB_COLUMNS), LOCK_KEY)
    )


def renew_lock(started: sa.FromClause | None = None) -> Any:
    """Extend the job's table lock along with the lease; does nothing if the job does not hold the lock."""
    key, holder = (sa.bindparam("b_table", type_=sa.Text), job_id) if started is None else (started.c.lock_key, started.c.job_id)
    return sa.update(table_locks).where(table_locks.c.table_key == key, table_locks.c.holder == holder).values(expires_at=UNTIL)


def end_job(acked: sa.FromClause | None = None, *, left_work: bool = False) -> Any:
    """The terminal write, fenced: only for the job's current attempt, and only while the job runs.

    :param left_work: a Spark server may still work for the attempt, so the job keeps the server's name.
    """
    return (
        sa.update(jobs)
        .where(
            jobs.c.job_id == (job_id if acked is None else acked.c.job_id),
            jobs.c.attempt_id == ATTEMPT_ID,
            jobs.c.status == sa.literal_column("'running'"),
        )
        .values(
            status=sa.bindparam("b_status", type_=sa.Text),
            completed_at=NOW,
            error=sa.bindparam("b_error", type_=sa.Text),
            results=sa.bindparam("b_results", type_=jobs.c.results.type),
            spark_server=jobs.c.spark_server if left_work else sa.null(),
        )
        .returning(jobs.c.job_id, LOCK_KEY)
    )


def expire_lock() -> Any:
    """Expire the job's table lock now; the next sweep unlocks the table once no work for the job is left."""
    key = sa.bindparam("b_table", type_=sa.Text)
    return sa.update(table_locks).where(table_locks.c.table_key == key, table_locks.c.holder == job_id).values(expires_at=NOW)


def unlock_table(ended: sa.FromClause | None = None) -> Any:
    """Release the lock if the job is its holder."""
    key, holder = (sa.bindparam("b_table", type_=sa.Text), job_id) if ended is None else (ended.c.lock_key, ended.c.job_id)
    return sa.delete(table_locks).where(table_locks.c.table_key == key, table_locks.c.holder == holder)


RECORD: dict[str, sa.types.TypeEngine[Any]] = {
    "r_action": sa.Text(),
    "r_succeeded": sa.Boolean(),
    "r_failures": sa.Integer(),
    "r_runs": sa.Integer(),
    "r_cost_factor": sa.Float(),
    "r_seconds_factor": sa.Float(),
    "r_files_factor": sa.Float(),
}
ZERO: sa.ColumnElement[Any] = sa.literal_column("0")
HALF: sa.ColumnElement[Any] = sa.literal_column("0.5")
ONE: sa.ColumnElement[Any] = sa.literal_column("1")
LEAST: sa.ColumnElement[Any] = sa.literal_column("0.001")
MOST: sa.ColumnElement[Any] = sa.literal_column("10000")
"""Bounds of a factor; without them, repeated outcomes could push it beyond what a database can store."""


def record_actions(ended: sa.FromClause | None = None) -> Any:
    """Store what the actions of an ended job did; each factor moves halfway to this run's outcome / estimate.

    Never runs twice at once for one table, because each job has the table's lock until its end.

    :param ended: the ended job, on Postgres, with all records as one parameter; ``None`` for one record and its parameters.
    """
    if ended is None:
        given: Any = {name: sa.bindparam(name, type_=kind) for name, kind in RECORD.items()}
        key: Any = sa.bindparam("b_table", type_=sa.Text)
    else:
        typed: list[Any] = [sa.column(name, kind) for name, kind in RECORD.items()]
        records = sa.func.json_to_recordset(sa.bindparam("b_records", type_=sa.JSON)).table_valued(*typed)
        given, key = records.render_derived(with_types=True).c, ended.c.lock_key
    succeeded = given["r_succeeded"]
    row = {
        "table_key": key,
        "action": given["r_action"],
        "last_run_at": NOW,
        "last_success_at": sa.case((succeeded, NOW)),
        "failures": given["r_failures"],
        **{name: given[f"r_{name}"] for name in ("runs", *FACTORS)},
    }
    new = insert(action_records).from_select([*row], sa.select(*row.values()).where(sa.true()))
    old, run = action_records.c, new.excluded
    weight = sa.case((old.runs == ZERO, ONE), else_=HALF)
    changed = {
        "last_run_at": run.last_run_at,
        "last_success_at": sa.func.coalesce(run.last_success_at, old.last_success_at),
        "failures": sa.case((run.last_success_at.is_not(None), ZERO), else_=old.failures + run.failures),
        "runs": old.runs + run.runs,
        **{name: _bounded(old[name] * (ONE + weight * (run[name] - ONE))) for name in FACTORS},
    }
    return new.on_conflict_do_update(index_elements=[old.table_key, old.action], set_=changed)


def _bounded(factor: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    return sa.case((factor < LEAST, LEAST), (factor > MOST, MOST), else_=factor)
