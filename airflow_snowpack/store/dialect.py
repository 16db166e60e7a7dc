"""What both databases understand alike: column types, texts, rows as values, and the SQL that they write differently.

job_from = row_mapper(Job, {"status": JobStatus, "actions": tuple}, table=table_from)
[job_from(row) for row in store.all(sa.select(jobs))]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from airflow_snowpack.redaction import redacted

T = TypeVar("T")
Get = Callable[[Any], Any]


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


def storable_error(text: str) -> str:
    """The text of an error as it is stored: :func:`storable`, and without secrets."""
    return storable(redacted(text))


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


def row_mapper(value: type[T], convert: Mapping[str, Get] | None = None, /, **sources: str | Get) -> Callable[[Any], T]:
    """Return a function that makes a value of a dataclass from a row; by default a field has the value of the column of its name.

    :param convert: by field, what to apply to the column's value, also when that is ``None``.
    :param sources: by field, the name of another column, or a function of the row.
    """
    gets = [_getter(sources.get(field.name, field.name), (convert or {}).get(field.name)) for field in fields(value)]  # type: ignore[arg-type]  # any dataclass
    return lambda row: value(*[get(row) for get in gets])


def _getter(source: str | Get, convert: Get | None) -> Get:
    get = attrgetter(source) if isinstance(source, str) else source
    return get if convert is None else lambda row: convert(get(row))


# In the order of the numbers that are locked, not of the keys: two keys may have the same number.
LOCK_KEYS = sa.text("""
SELECT count(pg_advisory_xact_lock(hashtext('airflow_snowpack_constraints'), number))
  FROM (SELECT DISTINCT hashtext(key) AS number FROM unnest(:keys) AS key ORDER BY number OFFSET 0) AS numbered
""").bindparams(sa.bindparam("keys", type_=ARRAY(sa.Text)))


def lock_keys(conn: sa.Connection, keys: Iterable[str]) -> None:
    """Wait for each transaction that has locked one of these keys, and lock them until this one ends.

    So a transaction that counts places and takes one keeps others that count the same waiting. Every transaction locks its keys
    in the same order, so that no two wait for each other. SQLite has one writer at a time anyway.
    """
    wanted = sorted(keys)
    if wanted and conn.dialect.name == "postgresql":
        conn.execute(LOCK_KEYS, {"keys": wanted})
