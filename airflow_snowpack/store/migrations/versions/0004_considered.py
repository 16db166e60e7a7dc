"""Up to where each consumer of a table's arrivals has considered them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from airflow_snowpack.store.types import UtcDateTime

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "considered",
        sa.Column("consumer", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("since", sa.JSON, nullable=False),
        sa.Column("upto", sa.JSON, nullable=False),
        sa.Column("changed_at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("consumer", name="pk_considered"),
    )
