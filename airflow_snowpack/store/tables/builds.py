"""The tables of the build registry: datasets, their runs, and every move of their pointers.

Kept runs cost nothing: cleanup finds its work by ``cleanup_at``, which only runs that need another check have.
"""

from __future__ import annotations

import sqlalchemy as sa

from airflow_snowpack.store.dialect import UtcDateTime
from airflow_snowpack.store.leases import lease_columns
from airflow_snowpack.store.schema import metadata, partial_index

build_datasets = sa.Table(
    "build_datasets",
    metadata,
    sa.Column("dataset", sa.Text, primary_key=True),
    sa.Column("url", sa.Text, nullable=False, unique=True),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("runs", sa.Integer, nullable=False),
    sa.Column("drawn", sa.BigInteger, nullable=False),
    sa.Column("publication", sa.BigInteger),
    sa.Column("current_run", sa.Text),
    sa.Column("moved_at", UtcDateTime),
    sa.Column("newest_as_of", UtcDateTime),
    sa.Column("newest_sequence", sa.Integer),
    *lease_columns(),
)
"""``runs`` counts begun runs, ``drawn`` is the last publication number given out; the lease is the dataset's lock."""

build_runs = sa.Table(
    "build_runs",
    metadata,
    sa.Column("build_id", sa.Text, primary_key=True),
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
    *lease_columns(),
    sa.Index("ix_build_runs_dataset_as_of_sequence", "dataset", "as_of", "sequence"),
)
run = build_runs.c
is_kept = sa.and_(run.status == sa.literal_column("'succeeded'"), run.deleted_at.is_(None))
partial_index("ix_build_runs_deleted_at", run.deleted_at, where=run.deleted_at.is_not(None))
partial_index("ix_build_runs_running", run.dataset, run.started_at, where=run.status == sa.literal_column("'running'"))
partial_index("ix_build_runs_cleanup", run.dataset, run.cleanup_at, where=run.cleanup_at.is_not(None))
partial_index("ix_build_runs_kept", run.dataset, run.as_of, run.sequence, where=is_kept)

build_publications = sa.Table(
    "build_publications",
    metadata,
    sa.Column("dataset", sa.Text, primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("run_id", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("manifest", sa.Text, nullable=False),
    sa.Column("checksum", sa.Text, nullable=False),
    sa.Column("previous", sa.Text),
    sa.Column("previous_checksum", sa.Text),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("by", sa.Text),
    sa.Column("done_at", UtcDateTime),
)
"""A row without ``done_at`` is a publication that may or may not have happened; readers may have seen it."""

move = build_publications.c
partial_index("ix_build_publications_open", move.dataset, where=move.done_at.is_(None))
partial_index("ix_build_publications_done_at", move.done_at, where=move.done_at.is_not(None))
