"""Enter each registered run without a cron among the schedules, where those with a cron are already.

The rows of the former table stay for processes of the version before. A schedule whose trigger they cannot read starts nothing by
itself, in the version before as in this one.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from alembic import op

from airflow_snowpack.store.dialect import UtcDateTime

revision = "0011_runs_among_the_schedules"
down_revision = "0010_gates_in_the_wait_queue"

registered_runs = sa.table(
    "registered_runs",
    sa.column("name", sa.Text),
    sa.column("dag_id", sa.Text),
    sa.column("conf", sa.JSON),
    sa.column("cron", sa.Text),
    sa.column("preservation", sa.Text),
    sa.column("enabled", sa.Boolean),
    sa.column("description", sa.Text),
    sa.column("created_at", UtcDateTime),
    sa.column("updated_at", UtcDateTime),
    sa.column("updated_by", sa.Text),
)
schedules = sa.table(
    "schedules",
    sa.column("name", sa.Text),
    sa.column("generation", sa.Text),
    sa.column("definition", sa.JSON),
    sa.column("dag_id", sa.Text),
    sa.column("priority", sa.Integer),
    sa.column("enabled", sa.Boolean),
    sa.column("origin", sa.Text),
    sa.column("created_at", UtcDateTime),
    sa.column("changed_at", UtcDateTime),
    sa.column("changed_by", sa.Text),
)


def upgrade() -> None:
    conn = op.get_bind()
    without_cron = sa.select(registered_runs).where(registered_runs.c.cron.is_(None))
    for row in conn.execute(without_cron.where(registered_runs.c.name.not_in(sa.select(schedules.c.name)))).all():
        conn.execute(sa.insert(schedules).values(**_schedule(row)))


def _schedule(row: sa.Row[Any]) -> dict[str, Any]:
    settings = {"name": row.name, "preservation": row.preservation, "explicit": False}
    definition = {
        "name": row.name,
        "dag_id": row.dag_id,
        "trigger": {"by_hand": {}},
        "conf": {**row.conf, "snowpack_run": settings},
        "constraints": [],
        "timeout": {"after": "1d", "then": "discard"},
        "priority": 0,
        "missed": "one",
        "backlog": "one",
        "enabled": row.enabled,
        "description": row.description,
    }
    return {
        "name": row.name,
        "generation": uuid4().hex,
        "definition": definition,
        "dag_id": row.dag_id,
        "priority": 0,
        "enabled": row.enabled,
        "origin": "run",
        "created_at": row.created_at,
        "changed_at": row.updated_at,
        "changed_by": row.updated_by,
    }
