"""Lets listeners of an engine hear of the statements that run below the driver's cursor, of which SQLAlchemy tells nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.store.pg_prepared import PgPrepared

_run = PgPrepared._run


def _heard(self: PgPrepared, conn: sa.Connection, values: Mapping[str, Any]) -> Any:
    for hear in conn.dispatch.before_cursor_execute:
        hear(conn, None, self.text, values, None, False)
    found = _run(self, conn, values)
    for hear in conn.dispatch.after_cursor_execute:
        hear(conn, None, self.text, values, None, False)
    return found


def hear_direct() -> None:
    """From now on, for the rest of the process."""
    PgPrepared._run = _heard  # type: ignore[method-assign]


@contextmanager
def direct_heard() -> Iterator[None]:
    """As long as the block lasts."""
    before = PgPrepared._run
    hear_direct()
    try:
        yield
    finally:
        PgPrepared._run = before  # type: ignore[method-assign]
