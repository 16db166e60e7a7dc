"""Keep where the tables of a catalog have their files, for the check before orphan files are removed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from airflow_snowpack.store.dialect import UtcDateTime

revision = "0006_table_locations"
down_revision = "0005_schedule_sources"


def upgrade() -> None:
    op.create_table(
        "table_locations",
        sa.Column("catalog", sa.Text, nullable=False),
        sa.Column("identifier", sa.Text, nullable=False),
        sa.Column("metadata_location", sa.Text, nullable=False),
        sa.Column("locations", sa.JSON, nullable=False),
        sa.Column("read_at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("catalog", "identifier", name="pk_table_locations"),
    )
