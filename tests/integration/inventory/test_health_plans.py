"""With the health of ten thousand tables in the store, no statement about some of them walks over all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import sqlalchemy as sa
from made_health import READ_AT, made_health
from query_plans import scans, sent_by

from airflow_snowpack.iceberg import HealthBounds, TableName
from airflow_snowpack.installation import Installation
from airflow_snowpack.store import Store, open_store
from airflow_snowpack.store.tables.health import table_health, table_health_history

MANY = 10_000
NUMBERS = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {MANY})"
KNOWN = TableName("lake", "db", "known")


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with open_store(store_url, clock=lambda: READ_AT) as store:
        yield store


def test_no_statement_about_a_table_walks_over_all_tables(store: Store) -> None:
    records = Installation(store).health_records
    records.put(KNOWN, made_health())
    for table in (table_health, table_health_history):
        others = ", ".join(column.name for column in table.columns if column.name != "table_key")
        fill = f"INSERT INTO {table.name} (table_key, {others}) {NUMBERS} SELECT 'many' || i, {others} FROM n, {table.name}"
        store.execute(sa.text(fill))

    def lives() -> None:
        other = replace(KNOWN, table="other")
        records.put(other, made_health())
        records.put(other, made_health(read_at=READ_AT.replace(hour=4)))
        assert len(records.get([KNOWN, other])) == 2
        assert records.current(KNOWN, made_health().metadata_location, HealthBounds())
        assert len(records.history(other, 30)) == 2
        records.unreadable(other, "", "gone")

    sent = sent_by(store, lives)
    tables = [table_health.name, table_health_history.name]
    assert scans(store, sent, tables) == []
    store.transact(lambda conn: conn.exec_driver_sql("ANALYZE"))
    assert scans(store, sent, tables) == [], "and with statistics"
