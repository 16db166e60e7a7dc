"""The tables of removals: lists of files or snapshots that were planned, decided on and deleted."""

from __future__ import annotations

import sqlalchemy as sa

from airflow_snowpack.store.dialect import UtcDateTime
from airflow_snowpack.store.schema import metadata

removals = sa.Table(
    "removals",
    metadata,
    sa.Column("removal_id", sa.Text, primary_key=True),
    sa.Column("catalog", sa.Text, nullable=False),
    sa.Column("catalog_id", sa.Text, nullable=False),
    sa.Column("database_name", sa.Text, nullable=False),
    sa.Column("table_name", sa.Text, nullable=False),
    sa.Column("table_key", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("planned_at", UtcDateTime, nullable=False),
    sa.Column("expires_at", UtcDateTime, nullable=False),
    sa.Column("planned_by_job", sa.Text, nullable=False),
    sa.Column("requested_by", sa.Text),
    sa.Column("table_uuid", sa.Text, nullable=False),
    sa.Column("metadata_location", sa.Text, nullable=False),
    sa.Column("location", sa.Text, nullable=False),
    sa.Column("settings", sa.JSON, nullable=False),
    sa.Column("item_count", sa.Integer, nullable=False),
    sa.Column("bytes", sa.BigInteger),
    sa.Column("decided_at", UtcDateTime),
    sa.Column("decided_by", sa.Text),
    sa.Column("comment", sa.Text),
    sa.Column("job_id", sa.Text),
    sa.Column("attempt_id", sa.Text),
    sa.Column("started_at", UtcDateTime),
    sa.Column("ended_at", UtcDateTime),
    sa.Column("deleted_count", sa.Integer, nullable=False),
    sa.Column("gone_count", sa.Integer, nullable=False),
    sa.Column("left_out_count", sa.Integer, nullable=False),
    sa.Column("error", sa.Text),
    sa.Column("quarantined_count", sa.Integer, nullable=False, server_default="0"),
    sa.Column("restored_count", sa.Integer, nullable=False, server_default="0"),
    sa.Column("quarantined_until", UtcDateTime),
    sa.Index("ix_removals_planned_at_removal_id", "planned_at", "removal_id"),
    sa.Index("ix_removals_table_key_planned_at_removal_id", "table_key", "planned_at", "removal_id"),
    sa.Index("ix_removals_planned_by_job", "planned_by_job"),
)
"""One row for each removal. ``attempt_id`` is the fence of the attempt of ``job_id`` that deletes it."""

removal_parts = sa.Table(
    "removal_parts",
    metadata,
    sa.Column("removal_id", sa.Text, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("content", sa.LargeBinary, nullable=False),
)
"""The list of a removal as compressed JSON, 1,000 items per row from number 0 on: 300,000 paths take about 10 MB."""
