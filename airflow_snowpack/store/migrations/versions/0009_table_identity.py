"""Which table a place was read in: one that is dropped and made again is another."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("table_places", sa.Column("table_uuid", sa.Text))
