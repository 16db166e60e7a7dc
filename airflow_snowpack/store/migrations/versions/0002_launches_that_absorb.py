"""Let a launch take further events, and keep more of the place up to which a table was read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002_launches_that_absorb"
down_revision = "0001_baseline"


def upgrade() -> None:
    op.add_column("launches", sa.Column("absorbs", sa.Boolean, nullable=False, server_default=sa.false()))
    where = sa.text("absorbs AND claimed_at IS NULL")
    op.create_index("ix_launches_absorbing", "launches", ["schedule"], postgresql_where=where, sqlite_where=where)
    op.add_column("table_places", sa.Column("total_records", sa.BigInteger))
    op.add_column("table_places", sa.Column("other_heads", sa.JSON))
