"""Interim tables, who needs them and who reads them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from airflow_snowpack.store.dialect import UtcDateTime

BUSY = {"fillfactor": 70, "autovacuum_vacuum_scale_factor": 0.02, "autovacuum_vacuum_threshold": 200}


def create_tables() -> None:
    """Create the tables and their indexes."""
    _create_interim_runs()
    _create_interim_slots()
    _create_interim_tables()
    _create_interim_pins()
    _create_interim_refs()
    _create_interim_names()


def _create_interim_runs() -> None:
    op.create_table(
        "interim_runs",
        sa.Column("run_key", sa.Text, nullable=False),
        sa.Column("dag_id", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("check_at", UtcDateTime),
        sa.Column("checked_at", UtcDateTime),
        sa.Column("looks", sa.Integer, nullable=False),
        sa.Column("touches", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("run_key", name="pk_interim_runs"),
        postgresql_with=BUSY,
    )
    where = sa.text("check_at IS NOT NULL")
    op.create_index("ix_interim_runs_check_at", "interim_runs", ["check_at"], postgresql_where=where, sqlite_where=where)


def _create_interim_slots() -> None:
    op.create_table(
        "interim_slots",
        sa.Column("run_key", sa.Text, nullable=False),
        sa.Column("task_id", sa.Text, nullable=False),
        sa.Column("map_index", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("output", sa.Text, nullable=False),
        sa.Column("try_number", sa.Integer, nullable=False),
        sa.Column("table_id", sa.Text, nullable=False),
        sa.Column("started_at", UtcDateTime),
        sa.PrimaryKeyConstraint("run_key", "task_id", "map_index", "output", name="pk_interim_slots"),
    )


def _create_interim_tables() -> None:
    op.create_table(
        "interim_tables",
        sa.Column("table_id", sa.Text, nullable=False),
        sa.Column("catalog", sa.Text, nullable=False),
        sa.Column("database_name", sa.Text, nullable=False),
        sa.Column("table_name", sa.Text, nullable=False),
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
        sa.Column("visible_at", UtcDateTime, nullable=False),
        sa.Column("claimed_at", UtcDateTime),
        sa.Column("claimed_by", sa.Text),
        sa.Column("attempt_id", sa.Text),
        sa.Column("attempt_count", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("table_id", name="pk_interim_tables"),
        sa.UniqueConstraint("table_name", name="uq_interim_tables_table_name"),
        postgresql_with={"fillfactor": 80},
    )
    op.create_index("ix_interim_tables_created_at_table_id", "interim_tables", ["created_at", "table_id"])
    where = sa.text("state = 'dropping'")
    op.create_index("ix_interim_tables_dropping", "interim_tables", ["visible_at"], postgresql_where=where, sqlite_where=where)
    op.create_index("ix_interim_tables_run", "interim_tables", ["run_key", "task_id", "map_index", "output"])


def _create_interim_pins() -> None:
    op.create_table(
        "interim_pins",
        sa.Column("table_id", sa.Text, nullable=False),
        sa.Column("run_key", sa.Text, nullable=False),
        sa.Column("task_id", sa.Text, nullable=False),
        sa.Column("asked_by", sa.Text),
        sa.PrimaryKeyConstraint("table_id", "run_key", "task_id", name="pk_interim_pins"),
    )
    op.create_index("ix_interim_pins_run_key_task_id", "interim_pins", ["run_key", "task_id"])


def _create_interim_refs() -> None:
    op.create_table(
        "interim_refs",
        sa.Column("reading_id", sa.Text, nullable=False),
        sa.Column("table_id", sa.Text, nullable=False),
        sa.Column("run_key", sa.Text, nullable=False),
        sa.Column("task_id", sa.Text, nullable=False),
        sa.Column("map_index", sa.Integer, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("taken_at", UtcDateTime, nullable=False),
        sa.Column("lease_until", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("reading_id", "table_id", name="pk_interim_refs"),
        postgresql_with=BUSY,
    )
    op.create_index("ix_interim_refs_run_key", "interim_refs", ["run_key"])
    op.create_index("ix_interim_refs_table_id", "interim_refs", ["table_id"])


def _create_interim_names() -> None:
    op.create_table(
        "interim_names",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("run_key", sa.Text, nullable=False),
        sa.Column("table_id", sa.Text, nullable=False),
        sa.Column("moved_at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("name", "run_key", name="pk_interim_names"),
    )
    op.create_index("ix_interim_names_run_key", "interim_names", ["run_key"])
    op.create_index("ix_interim_names_table_id", "interim_names", ["table_id"])
