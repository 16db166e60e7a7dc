"""Runs Alembic on the connection and in the transaction of `migrate.py`."""

from __future__ import annotations

from alembic import context

from airflow_snowpack.store.migrate import VERSION_TABLE
from airflow_snowpack.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
