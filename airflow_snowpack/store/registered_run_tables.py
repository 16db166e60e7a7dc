"""The table of registered runs: one row for each name in the catalogue.

What a run becomes stands in the tables of schedules: a cron is a schedule of the same name, and a run that somebody asks for is a
pending job like any other.
"""

from __future__ import annotations

import sqlalchemy as sa

from airflow_snowpack.store.schema import metadata
from airflow_snowpack.store.types import UtcDateTime

registered_runs = sa.Table(
    "registered_runs",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("dag_id", sa.Text, nullable=False, index=True),
    sa.Column("conf", sa.JSON, nullable=False),
    sa.Column("cron", sa.Text),
    sa.Column("tz", sa.Text, nullable=False),
    sa.Column("preservation", sa.Text),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("description", sa.Text, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("updated_at", UtcDateTime, nullable=False),
    sa.Column("updated_by", sa.Text),
)
