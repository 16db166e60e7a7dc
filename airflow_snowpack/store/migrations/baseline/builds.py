"""Build datasets, their runs and publications."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from airflow_snowpack.store.dialect import UtcDateTime


def create_tables() -> None:
    """Create the tables and their indexes."""
    _create_build_datasets()
    _create_build_runs()
    _create_build_publications()


def _create_build_datasets() -> None:
    op.create_table(
        "build_datasets",
        sa.Column("dataset", sa.Text, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("runs", sa.Integer, nullable=False),
        sa.Column("drawn", sa.BigInteger, nullable=False),
        sa.Column("publication", sa.BigInteger),
        sa.Column("current_run", sa.Text),
        sa.Column("moved_at", UtcDateTime),
        sa.Column("newest_as_of", UtcDateTime),
        sa.Column("newest_sequence", sa.Integer),
        sa.Column("visible_at", UtcDateTime, nullable=False),
        sa.Column("claimed_at", UtcDateTime),
        sa.Column("claimed_by", sa.Text),
        sa.Column("attempt_id", sa.Text),
        sa.Column("attempt_count", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("dataset", name="pk_build_datasets"),
        sa.UniqueConstraint("url", name="uq_build_datasets_url"),
    )


def _create_build_runs() -> None:
    op.create_table(
        "build_runs",
        sa.Column("build_id", sa.Text, nullable=False),
        sa.Column("dataset", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("as_of", UtcDateTime, nullable=False),
        sa.Column("sequence", sa.Integer, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("started_at", UtcDateTime, nullable=False),
        sa.Column("finished_at", UtcDateTime),
        sa.Column("num_shards", sa.Integer, nullable=False),
        sa.Column("rows", sa.BigInteger),
        sa.Column("bytes", sa.BigInteger),
        sa.Column("manifest", sa.Text),
        sa.Column("checksum", sa.Text),
        sa.Column("error", sa.Text),
        sa.Column("cleanup_at", UtcDateTime),
        sa.Column("deleted_at", UtcDateTime),
        sa.Column("visible_at", UtcDateTime, nullable=False),
        sa.Column("claimed_at", UtcDateTime),
        sa.Column("claimed_by", sa.Text),
        sa.Column("attempt_id", sa.Text),
        sa.Column("attempt_count", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("build_id", name="pk_build_runs"),
    )
    where = sa.text("cleanup_at IS NOT NULL")
    op.create_index("ix_build_runs_cleanup", "build_runs", ["dataset", "cleanup_at"], postgresql_where=where, sqlite_where=where)
    op.create_index("ix_build_runs_dataset_as_of_sequence", "build_runs", ["dataset", "as_of", "sequence"])
    where = sa.text("status = 'succeeded' AND deleted_at IS NULL")
    op.create_index(
        "ix_build_runs_kept", "build_runs", ["dataset", "as_of", "sequence"], postgresql_where=where, sqlite_where=where
    )
    where = sa.text("status = 'running'")
    op.create_index("ix_build_runs_running", "build_runs", ["dataset", "started_at"], postgresql_where=where, sqlite_where=where)


def _create_build_publications() -> None:
    op.create_table(
        "build_publications",
        sa.Column("dataset", sa.Text, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("manifest", sa.Text, nullable=False),
        sa.Column("checksum", sa.Text, nullable=False),
        sa.Column("previous", sa.Text),
        sa.Column("previous_checksum", sa.Text),
        sa.Column("at", UtcDateTime, nullable=False),
        sa.Column("by", sa.Text),
        sa.Column("done_at", UtcDateTime),
        sa.PrimaryKeyConstraint("dataset", "number", name="pk_build_publications"),
    )
    where = sa.text("done_at IS NULL")
    op.create_index("ix_build_publications_open", "build_publications", ["dataset"], postgresql_where=where, sqlite_where=where)
