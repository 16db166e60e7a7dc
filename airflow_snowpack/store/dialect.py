"""What both databases share: column types, text, and rows as values.

    job_from = row_mapper(Job, {"status": JobStatus, "actions": tuple}, table=table_from)
    [job_from(row) for row in store.all(sa.select(jobs))]

SQL that each of them writes differently is here too.
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
    """An aware datetime in UTC: ``timestamptz`` on Postgres, text that sorts by time on SQLite.

    Naive datetimes are refused, because they would silently mean another time elsewhere.
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
    """Return the text without characters that a database refuses, so that an error message never keeps a job from ending.

    Postgres accepts no NUL in text, and neither database accepts lone surrogates. Search terms are converted too: no stored text
    has such a character, so nothing is found.
    """
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


def storable_error(text: str) -> str:
    """Return an error's text as it is stored: :func:`storable`, and without secrets."""
    return storable(redacted(text))


def insert(table: sa.Table) -> postgresql.Insert:
    """Return an ``INSERT`` that supports ``ON CONFLICT``; SQLAlchemy renders Postgres's clause for SQLite too."""
    return postgresql.insert(table)


def upsert(table: sa.Table, changed: Iterable[str], *, where: sa.ColumnElement[bool] | None = None) -> postgresql.Insert:
    """Return an ``INSERT`` that updates these columns if the primary key exists and ``where`` holds for that row."""
    new = insert(table)
    replaced: dict[str, Any] = {name: new.excluded[name] for name in changed}
    return new.on_conflict_do_update(index_elements=list(table.primary_key), set_=replaced, where=where)


class owner_dag(FunctionElement[str]):  # noqa: N801  # named like an SQL function
    """The text up to and including the first slash; empty without a slash."""

    type = sa.Text()
    inherit_cache = True


@compiles(owner_dag, "sqlite")
def _on_sqlite(element: owner_dag, compiler: Any, **options: Any) -> str:
    return _up_to_slash("instr", element, compiler, options)


@compiles(owner_dag, "postgresql")
def _on_postgres(element: owner_dag, compiler: Any, **options: Any) -> str:
    return _up_to_slash("strpos", element, compiler, options)


def _up_to_slash(position: str, element: owner_dag, compiler: Any, options: dict[str, Any]) -> str:
    # Literals instead of parameters: the planner uses the index only for the identical expression.
    owner = compiler.process(element.clauses, **options)
    return f"substr({owner}, 1, {position}({owner}, '/'))"


def row_mapper(value: type[T], convert: Mapping[str, Get] | None = None, /, **sources: str | Get) -> Callable[[Any], T]:
    """Return a function that makes a dataclass value from a row; a field defaults to the column of its name.

    :param convert: by field, a function of the column's value, which may be ``None``.
    :param sources: by field, the name of another column, or a function of the row.
    """
    gets = [_getter(sources.get(field.name, field.name), (convert or {}).get(field.name)) for field in fields(value)]  # type: ignore[arg-type]  # any dataclass
    return lambda row: value(*[get(row) for get in gets])


def _getter(source: str | Get, convert: Get | None) -> Get:
    get = attrgetter(source) if isinstance(source, str) else source
    return get if convert is None else lambda row: convert(get(row))


# Ordered by the locked numbers, not by the keys: two keys may have the same number.
LOCK_KEYS = sa.text("""
SELECT count(pg_advisory_xact_lock(hashtext('airflow_snowpack_constraints'), number))
  FROM (SELECT DISTINCT hashtext(key) AS number FROM unnest(:keys) AS key ORDER BY number OFFSET 0) AS numbered
""").bindparams(sa.bindparam("keys", type_=ARRAY(sa.Text)))


def lock_keys(conn: sa.Connection, keys: Iterable[str]) -> None:
    """Wait for each transaction that has locked one of these keys, and lock them until this one ends.

    A transaction that counts places and takes one thus blocks others that count the same places. Every transaction locks its keys
    in the same order, which avoids deadlocks. SQLite has one writer at a time anyway.
    """
    wanted = sorted(keys)
    if wanted and conn.dialect.name == "postgresql":
        conn.execute(LOCK_KEYS, {"keys": wanted})
