"""The tables of passes over the fleet."""

from __future__ import annotations

import sqlalchemy as sa

from airflow_snowpack.store.dialect import UtcDateTime
from airflow_snowpack.store.leases import lease_columns
from airflow_snowpack.store.schema import metadata, partial_index

fleet_passes = sa.Table(
    "fleet_passes",
    metadata,
    sa.Column("pass_id", sa.Text, primary_key=True),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("catalog", sa.Text, nullable=False),
    sa.Column("catalog_id", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("budget", sa.JSON, nullable=False),
    sa.Column("workers", sa.Integer, nullable=False),
    sa.Column("started_at", UtcDateTime, nullable=False),
    sa.Column("planned_at", UtcDateTime),
    sa.Column("ended_at", UtcDateTime),
    sa.Column("counts", sa.JSON, nullable=False),
    sa.Column("report", sa.JSON(none_as_null=True)),
    *lease_columns(),
    sa.Index("ix_fleet_passes_started_at_pass_id", "started_at", "pass_id"),
)
"""One row for each pass. The lease and its fence belong to the process that plans it."""

not_ended = fleet_passes.c.ended_at.is_(None)
partial_index("ix_fleet_passes_open", fleet_passes.c.owner, where=not_ended, unique=True)

fleet_entries = sa.Table(
    "fleet_entries",
    metadata,
    sa.Column("pass_id", sa.Text, primary_key=True),
    sa.Column("table_key", sa.Text, primary_key=True),
    sa.Column("catalog", sa.Text, nullable=False),
    sa.Column("catalog_id", sa.Text, nullable=False),
    sa.Column("database_name", sa.Text, nullable=False),
    sa.Column("table_name", sa.Text, nullable=False),
    sa.Column("place", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("reason", sa.Text),
    sa.Column("plan", sa.JSON(none_as_null=True)),
    sa.Column("gb_hours", sa.Float, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Column("deadline", UtcDateTime),
    sa.Column("passes_waited", sa.Integer, nullable=False),
    sa.Column("job_id", sa.Text),
    sa.Column("spent_gb_hours", sa.Float),
    sa.Column("spent_bytes", sa.BigInteger),
    sa.Column("spent_seconds", sa.Float),
    sa.Column("removed", sa.BigInteger),
    sa.Column("ended_at", UtcDateTime),
    sa.Index("ix_fleet_entries_table_key_pass_id", "table_key", "pass_id"),
)
"""One row for each table of a pass that needs maintenance or cannot be read; ``table_key`` is its lock key.

``gb_hours``, ``bytes`` and ``seconds`` are the plan's estimate; the ``spent_…`` columns are the outcome.
"""

partial_index("ix_fleet_entries_job_id", fleet_entries.c.job_id, where=fleet_entries.c.job_id.is_not(None))

fleet_tables = sa.Table(
    "fleet_tables",
    metadata,
    sa.Column("table_key", sa.Text, primary_key=True),
    sa.Column("catalog", sa.Text, nullable=False),
    sa.Column("catalog_id", sa.Text, nullable=False),
    sa.Column("metadata_location", sa.Text),
    sa.Column("planned_at", UtcDateTime, nullable=False),
    sa.Column("policy", sa.Text, nullable=False),
    sa.Column("needs_work", sa.Boolean, nullable=False),
    sa.Column("reconsider_at", UtcDateTime),
    sa.Column("passes_waited", sa.Integer, nullable=False),
    sa.Column("held_since", UtcDateTime),
    sa.Index("ix_fleet_tables_catalog_catalog_id", "catalog", "catalog_id"),
)
"""The last plan of each table. A table that needs no work is planned again when its metadata or policy changes, or at
``reconsider_at``. ``passes_waited``: the number of consecutive passes whose budget it did not fit. ``held_since``: since when its
plans wait for DAGs that write to it.
"""
