"""Keep the newest attempts to build an image."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from airflow_snowpack.store.dialect import UtcDateTime

revision = "0015_image_attempts"
down_revision = "0014_image_waits"


def upgrade() -> None:
    op.create_table(
        "image_attempts",
        sa.Column("attempt_id", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("started_at", UtcDateTime, nullable=False),
        sa.Column("ended_at", UtcDateTime),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("error", sa.Text),
        sa.PrimaryKeyConstraint("attempt_id", name="pk_image_attempts"),
    )
    op.create_index("ix_image_attempts_key_started_at", "image_attempts", ["key", "started_at"])
