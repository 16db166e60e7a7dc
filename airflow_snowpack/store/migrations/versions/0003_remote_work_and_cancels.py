"""Record where the Spark work of a job may outlive its worker, and who cancelled a job."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003_remote_work_and_cancels"
down_revision = "0002_launches_that_absorb"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("spark_server", sa.Text))
    op.add_column("jobs", sa.Column("cancelled_by", sa.Text))
