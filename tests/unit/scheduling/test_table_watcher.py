"""A watcher passes on what arrives in a real table, and says what it could not read any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_snowpack import triggers
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.scheduling.sources.consumer import WatchedTable
from airflow_snowpack.store import Store, open_store

if TYPE_CHECKING:
    from pyiceberg.table import Table

KWARGS = {"table": "db.flights", "watcher": "w", "poll_seconds": 60, "store_conn_id": None, "catalog_conn_id": None}
NAME = TableName("lake", "db", "flights")


@pytest.fixture(autouse=True)
def _airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings that lead to the catalog of the test, and Airflow, which sets up logging as it is imported, for ``caplog``."""
    monkeypatch.setenv("AIRFLOW__SNOWPACK__HOME", str(tmp_path / "lake"))
    import airflow_snowpack.triggers.table_watcher  # noqa: F401


@pytest.fixture
def store(sqlite_url: str) -> Iterator[Store]:
    with open_store(sqlite_url) as store:
        yield store


@pytest.fixture
def watch(store: Store) -> Callable[[], WatchedTable]:
    """A watcher in a new process."""
    return lambda: WatchedTable(store, "w", NAME)


def add(table: Table, month: int) -> int:
    table.append(pa.table({"month": pa.array([month], pa.int64()), "carrier": ["UA"]}))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


def events(watched: WatchedTable, number: int) -> list[tuple[dict[str, Any], Any]]:
    """So many from the watcher's stream."""
    producer = triggers.ArrivalProducer(KWARGS)
    producer._watched = watched

    async def take() -> list[tuple[dict[str, Any], Any]]:
        stream, found = producer.open_stream(), []
        async for event in stream:
            found.append(event)
            if len(found) == number:
                break
        await stream.aclose()  # type: ignore[attr-defined]  # it is an asynchronous generator
        return found

    return asyncio.run(take())


def test_it_tells_the_snapshots_that_were_expired_before_they_could_be_read(
    flights: Callable[..., Table], watch: Callable[[], WatchedTable], caplog: pytest.LogCaptureFixture
) -> None:
    table = flights(1)
    assert watch().read(table).new == ()
    lost = add(table, 2)
    add(table, 3)
    add(table, 4)
    table.maintenance.expire_snapshots().by_id(lost).commit()

    (first, place), (second, _) = events(watch(), 2)
    assert (first["expired_before"], "expired_before" in second) == (1, False)
    assert "snapshots_expired_unread: 1 of lake.db.flights" in caplog.text

    watched = watch()
    watched.advance(place)
    ((after, _),) = events(watch(), 1)
    assert after == second, "what was passed on is not told again"


def test_nothing_is_said_where_nothing_was_lost(flights: Callable[..., Table], watch: Callable[[], WatchedTable]) -> None:
    table = flights(1)
    watch().read(table)
    add(table, 2)
    ((event, _),) = events(watch(), 1)
    assert "expired_before" not in event
    assert event["added_records"] == 1
