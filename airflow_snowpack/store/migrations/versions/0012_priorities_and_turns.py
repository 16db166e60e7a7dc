"""Give jobs a priority, and each database its turn in the queue."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012_priorities_and_turns"
down_revision = "0011_runs_among_the_schedules"

# The jobs that wait keep their order within their database. Turn 0 is before every other: a job that a process of the version
# before submits or requeues meanwhile is next.
DATABASES = """
UPDATE job_queue SET database_name = jobs.database_name FROM jobs WHERE jobs.job_id = job_queue.job_id
"""
TURNS = """
UPDATE job_queue SET turn = placed.turn
  FROM (SELECT job_id, row_number() OVER (PARTITION BY catalog_id, database_name ORDER BY enqueued_at, job_id) AS turn
          FROM job_queue WHERE claimed_at IS NULL) AS placed
 WHERE placed.job_id = job_queue.job_id
"""


def upgrade() -> None:
    op.add_column("jobs", sa.Column("priority", sa.Integer, nullable=False, server_default="0"))
    op.add_column("job_queue", sa.Column("rank", sa.Integer, nullable=False, server_default="0"))
    op.add_column("job_queue", sa.Column("turn", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("job_queue", sa.Column("database_name", sa.Text, nullable=False, server_default=""))
    op.execute(DATABASES)
    op.execute(TURNS)
    op.drop_index("ix_job_queue_unclaimed", "job_queue")
    _index("ix_job_queue_unclaimed", ["catalog_id", "rank", "turn", "enqueued_at"])
    _index("ix_job_queue_turns", ["catalog_id", "rank", "database_name", "turn"])


def _index(name: str, columns: list[str]) -> None:
    where = sa.text("claimed_at IS NULL")
    op.create_index(name, "job_queue", columns, postgresql_where=where, sqlite_where=where)
