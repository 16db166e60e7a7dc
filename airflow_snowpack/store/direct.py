"""Runs one statement on the driver's own cursor: for the few statements whose speed is the speed of the whole.

SQLAlchemy's work per execution costs more than Postgres needs for a claim. A :class:`Direct` is compiled once, keeps its
place in psycopg's prepared statements, and converts values by the column types that it was written with. It means the
same as ``conn.execute(statement, values).first()``: same transaction, same errors, so that what is retried stays the same.

    CLAIM = Direct(sa.update(job_queue)….returning(…))
    row = CLAIM.first(conn, {"b_now": now})
"""

from __future__ import annotations

import json
from collections import namedtuple
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import psycopg
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.exc import DBAPIError

from airflow_snowpack.store.types import UtcDateTime

# Numbered parameters go to the server as they are; psycopg rewrites named ones at each call.
_DIALECT: sa.Dialect = PGDialect_psycopg(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]  # SQLAlchemy has no types here

Convert = Callable[[Any], Any] | None


def _to_text(kind: sa.types.TypeEngine[Any]) -> Convert:
    """Moments and JSON as text, which the statement casts: psycopg's own dumpers for them cost several times as much."""
    if isinstance(kind, UtcDateTime):
        return _moment
    if isinstance(kind, sa.JSON):
        return _json_or_null if kind.none_as_null else json.dumps
    return kind.dialect_impl(_DIALECT).bind_processor(_DIALECT)


def _moment(value: datetime | None) -> str | None:
    if value is None:
        return None
    if value.tzinfo is None:
        raise ValueError(f"The moment {value!r} has no time zone. Pass an aware datetime, such as datetime.now(UTC).")
    return value.isoformat()


def _json_or_null(value: Any) -> str | None:
    return None if value is None else json.dumps(value)


class Direct:
    """A statement for Postgres that gives at most one row.

    :param statement: with a bind parameter for each value, and named columns or ``RETURNING``.
    """

    def __init__(self, statement: Any) -> None:
        compiled = statement.compile(dialect=_DIALECT)
        self.text = str(compiled)
        self._binds = [(name, _to_text(compiled.binds[name].type)) for name in compiled.positiontup]
        columns = list(statement.exported_columns)
        self._row: Any = namedtuple("Row", [column.name for column in columns])  # type: ignore[misc]  # the names are data
        found = [column.type.dialect_impl(_DIALECT).result_processor(_DIALECT, None) for column in columns]
        self._converts = [(place, convert) for place, convert in enumerate(found) if convert is not None]

    def first(self, conn: sa.Connection, values: Mapping[str, Any]) -> Any | None:
        """The row as a named tuple, or ``None``.

        :param values: by name of the bind parameter; others than the statement has are left alone.
        :raises DBAPIError: as SQLAlchemy raises it.
        """
        bound = [values[name] if convert is None else convert(values[name]) for name, convert in self._binds]
        driver: Any = conn.connection.dbapi_connection
        try:
            found = psycopg.RawCursor(driver).execute(self.text, bound, prepare=True).fetchone()
        except psycopg.Error as error:
            raise self._as_sqlalchemy_says(conn, driver, error) from error
        if found is None:
            return None
        row = list(found)
        for place, convert in self._converts:
            row[place] = convert(row[place])
        return self._row._make(row)

    def _as_sqlalchemy_says(self, conn: sa.Connection, driver: Any, error: Any) -> BaseException:
        lost = conn.dialect.is_disconnect(error, driver, None)
        if lost:
            conn.invalidate(error)
            conn.engine.dispose()  # the others in the pool are most likely lost with it
        # Without the values: they may be long, and a job's options are nobody's business in a log.
        said: BaseException = DBAPIError.instance(
            self.text, None, error, psycopg.Error, connection_invalidated=lost, dialect=conn.dialect
        )
        return said
