"""The table of counters, for metrics."""

from __future__ import annotations

import sqlalchemy as sa

from airflow_snowpack.store.schema import BUSY, metadata

counters = sa.Table(
    "counters",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("labels", sa.Text, primary_key=True),
    sa.Column("slot", sa.Integer, primary_key=True),
    sa.Column("value", sa.Float, nullable=False),
    postgresql_with=BUSY,
)
"""A counter is the sum of its slots: transactions that count at the same time rarely wait for each other's row."""
