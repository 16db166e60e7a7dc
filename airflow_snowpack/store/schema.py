"""The newest revision, and the tables of the store itself; the rooms' tables are in ``tables/``."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from airflow_snowpack.store.dialect import UtcDateTime

BASELINE = "0026_baseline"
"""The first migration; databases at an earlier revision come from a development version."""
REVISION = "0028_notifications"
"""The newest migration; a test compares it with Alembic's."""

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    }
)

# SQLAlchemy 2.0, which Airflow 3.1 and 3.2 bring, does not know it. It creates no table: the migrations do.
sa.Table.argument_for("postgresql", "with", None)

BUSY = {"fillfactor": 70, "autovacuum_vacuum_scale_factor": 0.02, "autovacuum_vacuum_threshold": 200}


@sa.event.listens_for(sa.Index, "after_parent_attach")
def _number(index: sa.Index, table: sa.Table) -> None:
    """Number the indexes of a table as declared: among equally good indexes, databases choose by age."""
    index.info["declared"] = len(table.indexes)


def partial_index(
    name: str, *columns: sa.ColumnElement[Any], where: sa.ColumnElement[bool] | sa.TextClause, unique: bool = False
) -> sa.Index:
    return sa.Index(name, *columns, unique=unique, postgresql_where=where, sqlite_where=where)


audit_trail = sa.Table(
    "audit_trail",
    metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), sa.Identity(), primary_key=True),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("via", sa.Text, nullable=False),
    sa.Column("change", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False, index=True),
    sa.Column("detail", sa.JSON, nullable=False),
)

store_facts = sa.Table(
    "store_facts",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
"""Facts about the store, such as its id."""

signs_of_life = sa.Table(
    "signs_of_life",
    metadata,
    sa.Column("role", sa.Text, primary_key=True),
    sa.Column("instance", sa.Text, primary_key=True),
    sa.Column("started_at", UtcDateTime, nullable=False),
    sa.Column("seen_at", UtcDateTime, nullable=False),
    sa.Column("period_s", sa.Float, nullable=False),
    sa.Column("detail", sa.JSON, nullable=False),
    postgresql_with=BUSY,
)
"""One row for each background process, or DAG task that does its work: see :mod:`airflow_snowpack.store.signs_of_life`."""
