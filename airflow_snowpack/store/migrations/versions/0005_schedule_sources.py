"""Record what is wrong with the sources of schedules, and when a scheduler last worked."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from airflow_snowpack.store.dialect import UtcDateTime

revision = "0005_schedule_sources"
down_revision = "0004_catalog_identity"


def upgrade() -> None:
    op.create_table(
        "source_problems",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("problem", sa.Text, nullable=False),
        sa.Column("began_at", UtcDateTime, nullable=False),
        sa.Column("asked_at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_source_problems"),
    )
    op.create_table(
        "scheduler_beats",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("seen_at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_scheduler_beats"),
    )
