"""A statement that runs so often that its overhead matters, with one interface on both databases.

    HAND_ON = PreparedStatement(sa.update(interim_tables).where(…).values(…))
    is_ours = HAND_ON.count(conn, values) == 1

On Postgres it is prepared once on each connection and runs below the driver's cursor, see ``pg_prepared.py``; on SQLite through
SQLAlchemy. Its text must not depend on its values: no lists of any length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    from airflow_snowpack.store.pg_prepared import PgPrepared

FEW = 4
"""Rows of which each may be a round trip; more of them go together, through the driver's pipeline."""


class PreparedStatement:
    """A statement that gives or writes rows.

    :param statement: with a bind parameter for each value that changes; one for all, or one for each dialect.
    """

    def __init__(self, statement: Any) -> None:
        self._statements = statement if isinstance(statement, Mapping) else {"postgresql": statement, "sqlite": statement}

    @cached_property
    def _direct(self) -> PgPrepared:
        # Imported here: psycopg is not needed for a store in a file.
        from airflow_snowpack.store.pg_prepared import PgPrepared

        return PgPrepared(self._statements["postgresql"])

    def first(self, conn: sa.Connection, values: Mapping[str, Any]) -> Any | None:
        """The first row, or ``None``.

        :raises DBAPIError: what the database refuses.
        """
        if conn.dialect.name == "postgresql":
            return self._direct.first(conn, values)
        return conn.execute(self._statements["sqlite"], values).first()

    def count(self, conn: sa.Connection, values: Mapping[str, Any]) -> int:
        """How many rows it wrote; otherwise as :meth:`first`."""
        if conn.dialect.name == "postgresql":
            return self._direct.count(conn, values)
        return conn.execute(self._statements["sqlite"], values).rowcount

    def each(self, conn: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Once for each of these, of which there is at least one; otherwise as :meth:`first`."""
        if conn.dialect.name != "postgresql":
            conn.execute(self._statements["sqlite"], rows)
        elif len(rows) > FEW:
            conn.execute(self._statements["postgresql"], rows)
        else:
            for values in rows:
                self._direct.count(conn, values)
