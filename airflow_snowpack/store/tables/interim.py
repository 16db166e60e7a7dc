"""Interim tables, their consumers, readers and names, and when the collector checks them next.

Each row belongs to a DAG run by ``run_key``, a digest of DAG id and run id that keeps long names out of the indexes. The
collector reads only the runs whose ``check_at`` has come.
"""

from __future__ import annotations

import sqlalchemy as sa

from airflow_snowpack.store.dialect import UtcDateTime
from airflow_snowpack.store.leases import lease_columns
from airflow_snowpack.store.schema import BUSY, metadata, partial_index

interim_runs = sa.Table(
    "interim_runs",
    metadata,
    sa.Column("run_key", sa.Text, primary_key=True),
    sa.Column("dag_id", sa.Text, nullable=False),
    sa.Column("run_id", sa.Text, nullable=False),
    sa.Column("check_at", UtcDateTime),
    sa.Column("checked_at", UtcDateTime),
    sa.Column("looks", sa.Integer, nullable=False),
    sa.Column("touches", sa.BigInteger, nullable=False),
    postgresql_with=BUSY,
)
"""``check_at`` is null while only tables without an expiry are left; ``looks`` counts checks that changed nothing, and
``touches`` counts writes about the run, so that a collector detects any since its check."""

partial_index("ix_interim_runs_check_at", interim_runs.c.check_at, where=interim_runs.c.check_at.is_not(None))

interim_slots = sa.Table(
    "interim_slots",
    metadata,
    sa.Column("run_key", sa.Text, primary_key=True),
    sa.Column("task_id", sa.Text, primary_key=True),
    sa.Column("map_index", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("output", sa.Text, primary_key=True),
    sa.Column("try_number", sa.Integer, nullable=False),
    sa.Column("table_id", sa.Text, nullable=False),
    sa.Column("started_at", UtcDateTime),
)
"""The table of the newest attempt: see ``TAKE_SLOT``. ``started_at`` is null for rows from before it was stored."""

interim_tables = sa.Table(
    "interim_tables",
    metadata,
    sa.Column("table_id", sa.Text, primary_key=True),
    sa.Column("catalog", sa.Text, nullable=False),
    sa.Column("database_name", sa.Text, nullable=False),
    sa.Column("table_name", sa.Text, nullable=False, unique=True),
    sa.Column("run_key", sa.Text, nullable=False),
    sa.Column("dag_id", sa.Text, nullable=False),
    sa.Column("run_id", sa.Text, nullable=False),
    sa.Column("task_id", sa.Text, nullable=False),
    sa.Column("map_index", sa.Integer, nullable=False),
    sa.Column("output", sa.Text, nullable=False),
    sa.Column("try_number", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("ready_at", UtcDateTime),
    sa.Column("snapshot_id", sa.BigInteger),
    sa.Column("rows", sa.BigInteger),
    sa.Column("location", sa.Text),
    sa.Column("preservation", sa.Text, nullable=False),
    sa.Column("name", sa.Text),
    sa.Column("scope", sa.Text),
    sa.Column("expires_at", UtcDateTime),
    sa.Column("error", sa.Text),
    *lease_columns(),
    sa.Index("ix_interim_tables_run", "run_key", "task_id", "map_index", "output"),
    sa.Index("ix_interim_tables_created_at_table_id", "created_at", "table_id"),
    postgresql_with={"fillfactor": 80},
)
"""The lease belongs to the writer while the table is written, and to a collector while it is dropped. ``table_name`` is unique
across catalogs, because it ends in a part of the table's id."""

dropping = interim_tables.c.state == sa.literal_column("'dropping'")
partial_index("ix_interim_tables_dropping", interim_tables.c.visible_at, where=dropping)

interim_pins = sa.Table(
    "interim_pins",
    metadata,
    sa.Column("table_id", sa.Text, primary_key=True),
    sa.Column("run_key", sa.Text, primary_key=True),
    sa.Column("task_id", sa.Text, primary_key=True),
    sa.Column("asked_by", sa.Text),
    sa.Index("ix_interim_pins_run_key_task_id", "run_key", "task_id"),
)
"""A consumer, with all its map indexes, that may still read the table. ``asked_by`` is the pass of a collector that read
otherwise and reads Airflow again; a consumer that starts to need the table meanwhile clears it."""

interim_refs = sa.Table(
    "interim_refs",
    metadata,
    sa.Column("reading_id", sa.Text, primary_key=True),
    sa.Column("table_id", sa.Text, primary_key=True),
    sa.Column("run_key", sa.Text, nullable=False, index=True),
    sa.Column("task_id", sa.Text, nullable=False),
    sa.Column("map_index", sa.Integer, nullable=False),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("taken_at", UtcDateTime, nullable=False),
    sa.Column("lease_until", UtcDateTime, nullable=False),
    sa.Index("ix_interim_refs_table_id", "table_id"),
    postgresql_with=BUSY,
)
"""An attempt that is reading the table."""

interim_names = sa.Table(
    "interim_names",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("run_key", sa.Text, primary_key=True),
    sa.Column("table_id", sa.Text, nullable=False, index=True),
    sa.Column("moved_at", UtcDateTime, nullable=False),
    sa.Index("ix_interim_names_run_key", "run_key"),
)
"""The table of a name; ``run_key`` is empty for a name that is valid everywhere."""
