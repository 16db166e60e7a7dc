"""Record in which metadata each polled table was read, and when it is to be looked at next."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from airflow_snowpack.store.dialect import UtcDateTime

revision = "0009_versions_of_polled_tables"
down_revision = "0008_signs_of_life"


def upgrade() -> None:
    op.add_column("table_places", sa.Column("metadata_location", sa.Text))
    op.add_column("table_places", sa.Column("look_at", UtcDateTime))
