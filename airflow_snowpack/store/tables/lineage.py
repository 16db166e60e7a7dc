"""The tables of provenance: operations, what each read and wrote, and which table came from which.

A table has an operation for each write or maintenance, but few neighbours. Pairs of neighbours therefore have a table with one
row each, and the cost of a walk depends only on what it shows.
"""

from __future__ import annotations

import sqlalchemy as sa

from airflow_snowpack.store.dialect import UtcDateTime
from airflow_snowpack.store.schema import metadata, partial_index

operations = sa.Table(
    "operations",
    metadata,
    sa.Column("operation_id", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("at", UtcDateTime, nullable=False, index=True),
    sa.Column("rows", sa.BigInteger),
    sa.Column("dag_id", sa.Text),
    sa.Column("run_id", sa.Text),
    sa.Column("task_id", sa.Text),
    sa.Column("map_index", sa.Integer),
    sa.Column("try_number", sa.Integer),
    sa.Column("job_id", sa.Text),
    sa.Column("detail", sa.JSON, nullable=False),
)
task = operations.c
partial_index("ix_operations_task", task.dag_id, task.run_id, task.task_id, where=task.dag_id.is_not(None))

operation_tables = sa.Table(
    "operation_tables",
    metadata,
    sa.Column("operation_id", sa.Text, primary_key=True),
    sa.Column("role", sa.Text, primary_key=True),
    sa.Column("ordinal", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("snapshot_id", sa.BigInteger),
    sa.Column("build_run", sa.Text),
    sa.Column("location", sa.Text),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Index("ix_operation_tables_name_role_at", "name", "role", "at"),
)
"""``name`` is a table's name with its catalog, or a dataset's url; ``at`` is the operation's, so one index has the newest."""

operation_edges = sa.Table(
    "operation_edges",
    metadata,
    sa.Column("source", sa.Text, primary_key=True),
    sa.Column("target", sa.Text, primary_key=True),
    sa.Column("operation_id", sa.Text, nullable=False),
    sa.Column("operations", sa.BigInteger, nullable=False),
    sa.Column("first_at", UtcDateTime, nullable=False),
    sa.Column("last_at", UtcDateTime, nullable=False, index=True),
    sa.Index("ix_operation_edges_source_last_at", "source", "last_at"),
    sa.Index("ix_operation_edges_target_last_at", "target", "last_at"),
)
"""``operation_id`` and ``last_at`` are of the newest operation that made the target from the source."""
