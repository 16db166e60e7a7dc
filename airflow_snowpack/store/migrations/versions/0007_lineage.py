"""What was done to managed tables: operations with their inputs and outputs, and which table came from which."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from airflow_snowpack.store.types import UtcDateTime

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
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
    of_a_task = sa.text("dag_id IS NOT NULL")
    op.create_index(
        "ix_operations_task",
        "operations",
        ["dag_id", "run_id", "task_id"],
        postgresql_where=of_a_task,
        sqlite_where=of_a_task,
    )
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
