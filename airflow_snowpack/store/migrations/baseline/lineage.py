"""Operations on tables and the lineage between tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from airflow_snowpack.store.dialect import UtcDateTime


def create_tables() -> None:
    """Create the tables and their indexes."""
    _create_operations()
    _create_operation_tables()
    _create_operation_edges()


def _create_operations() -> None:
    op.create_table(
        "operations",
        sa.Column("operation_id", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("at", UtcDateTime, nullable=False),
        sa.Column("rows", sa.BigInteger),
        sa.Column("dag_id", sa.Text),
        sa.Column("run_id", sa.Text),
        sa.Column("task_id", sa.Text),
        sa.Column("map_index", sa.Integer),
        sa.Column("try_number", sa.Integer),
        sa.Column("job_id", sa.Text),
        sa.Column("detail", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("operation_id", name="pk_operations"),
    )
    op.create_index("ix_operations_at", "operations", ["at"])
    where = sa.text("dag_id IS NOT NULL")
    op.create_index(
        "ix_operations_task", "operations", ["dag_id", "run_id", "task_id"], postgresql_where=where, sqlite_where=where
    )


def _create_operation_tables() -> None:
    op.create_table(
        "operation_tables",
        sa.Column("operation_id", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("ordinal", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("snapshot_id", sa.BigInteger),
        sa.Column("build_run", sa.Text),
        sa.Column("location", sa.Text),
        sa.Column("at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("operation_id", "role", "ordinal", name="pk_operation_tables"),
    )
    op.create_index("ix_operation_tables_name_role_at", "operation_tables", ["name", "role", "at"])


def _create_operation_edges() -> None:
    op.create_table(
        "operation_edges",
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("operation_id", sa.Text, nullable=False),
        sa.Column("operations", sa.BigInteger, nullable=False),
        sa.Column("first_at", UtcDateTime, nullable=False),
        sa.Column("last_at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("source", "target", name="pk_operation_edges"),
    )
    op.create_index("ix_operation_edges_last_at", "operation_edges", ["last_at"])
    op.create_index("ix_operation_edges_source_last_at", "operation_edges", ["source", "last_at"])
    op.create_index("ix_operation_edges_target_last_at", "operation_edges", ["target", "last_at"])
