"""A hot statement, with one interface on both databases.

    HAND_ON = PreparedStatement(sa.update(interim_tables).where(…).values(…))
    is_ours = HAND_ON.count(conn, values) == 1

On Postgres it is prepared once per connection and runs below the driver's cursor, see ``pg_prepared.py``; on SQLite it runs
through SQLAlchemy. Its text must not depend on its values: no lists of variable length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    from airflow_snowpack.store.pg_prepared import PgPrepared

FEW = 4
"""Up to this many rows take a round trip each; more go together, through the driver's pipeline."""


class PreparedStatement:
    """A statement that returns or writes rows, with bind parameters; one for both dialects, or one for each."""

    def __init__(self, statement: Any) -> None:
        self._statements = statement if isinstance(statement, Mapping) else {"postgresql": statement, "sqlite": statement}

    @cached_property
    def _direct(self) -> PgPrepared:
        # Imported here because a store in a file does not need psycopg.
        from airflow_snowpack.store.pg_prepared import PgPrepared

        return PgPrepared(self._statements["postgresql"])

    def first(self, conn: sa.Connection, values: Mapping[str, Any]) -> Any | None:
        """Return the first row, or ``None``.

        :raises DBAPIError: the database refused the statement.
        """
        if conn.dialect.name == "postgresql":
            return self._direct.first(conn, values)
        return conn.execute(self._statements["sqlite"], values).first()

    def count(self, conn: sa.Connection, values: Mapping[str, Any]) -> int:
        """Return the number of rows written; otherwise as :meth:`first`."""
        if conn.dialect.name == "postgresql":
            return self._direct.count(conn, values)
        return conn.execute(self._statements["sqlite"], values).rowcount

    def each(self, conn: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run once for each of these rows (at least one); otherwise as :meth:`first`."""
        if conn.dialect.name != "postgresql":
            conn.execute(self._statements["sqlite"], rows)
        elif len(rows) > FEW:
            conn.execute(self._statements["postgresql"], rows)
        else:
            for values in rows:
                self._direct.count(conn, values)
