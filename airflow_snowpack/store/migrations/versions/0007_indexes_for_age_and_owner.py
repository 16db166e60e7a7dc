"""Index jobs by owner and DAG, dry runs by table, and what retention deletes by its age."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0007_indexes_for_age_and_owner"
down_revision = "0006_table_locations"

POSITION = {"postgresql": "strpos", "sqlite": "instr"}


def upgrade() -> None:
    dag = sa.text(f"substr(owner, 1, {POSITION[op.get_bind().dialect.name]}(owner, '/'))")
    _index("ix_jobs_dag", "jobs", [dag, "submitted_at", "job_id"], "deleted_at IS NULL AND owner IS NOT NULL")
    _index("ix_jobs_owner", "jobs", ["owner"], "owner IS NOT NULL")
    of_table = ["table_key", "catalog_id", "submitted_at", "job_id"]
    _index("ix_jobs_dry_runs", "jobs", of_table, sa.and_(sa.column("deleted_at").is_(None), sa.column("dry_run", sa.Boolean)))
    _index("ix_jobs_deleted", "jobs", ["submitted_at", "job_id"], "deleted_at IS NOT NULL")
    _index("ix_pending_jobs_ended_at", "pending_jobs", ["ended_at"])
    _index("ix_schedule_runs_reserved_at", "schedule_runs", ["reserved_at"])
    _index("ix_gated_runs_ended_at", "gated_runs", ["ended_at"], "ended_at IS NOT NULL")
    _index("ix_build_runs_deleted_at", "build_runs", ["deleted_at"], "deleted_at IS NOT NULL")
    _index("ix_build_publications_done_at", "build_publications", ["done_at"], "done_at IS NOT NULL")


def _index(
    name: str, table: str, columns: Sequence[str | sa.TextClause], where: str | sa.ColumnElement[bool] | None = None
) -> None:
    which = sa.text(where) if isinstance(where, str) else where
    op.create_index(name, table, [*columns], postgresql_where=which, sqlite_where=which)
