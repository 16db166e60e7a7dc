"""The tables of counters, for metrics."""

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
"""The counters without what :data:`counter_increments` still has, all in slot 0; release 0.1 spreads a counter over slots."""

counter_increments = sa.Table(
    "counter_increments",
    metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), sa.Identity(), primary_key=True),
    sa.Column("amounts", sa.JSON, nullable=False),
    postgresql_with=BUSY,
)
"""What one transaction counted, as ``[[name, labels, amount], …]``. Transactions only insert here, so none waits for another."""
