"""Record which catalog a job, its place in the queue and a lock belong to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004_catalog_identity"
down_revision = "0003_remote_work_and_cancels"


def upgrade() -> None:
    for table in ("jobs", "job_queue", "table_locks"):
        op.add_column(table, sa.Column("catalog_id", sa.Text, nullable=False, server_default=""))
    # A claim takes the oldest job of its own catalog.
    op.drop_index("ix_job_queue_unclaimed", "job_queue")
    where = sa.text("claimed_at IS NULL")
    columns = ["catalog_id", "enqueued_at"]
    op.create_index("ix_job_queue_unclaimed", "job_queue", columns, postgresql_where=where, sqlite_where=where)
    # Inventories are stored by catalog from now on, and are read from the catalogs again.
    op.execute("DELETE FROM inventory_tables")
    op.execute("DELETE FROM inventory_refreshes")
