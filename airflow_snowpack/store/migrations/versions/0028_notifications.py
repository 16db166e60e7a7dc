"""Add notifications and their receivers, and the properties of a table that name its owner."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028_notifications"
down_revision = "0027_counter_increments"


def upgrade() -> None:
    moment = sa.DateTime(timezone=True)
    op.add_column("table_health", sa.Column("owner", sa.JSON(none_as_null=True)))
    op.create_table(
        "notifications",
        sa.Column("cause_key", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("sentence", sa.Text, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("first_seen_at", moment, nullable=False),
        sa.Column("last_seen_at", moment, nullable=False),
        sa.Column("notified_at", moment),
        sa.Column("resolved_at", moment),
    )
    op.create_index("ix_notifications_last_seen_at", "notifications", ["last_seen_at", "cause_key"])
    for name, column in (("ix_notifications_open", "resolved_at"), ("ix_notifications_unsent", "notified_at")):
        unset = sa.text(f"{column} IS NULL")
        op.create_index(name, "notifications", ["cause_key"], postgresql_where=unset, sqlite_where=unset)
    op.create_table(
        "notification_receivers",
        sa.Column("receiver", sa.Text, primary_key=True),
        sa.Column("attempt_id", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("next_attempt_at", moment, nullable=False),
        sa.Column("digest_at", moment, nullable=False),
        sa.Column("problem", sa.Text),
    )
