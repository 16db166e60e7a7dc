"""Taking turns: a transaction that counts places and takes one keeps others that count the same waiting until it has committed.

lock_keys(conn, ["dag:maintain_page_views", "pool:spark"])

The invariant: the keys of one transaction are locked in one order, so that no two can wait for each other. SQLite has one
writer at a time anyway.
"""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

# In the order of the numbers that are locked, not of the keys: two keys may have the same number.
TURNS = sa.text("""
SELECT count(pg_advisory_xact_lock(hashtext('airflow_snowpack_constraints'), number))
  FROM (SELECT DISTINCT hashtext(key) AS number FROM unnest(:keys) AS key ORDER BY number OFFSET 0) AS turn
""").bindparams(sa.bindparam("keys", type_=ARRAY(sa.Text)))


def lock_keys(conn: sa.Connection, keys: Iterable[str]) -> None:
    """Wait for each transaction that is about to take a place that one of these keys counts; the turns end with this one."""
    wanted = sorted(keys)
    if wanted and conn.dialect.name == "postgresql":
        conn.execute(TURNS, {"keys": wanted})
