"""What both databases understand alike: column types, texts, and the SQL that they write differently."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class UtcDateTime(sa.types.TypeDecorator[datetime]):
    """An aware moment in UTC: ``timestamptz`` on Postgres, text that sorts in order of time on SQLite.

    A naive datetime is refused: it would silently mean another moment elsewhere.
    """

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"The moment {value!r} has no time zone. Pass an aware datetime, such as datetime.now(UTC).")
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> datetime | None:
        if value is None:
            return None
        moment: datetime = value
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def storable(text: str) -> str:
    """The text without what a database refuses: an error message must never be what keeps a job from ending.

    Postgres takes no NUL in a text, and neither database takes half of a surrogate pair. What is looked up goes through here as
    well: nothing that is stored has such a character, so nothing is found.
    """
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


def insert(table: sa.Table) -> postgresql.Insert:
    """Return an ``INSERT`` that can have an ``ON CONFLICT`` clause; SQLAlchemy writes Postgres's clause for SQLite too."""
    return postgresql.insert(table)


def upsert(table: sa.Table, changed: Iterable[str], *, where: sa.ColumnElement[bool] | None = None) -> postgresql.Insert:
    """Return an ``INSERT`` that replaces these columns of a row whose primary key is there already.

    :param where: replace them only if this is true of the row that is there.
    """
    new = insert(table)
    replaced: dict[str, Any] = {name: new.excluded[name] for name in changed}
    return new.on_conflict_do_update(index_elements=list(table.primary_key), set_=replaced, where=where)


class owner_dag(FunctionElement[str]):  # noqa: N801  # named as the SQL function that it is used like
    """Everything up to the first slash, the slash included; empty when there is none."""

    type = sa.Text()
    inherit_cache = True


@compiles(owner_dag, "sqlite")
def _on_sqlite(element: owner_dag, compiler: Any, **options: Any) -> str:
    return _up_to_slash("instr", element, compiler, options)


@compiles(owner_dag, "postgresql")
def _on_postgres(element: owner_dag, compiler: Any, **options: Any) -> str:
    return _up_to_slash("strpos", element, compiler, options)


def _up_to_slash(position: str, element: owner_dag, compiler: Any, options: dict[str, Any]) -> str:
    # Literals and no parameters: a planner takes the index only for the very same expression.
    owner = compiler.process(element.clauses, **options)
    return f"substr({owner}, 1, {position}({owner}, '/'))"
