"""Count by inserting one row, which is added to the counters later."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027_counter_increments"
down_revision = "0026_baseline"


def upgrade() -> None:
    op.create_table(
        "counter_increments",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(), nullable=False),
        sa.Column("amounts", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_counter_increments"),
        postgresql_with={"fillfactor": 70, "autovacuum_vacuum_scale_factor": 0.02, "autovacuum_vacuum_threshold": 200},
    )
