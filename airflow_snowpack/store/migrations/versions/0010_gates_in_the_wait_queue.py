"""Give runs at gates a priority, and index them by what they wait for: they wait in the queue of pending runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010_gates_in_the_wait_queue"
down_revision = "0009_versions_of_polled_tables"


def upgrade() -> None:
    op.add_column("gated_runs", sa.Column("priority", sa.Integer, nullable=False, server_default="0"))
    waiting = sa.text("waits_for IS NOT NULL")
    op.create_index("ix_gated_runs_waits_for", "gated_runs", ["waits_for"], postgresql_where=waiting, sqlite_where=waiting)
