"""Create all tables of release 0.1."""

from __future__ import annotations

from airflow_snowpack.store.migrations.baseline import builds, interim, jobs, lineage, schedules

revision = "0001_baseline"
down_revision = None


def upgrade() -> None:
    for part in (jobs, schedules, builds, interim, lineage):
        part.create_tables()
