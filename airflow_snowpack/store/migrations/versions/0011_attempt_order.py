"""When the attempt that has an output started: tries are counted anew in a run that is deleted and made again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from airflow_snowpack.store.types import UtcDateTime

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("interim_slots", sa.Column("started_at", UtcDateTime))
