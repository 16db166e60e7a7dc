"""Keep lists of files and snapshots that are deleted after an approval."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from airflow_snowpack.store.dialect import UtcDateTime

revision = "0016_removals"
down_revision = "0015_image_attempts"


def upgrade() -> None:
    op.create_table(
        "removals",
        sa.Column("removal_id", sa.Text, nullable=False),
        sa.Column("catalog", sa.Text, nullable=False),
        sa.Column("catalog_id", sa.Text, nullable=False),
        sa.Column("database_name", sa.Text, nullable=False),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("table_key", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("planned_at", UtcDateTime, nullable=False),
        sa.Column("expires_at", UtcDateTime, nullable=False),
        sa.Column("planned_by_job", sa.Text, nullable=False),
        sa.Column("requested_by", sa.Text),
        sa.Column("table_uuid", sa.Text, nullable=False),
        sa.Column("metadata_location", sa.Text, nullable=False),
        sa.Column("location", sa.Text, nullable=False),
        sa.Column("settings", sa.JSON, nullable=False),
        sa.Column("item_count", sa.Integer, nullable=False),
        sa.Column("bytes", sa.BigInteger),
        sa.Column("decided_at", UtcDateTime),
        sa.Column("decided_by", sa.Text),
        sa.Column("comment", sa.Text),
        sa.Column("job_id", sa.Text),
        sa.Column("attempt_id", sa.Text),
        sa.Column("started_at", UtcDateTime),
        sa.Column("ended_at", UtcDateTime),
        sa.Column("deleted_count", sa.Integer, nullable=False),
        sa.Column("gone_count", sa.Integer, nullable=False),
        sa.Column("left_out_count", sa.Integer, nullable=False),
        sa.Column("error", sa.Text),
        sa.PrimaryKeyConstraint("removal_id", name="pk_removals"),
    )
    op.create_index("ix_removals_planned_at_removal_id", "removals", ["planned_at", "removal_id"])
    op.create_index("ix_removals_table_key_planned_at_removal_id", "removals", ["table_key", "planned_at", "removal_id"])
    op.create_index("ix_removals_planned_by_job", "removals", ["planned_by_job"])
    op.create_table(
        "removal_parts",
        sa.Column("removal_id", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("removal_id", "number", name="pk_removal_parts"),
    )
