"""Create all tables of release 0.1, from the SQL next to this file: one file per database, which never changes."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0026_baseline"
down_revision = None


def upgrade() -> None:
    database = op.get_bind()
    schema = Path(__file__).with_name(f"{revision}.{database.dialect.name}.sql").read_text("utf-8")
    for statement in schema.split(";\n"):
        if statement:
            database.exec_driver_sql(statement)
