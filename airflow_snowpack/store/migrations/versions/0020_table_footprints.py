"""Keep the places of everything that tables name, beside where they say that they are. A row without them is read again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020_table_footprints"
down_revision = "0019_plans_of_jobs"


def upgrade() -> None:
    op.add_column("table_locations", sa.Column("database", sa.Text))
    op.add_column("table_locations", sa.Column("footprint", sa.JSON))
