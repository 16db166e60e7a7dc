"""Create all tables as the code describes them.

Until the first release, this is the only migration, and each change of a table gives it a new number. The release replaces it by
a copy that is written out and never changes.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from alembic import op
from sqlalchemy.schema import CreateIndex, CreateTable

from airflow_snowpack.store import tables
from airflow_snowpack.store.schema import metadata

revision = "0026_baseline"
down_revision = None


def upgrade() -> None:
    for module in iter_modules(tables.__path__, f"{tables.__name__}."):
        import_module(module.name)  # each adds its tables to the metadata
    for table in metadata.sorted_tables:
        op.execute(CreateTable(table))
        for index in sorted(table.indexes, key=lambda index: int(index.info["declared"])):
            op.execute(CreateIndex(index))
