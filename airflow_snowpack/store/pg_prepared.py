"""Runs a statement on Postgres below the driver's cursor, for the few whose speed limits throughput.

SQLAlchemy and psycopg cost more per execution than Postgres needs for a claim. A :class:`PgPrepared` is compiled once, prepared
once per connection, and sends and reads values as text by its column types. Otherwise it equals ``conn.execute(statement,
values).first()``: same transaction, same errors, same retries.

    CLAIM = PgPrepared(sa.update(job_queue)….returning(…))
    row = CLAIM.first(conn, {"b_now": now})
"""

from __future__ import annotations

import json
from collections import defaultdict, namedtuple
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from operator import index
from typing import Any
from weakref import WeakSet

import psycopg
import sqlalchemy as sa
from psycopg import generators, pq
from psycopg.errors import error_from_result
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.exc import DBAPIError

from airflow_snowpack.store.dialect import UtcDateTime

# The server takes numbered parameters as they are; psycopg rewrites named ones at each call.
_DIALECT: sa.Dialect = PGDialect_psycopg(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]  # SQLAlchemy has no types here

# By statement name, the connections on which it is prepared.
_PREPARED: defaultdict[bytes, WeakSet[Any]] = defaultdict(WeakSet)

UNKNOWN_OID, BOOLEAN_OID = 0, 16

Write = Callable[[Any], bytes | None]
Read = Callable[[bytes], Any]


class PgPrepared:
    """A statement for Postgres that returns at most one row, with bind parameters, and named columns or ``RETURNING``."""

    def __init__(self, statement: Any) -> None:
        compiled = statement.compile(dialect=_DIALECT)
        self.text = str(compiled)
        kinds = [compiled.binds[name].type for name in compiled.positiontup]
        self._binds = [(name, _writer(kind)) for name, kind in zip(compiled.positiontup, kinds, strict=True)]
        self._constants = {name: bind.value for name, bind in compiled.binds.items() if not bind.required}
        # Without a cast in the text, a parameter is taken for text; only booleans have none.
        self._oids = [BOOLEAN_OID if isinstance(kind, sa.Boolean) else UNKNOWN_OID for kind in kinds]
        columns = list(statement.exported_columns)
        self._row: Any = namedtuple("Row", [column.name for column in columns])  # type: ignore[misc]  # the names are data
        self._reads = [(place, _reader(column.type)) for place, column in enumerate(columns)]
        # The name is a digest, so that different statements never share a name, even between processes behind a pooler.
        meaning = f"{self.text} {self._oids}".encode()
        self._name = b"snowpack_" + blake2b(meaning, digest_size=16).hexdigest().encode()
        self._prepared = _PREPARED[self._name]

    def first(self, conn: sa.Connection, values: Mapping[str, Any]) -> Any | None:
        """Return the row as a named tuple, or ``None``.

        :param values: by name of the bind parameter, or of the column in an INSERT without values; other names are ignored.
        :raises DBAPIError: as SQLAlchemy raises it.
        """
        found = self._run(conn, values)
        if not found.ntuples:
            return None
        value = found.get_value
        return self._row._make([None if (raw := value(0, place)) is None else read(raw) for place, read in self._reads])

    def count(self, conn: sa.Connection, values: Mapping[str, Any]) -> int:
        """Return the number of rows written or found; otherwise as :meth:`first`."""
        return self._run(conn, values).command_tuples or 0

    def _run(self, conn: sa.Connection, values: Mapping[str, Any]) -> Any:
        driver: Any = conn.connection.dbapi_connection
        try:
            values = {**self._constants, **values}
            bound = [write(values[name]) for name, write in self._binds]
            if driver.behind_pooler:
                return self._unprepared(conn, driver, bound)
            if driver not in self._prepared:
                driver.pgconn.send_prepare(self._name, self.text.encode(), self._oids)
                _answer(driver)
                self._prepared.add(driver)
            driver.pgconn.send_query_prepared(self._name, bound)
            return _answer(driver)
        except psycopg.Error as error:
            raise self._as_dbapi_error(conn, driver, error) from error
        except BaseException as error:
            # A signal's exception, such as a task timeout, while the server was busy: until it answers, not even a rollback is
            # possible. The server rolls back by itself when the connection is closed.
            if _is_busy(driver):
                conn.invalidate(error)
            raise

    def _unprepared(self, conn: sa.Connection, driver: Any, bound: list[bytes | None]) -> Any:
        """Run the statement in a transaction, which has the settings that a session behind a pooler does not keep."""
        if not conn.in_transaction():
            conn.begin()
        driver.pgconn.send_query_params(self.text.encode(), bound, param_types=self._oids)
        return _answer(driver)

    def _as_dbapi_error(self, conn: sa.Connection, driver: Any, error: Any) -> BaseException:
        # A pooler or a DISCARD ALL may have deallocated the prepared statement; a new connection prepares it again. If the server
        # closes the connection in the middle of an answer, libpq can keep reporting a command in progress.
        lost = (
            conn.dialect.is_disconnect(error, driver, None)
            or isinstance(error, psycopg.errors.InvalidSqlStatementName)
            or _is_busy(driver)
        )
        if lost:
            conn.invalidate(error)
            conn.engine.dispose()  # the others in the pool are most likely lost too
        # Without the values: they may be long, and a job's options do not belong in a log.
        failure: BaseException = DBAPIError.instance(
            self.text, None, error, psycopg.Error, connection_invalidated=lost, dialect=conn.dialect
        )
        return failure


def _is_busy(driver: Any) -> bool:
    return bool(driver.pgconn.transaction_status == pq.TransactionStatus.ACTIVE)


def _answer(driver: Any) -> Any:
    """Wait for the server as psycopg's cursors do, handling signals meanwhile."""
    (result,) = driver.wait(generators.execute(driver.pgconn))
    if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
        raise error_from_result(result)
    return result


def _writer(kind: sa.types.TypeEngine[Any]) -> Write:
    """Return the function that writes a value as text."""
    if isinstance(kind, UtcDateTime):
        return _write_moment
    if isinstance(kind, sa.JSON):
        if kind.none_as_null:
            return lambda value: None if value is None else json.dumps(value).encode()
        return lambda value: json.dumps(value).encode()
    if isinstance(kind, sa.Boolean):
        return lambda value: None if value is None else b"t" if value else b"f"
    if isinstance(kind, sa.Integer):
        return lambda value: None if value is None else str(index(value)).encode()
    return _write_text


def _write_text(value: Any) -> bytes | None:
    if value is None:
        return None
    text = str(value).encode()
    if b"\0" in text:
        raise psycopg.DataError("PostgreSQL text cannot hold a NUL character.")  # libpq would truncate the text there
    return text


def _write_moment(value: datetime | None) -> bytes | None:
    if value is None:
        return None
    if value.tzinfo is None:
        raise ValueError(f"The moment {value!r} has no time zone. Pass an aware datetime, such as datetime.now(UTC).")
    return value.isoformat().encode()


def _reader(kind: sa.types.TypeEngine[Any]) -> Read:
    """Return the function that reads a value from Postgres's text."""
    if isinstance(kind, UtcDateTime):
        return lambda raw: datetime.fromisoformat(raw.decode()).astimezone(UTC)
    if isinstance(kind, sa.JSON):
        return lambda raw: json.loads(raw.decode())
    if isinstance(kind, sa.Boolean):
        return lambda raw: raw == b"t"
    if isinstance(kind, sa.Integer):
        return int
    return bytes.decode
