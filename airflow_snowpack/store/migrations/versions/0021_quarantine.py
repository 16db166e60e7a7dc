"""Count the files of a removal that are in quarantine, and keep until when."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from airflow_snowpack.store.dialect import UtcDateTime

revision = "0021_quarantine"
down_revision = "0020_table_footprints"


def upgrade() -> None:
    op.add_column("removals", sa.Column("quarantined_count", sa.Integer, nullable=False, server_default="0"))
    op.add_column("removals", sa.Column("restored_count", sa.Integer, nullable=False, server_default="0"))
    op.add_column("removals", sa.Column("quarantined_until", UtcDateTime))
