"""Sharded builds: datasets, runs, and the moves of their pointers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from airflow_snowpack.store.types import UtcDateTime

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
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
    op.create_index("ix_build_runs_dataset_as_of_sequence", "build_runs", ["dataset", "as_of", "sequence"])
    for name, columns, which in (
        ("ix_build_runs_running", ["dataset", "started_at"], sa.text("status = 'running'")),
        ("ix_build_runs_cleanup", ["dataset", "cleanup_at"], sa.text("cleanup_at IS NOT NULL")),
        ("ix_build_runs_kept", ["dataset", "as_of", "sequence"], sa.text("status = 'succeeded' AND deleted_at IS NULL")),
    ):
        op.create_index(name, "build_runs", columns, postgresql_where=which, sqlite_where=which)
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
    undone = sa.text("done_at IS NULL")
    op.create_index("ix_build_publications_open", "build_publications", ["dataset"], postgresql_where=undone, sqlite_where=undone)
