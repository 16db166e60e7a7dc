"""The tables of stored health: the newest health of each table, and a history of numbers for charts."""

from __future__ import annotations

import sqlalchemy as sa

from airflow_snowpack.store.dialect import UtcDateTime
from airflow_snowpack.store.schema import metadata, partial_index

table_health = sa.Table(
    "table_health",
    metadata,
    sa.Column("table_key", sa.Text, primary_key=True),
    sa.Column("catalog", sa.Text, nullable=False),
    sa.Column("table_name", sa.Text, nullable=False),
    sa.Column("metadata_location", sa.Text, nullable=False),
    sa.Column("read_at", UtcDateTime, nullable=False),
    sa.Column("score", sa.Integer),
    sa.Column("problem", sa.Text),
    sa.Column("format", sa.Integer),
    sa.Column("document", sa.Text),
    sa.Column("owner", sa.JSON(none_as_null=True)),
    sa.Index("ix_table_health_read_at", "read_at", "table_key"),
    sa.Index("ix_table_health_catalog_score", "catalog", "score", "table_key"),
)
"""``table_key`` is the table's lock key, ``catalog`` its ``catalog_id``, or its name if it has no id. A table that could not be
read has a ``problem`` and neither score nor document. ``owner``: the properties that name the owner, as last read."""

table_health_history = sa.Table(
    "table_health_history",
    metadata,
    sa.Column("table_key", sa.Text, primary_key=True),
    sa.Column("read_at", UtcDateTime, primary_key=True),
    sa.Column("metadata_location", sa.Text, nullable=False),
    sa.Column("last_of_day", sa.Boolean, nullable=False),
    sa.Column("score", sa.Integer, nullable=False),
    sa.Column("data_files", sa.BigInteger, nullable=False),
    sa.Column("small_files", sa.BigInteger, nullable=False),
    sa.Column("delete_files", sa.BigInteger, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("records", sa.BigInteger, nullable=False),
    sa.Column("manifests", sa.BigInteger, nullable=False),
    sa.Column("snapshots", sa.BigInteger, nullable=False),
)
history = table_health_history.c
sa.Index("ix_table_health_history_read_at", history.read_at, history.table_key)
partial_index("ix_table_health_history_thinned", history.table_key, history.read_at, where=sa.text("NOT last_of_day"))
