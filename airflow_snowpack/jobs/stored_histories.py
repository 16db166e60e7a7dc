"""The stored histories of actions, by table."""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.jobs.action_history import ActionHistory, ActionRecord
from airflow_snowpack.store import Store, row_mapper
from airflow_snowpack.store.tables.jobs import action_records

record_from = row_mapper(ActionRecord)


def read_histories(store: Store, tables: Collection[TableName]) -> dict[TableName, ActionHistory]:
    """Return the history of each table, in one statement per thousand."""
    named = {table.lock_key: table for table in tables}
    found: dict[str, dict[str, ActionRecord]] = {key: {} for key in named}
    for row in store.all_by_key(sa.select(action_records), action_records.c.table_key, named):
        found[row.table_key][row.action] = record_from(row)
    return {table: ActionHistory(found[key]) for key, table in named.items()}
