"""Keep a row for each image that workers build."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from airflow_snowpack.store.dialect import UtcDateTime

revision = "0013_image_builds"
down_revision = "0012_priorities_and_turns"


def upgrade() -> None:
    op.create_table(
        "image_builds",
        sa.Column("key", sa.Text, nullable=False),
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
        sa.Column("visible_at", UtcDateTime, nullable=False),
        sa.Column("claimed_at", UtcDateTime),
        sa.Column("claimed_by", sa.Text),
        sa.Column("attempt_id", sa.Text),
        sa.Column("attempt_count", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_image_builds"),
        postgresql_with={"fillfactor": 80},
    )
    op.create_index("ix_image_builds_requested_at_key", "image_builds", ["requested_at", "key"])
    op.create_index("ix_image_builds_used_at_key", "image_builds", ["used_at", "key"])
