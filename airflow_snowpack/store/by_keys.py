"""Reads the rows of many keys in few statements.

rows = read_by_keys(store, sa.select(jobs), jobs.c.job_id, job_ids)
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.store.store import Store
from airflow_snowpack.store.text import storable

KEYS_PER_STATEMENT = 1_000
"""Far below the number of parameters that either database allows."""


def read_by_keys(store: Store, query: sa.Select[Any], column: sa.ColumnElement[str], keys: Collection[str]) -> list[sa.Row[Any]]:
    """Return the rows of a query whose column has one of these values, in one statement for each thousand of them."""
    wanted = sorted({storable(key) for key in keys})
    parts = [wanted[start : start + KEYS_PER_STATEMENT] for start in range(0, len(wanted), KEYS_PER_STATEMENT)]
    return store.read(lambda conn: [row for some in parts for row in conn.execute(query.where(column.in_(some)))])
