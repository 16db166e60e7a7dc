"""The tables of jobs, of their queue, locks and history, and of the inventory.

Frequent writes change no indexed column: a heartbeat moves only ``visible_at`` and ``expires_at``, and a claim or a completion
leaves every indexed column of ``jobs`` unchanged. They stay HOT updates on Postgres, with room in the pages (``fillfactor``).
"""

from __future__ import annotations

import sqlalchemy as sa

from airflow_snowpack.store.dialect import UtcDateTime, owner_dag
from airflow_snowpack.store.leases import lease_columns
from airflow_snowpack.store.schema import BUSY, metadata, partial_index

jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("job_id", sa.Text, primary_key=True),
    sa.Column("catalog", sa.Text, nullable=False),
    sa.Column("database_name", sa.Text, nullable=False),
    sa.Column("table_name", sa.Text, nullable=False),
    sa.Column("table_key", sa.Text, nullable=False),
    sa.Column("actions", sa.JSON, nullable=False),
    sa.Column("options", sa.JSON, nullable=False),
    sa.Column("dry_run", sa.Boolean, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("submitted_at", UtcDateTime, nullable=False),
    sa.Column("submitted_by", sa.Text),
    sa.Column("owner", sa.Text),
    sa.Column("inline", sa.Boolean, nullable=False),
    sa.Column("started_at", UtcDateTime),
    sa.Column("completed_at", UtcDateTime),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("attempt_id", sa.Text),
    sa.Column("error", sa.Text),
    sa.Column("results", sa.JSON(none_as_null=True)),
    sa.Column("deleted_at", UtcDateTime),
    sa.Column("spark_server", sa.Text),
    sa.Column("cancelled_by", sa.Text),
    sa.Column("catalog_id", sa.Text, nullable=False, server_default=""),
    sa.Column("priority", sa.Integer, nullable=False, server_default="0"),
    sa.Column("plan", sa.JSON(none_as_null=True)),
    sa.Column("awaited", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("table_uuid", sa.Text),
    sa.Column("traceparent", sa.Text),
    postgresql_with={"fillfactor": 80},
)
jobs_dag = owner_dag(jobs.c.owner)
"""The DAG of the job's owner with the slash that follows in ``dag/run/task``; empty for an owner without a slash."""

# Without deleted jobs: a list does not scan the many that were just deleted in bulk. No index has the status: the few jobs that
# failed or were cancelled are those with an error, and the active ones are those in the queue.
job = jobs.c
live, owned = job.deleted_at.is_(None), job.owner.is_not(None)
partial_index("ix_jobs_submitted_at_job_id", job.submitted_at, job.job_id, where=live)
partial_index("ix_jobs_table_key_submitted_at_job_id", job.table_key, job.submitted_at, job.job_id, where=live)
partial_index("ix_jobs_with_error", job.submitted_at, job.job_id, where=sa.and_(live, job.error.is_not(None)))
dry_run = sa.and_(live, job.dry_run)
partial_index("ix_jobs_dry_runs", job.table_key, job.catalog_id, job.submitted_at, job.job_id, where=dry_run)
partial_index("ix_jobs_deleted", job.submitted_at, job.job_id, where=job.deleted_at.is_not(None))
partial_index("ix_jobs_owner", job.owner, where=owned)
partial_index("ix_jobs_dag", jobs_dag, job.submitted_at, job.job_id, where=sa.and_(live, owned))

job_queue = sa.Table(
    "job_queue",
    metadata,
    sa.Column("job_id", sa.Text, primary_key=True),
    sa.Column("enqueued_at", UtcDateTime, nullable=False),
    *lease_columns(),
    sa.Column("catalog_id", sa.Text, nullable=False, server_default=""),
    sa.Column("rank", sa.Integer, nullable=False, server_default="0"),
    sa.Column("turn", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("database_name", sa.Text, nullable=False, server_default=""),
    postgresql_with=BUSY,
)
queued = job_queue.c
unclaimed = queued.claimed_at.is_(None)
claim_order = (queued.catalog_id, queued.rank, queued.turn, queued.enqueued_at)
partial_index("ix_job_queue_unclaimed", *claim_order, where=unclaimed)
partial_index("ix_job_queue_turns", queued.catalog_id, queued.rank, queued.database_name, queued.turn, where=unclaimed)

table_locks = sa.Table(
    "table_locks",
    metadata,
    sa.Column("table_key", sa.Text, primary_key=True),
    sa.Column("catalog", sa.Text, nullable=False),
    sa.Column("database_name", sa.Text, nullable=False),
    sa.Column("table_name", sa.Text, nullable=False),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("acquired_at", UtcDateTime, nullable=False),
    sa.Column("expires_at", UtcDateTime, nullable=False),
    sa.Column("catalog_id", sa.Text, nullable=False, server_default=""),
    postgresql_with=BUSY,
)

job_history = sa.Table(
    "job_history",
    metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), sa.Identity(), primary_key=True),
    sa.Column("job_id", sa.Text, nullable=False, index=True),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("event", sa.Text, nullable=False),
    sa.Column("attempt_id", sa.Text),
    sa.Column("detail", sa.JSON, nullable=False),
)

