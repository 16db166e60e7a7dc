"""The tables of images that workers build."""

from __future__ import annotations

import sqlalchemy as sa

from airflow_snowpack.store.dialect import UtcDateTime
from airflow_snowpack.store.leases import lease_columns
from airflow_snowpack.store.schema import metadata

image_builds = sa.Table(
    "image_builds",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("remote", sa.Text, nullable=False),
    sa.Column("revision", sa.Text, nullable=False),
    sa.Column("commit_hash", sa.Text, nullable=False),
    sa.Column("dockerfile", sa.Text, nullable=False),
    sa.Column("build_args", sa.JSON, nullable=False),
    sa.Column("platform", sa.Text, nullable=False),
    sa.Column("place", sa.Text, nullable=False),
    sa.Column("tag", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("reference", sa.Text),
    sa.Column("digest", sa.Text),
    sa.Column("requested_at", UtcDateTime, nullable=False),
    sa.Column("started_at", UtcDateTime),
    sa.Column("finished_at", UtcDateTime),
    sa.Column("used_at", UtcDateTime, nullable=False),
    sa.Column("error", sa.Text),
    sa.Column("log", sa.Text, nullable=False),
    *lease_columns(),
    sa.Index("ix_image_builds_requested_at_key", "requested_at", "key"),
    sa.Index("ix_image_builds_used_at_key", "used_at", "key"),
    postgresql_with={"fillfactor": 80},
)
"""One row for each image, by the SHA-256 of what decides its content. The lease belongs to the process that builds it.

``build_args`` has the names alone. ``finished_at`` is the end of the latest attempt; ``used_at`` moves at most daily.
"""

image_waits = sa.Table(
    "image_waits",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("task", sa.Text, primary_key=True),
    sa.Column("since", UtcDateTime, nullable=False),
)
"""The tasks that wait for an image, for display. The end of the build deletes them."""

image_attempts = sa.Table(
    "image_attempts",
    metadata,
    sa.Column("attempt_id", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("started_at", UtcDateTime, nullable=False),
    sa.Column("ended_at", UtcDateTime),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("error", sa.Text),
    sa.Index("ix_image_attempts_key_started_at", "key", "started_at"),
)
"""The newest attempts at each image, for display."""
