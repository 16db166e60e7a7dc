"""Keep the tasks that wait for an image."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from airflow_snowpack.store.dialect import UtcDateTime

revision = "0014_image_waits"
down_revision = "0013_image_builds"


def upgrade() -> None:
    op.create_table(
        "image_waits",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("task", sa.Text, nullable=False),
        sa.Column("since", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("key", "task", name="pk_image_waits"),
    )