action_records = sa.Table(
    "action_records",
    metadata,
    sa.Column("table_key", sa.Text, primary_key=True),
    sa.Column("action", sa.Text, primary_key=True),
    sa.Column("last_run_at", UtcDateTime, nullable=False),
    sa.Column("last_success_at", UtcDateTime),
    sa.Column("failures", sa.Integer, nullable=False),
    sa.Column("runs", sa.Integer, nullable=False),
    sa.Column("cost_factor", sa.Float, nullable=False),
    sa.Column("seconds_factor", sa.Float, nullable=False),
    sa.Column("files_factor", sa.Float, nullable=False),
    sa.Index("ix_action_records_last_run_at", "last_run_at"),
)
"""One row for each action that ever ran on a table, written when the job ends."""

switches = sa.Table(
    "switches",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("changed_at", UtcDateTime, nullable=False),
    sa.Column("changed_by", sa.Text),
    sa.Column("reason", sa.Text),
)

idempotency_keys = sa.Table(
    "idempotency_keys",
    metadata,
    sa.Column("actor", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("fingerprint", sa.Text, nullable=False),
    sa.Column("job_id", sa.Text, nullable=False),
    sa.Column("at", UtcDateTime, nullable=False, index=True),
)

inventory_tables = sa.Table(
    "inventory_tables",
    metadata,
    sa.Column("table_key", sa.Text, primary_key=True),
    sa.Column("catalog", sa.Text, nullable=False),
    sa.Column("database_name", sa.Text, nullable=False),
    sa.Column("table_name", sa.Text, nullable=False),
    sa.Column("first_seen_at", UtcDateTime, nullable=False),
)

inventory_refreshes = sa.Table(
    "inventory_refreshes",
    metadata,
    sa.Column("catalog", sa.Text, primary_key=True),
    sa.Column("tried_at", UtcDateTime, nullable=False),
    sa.Column("refreshed_at", UtcDateTime),
    sa.Column("problem", sa.Text),
    sa.Column("left_out", sa.JSON(none_as_null=True)),
)

table_locations = sa.Table(
    "table_locations",
    metadata,
    sa.Column("catalog", sa.Text, primary_key=True),
    sa.Column("identifier", sa.Text, primary_key=True),
    sa.Column("metadata_location", sa.Text, nullable=False),
    sa.Column("footprint", sa.JSON, nullable=False),
    sa.Column("read_at", UtcDateTime, nullable=False),
    sa.Column("database", sa.Text, nullable=False),
)
"""Where the files of tables are located according to their metadata, for the check before files are deleted."""
