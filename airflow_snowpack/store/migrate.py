"""Upgrades the schema to the newest revision, and checks it.

    upgrade_schema(store)   # `airflow snowpack db upgrade`
    check_schema(store)     # `airflow snowpack db check`

A revision is named ``NNNN_what_it_does``. The first one is the baseline, which creates all tables; older databases come from a
development version and are refused. Migrations only add, so that the previous version still works on the new schema; a database
*newer* than this package is therefore accepted, and left as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from airflow_snowpack.store.errors import SchemaOutOfDate, UnknownRevision
from airflow_snowpack.store.schema import BASELINE, REVISION
from airflow_snowpack.store.store import Store

VERSION_TABLE = "snowpack_version"
UNDEFINED_TABLE = "42P01"  # Postgres's SQLSTATE
SCRIPTS = Path(__file__).parent / "migrations"


def current_revision(store: Store) -> str | None:
    """Return the revision of the database; ``None`` without Snowpack tables."""

    def read(conn: sa.Connection) -> str | None:
        try:
            return conn.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").scalar_one_or_none()
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) != UNDEFINED_TABLE and "no such table" not in str(error.orig):
                raise
            return None

    return store.read(read)


def check_schema(store: Store) -> None:
    """Check that the schema exists and is not older than this package.

    :raises SchemaOutOfDate: the tables are missing or older.
    :raises UnknownRevision: the tables are from a development version.
    """
    found = current_revision(store)
    if found is not None and found < BASELINE:
        raise UnknownRevision(store.where, found, REVISION)
    if found is None or found < REVISION:
        raise SchemaOutOfDate(store.where, found, REVISION)


def upgrade_schema(store: Store) -> None:
    """Run the missing migrations in one transaction. A second process waits, and then finds nothing to do.

    :raises UnknownRevision: this package does not have the database's revision. Nothing is changed.
    """
    from alembic import command
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}

    def migrate(conn: sa.Connection) -> None:
        if conn.dialect.name == "postgresql":
            conn.exec_driver_sql("SELECT pg_advisory_xact_lock(hashtext('airflow_snowpack_migrations'))")
        config.attributes["connection"] = conn
        found = MigrationContext.configure(conn, opts={"version_table": VERSION_TABLE}).get_current_revision()
        if found is not None and found not in known:
            raise UnknownRevision(store.where, found, REVISION)
        command.upgrade(config, "head")

    with _quiet_alembic():
        store.transact(migrate)


@contextmanager
def _quiet_alembic() -> Iterator[None]:
    """Silence Alembic's steps, which would appear in the output of any command that opens a new store."""
    logger = logging.getLogger("alembic")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
