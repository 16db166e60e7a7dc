"""Taking turns: who counts places and takes one keeps others who count the same waiting until he has committed.

hold_turns(conn, ["dag:maintain_page_views", "pool:spark"])

The invariant: the keys of one transaction are asked for in one order, so that no two can wait for each other. SQLite has one
writer at a time anyway.
"""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

TURN = sa.text("SELECT pg_advisory_xact_lock(hashtext('airflow_snowpack_constraints'), hashtext(:key))")


def hold_turns(conn: sa.Connection, keys: Iterable[str]) -> None:
    """Wait for whoever is about to take a place that one of these keys counts; the turn ends with the transaction."""
    if conn.dialect.name == "postgresql":
        for key in sorted(keys):
            conn.execute(TURN, {"key": key})
