"""Keep a row for each background process, and which tables a listing of the catalog left out."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from airflow_snowpack.store.dialect import UtcDateTime

revision = "0008_signs_of_life"
down_revision = "0007_indexes_for_age_and_owner"


def upgrade() -> None:
    op.create_table(
        "signs_of_life",
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("instance", sa.Text, nullable=False),
        sa.Column("started_at", UtcDateTime, nullable=False),
        sa.Column("seen_at", UtcDateTime, nullable=False),
        sa.Column("period_s", sa.Float, nullable=False),
        sa.Column("detail", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("role", "instance", name="pk_signs_of_life"),
        postgresql_with={"fillfactor": 70, "autovacuum_vacuum_scale_factor": 0.02, "autovacuum_vacuum_threshold": 200},
    )
    op.execute("DELETE FROM store_facts WHERE name LIKE 'process:%'")
    op.add_column("inventory_refreshes", sa.Column("left_out", sa.JSON(none_as_null=True)))
