"""Runs Alembic on the connection and in the transaction of `migrate.py`."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from alembic import context

from airflow_snowpack.store import tables
from airflow_snowpack.store.migrate import VERSION_TABLE
from airflow_snowpack.store.schema import metadata

for module in iter_modules(tables.__path__, f"{tables.__name__}."):
    import_module(module.name)  # each adds its tables to the metadata
context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
