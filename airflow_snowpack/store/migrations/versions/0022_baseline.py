"""Create all tables as the code describes them.

Until the first release, this is the only migration, and each change of a table gives it a new number. The release replaces it by
a copy that is written out and never changes.
"""

from __future__ import annotations

from alembic import op

from airflow_snowpack.store.schema import metadata
from airflow_snowpack.store.tables import (  # noqa: F401 - each adds its tables to the metadata
    builds,
    fleet,
    health,
    images,
    interim,
    jobs,
    lineage,
    removals,
    schedules,
)

revision = "0022_baseline"
down_revision = None


def upgrade() -> None:
    metadata.create_all(op.get_bind(), checkfirst=False)
