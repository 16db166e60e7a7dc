"""Brings a store to the schema of an older version, and runs one migration alone.

migrate_to(store, "0011_runs_among_the_schedules")    # an empty database
run_migration(store, "0011_runs_among_the_schedules")  # again, on rows as the version before wrote them
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory

from airflow_snowpack.store.migrate import SCRIPTS

if TYPE_CHECKING:
    import sqlalchemy as sa

    from airflow_snowpack.store import Store


def migrate_to(store: Store, revision: str) -> None:
    """Run the migrations of an empty database up to this one."""

    def migrate(conn: sa.Connection) -> None:
        config = _config()
        config.attributes["connection"] = conn
        command.upgrade(config, revision)

    store.transact(migrate)


def run_migration(store: Store, revision: str) -> None:
    """Run what this migration does, whatever the revision of the database is."""
    script = ScriptDirectory.from_config(_config()).get_revision(revision)
    assert script is not None

    def migrate(conn: sa.Connection) -> None:
        with Operations.context(MigrationContext.configure(conn)):
            script.module.upgrade()

    store.transact(migrate)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    return config
