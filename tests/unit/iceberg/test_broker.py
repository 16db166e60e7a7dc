"""Reading the tables of a catalog for all that wait: only what has changed is read, and one problem is that of one table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from threading import Barrier, Event, Semaphore, current_thread
from typing import TYPE_CHECKING, Any

import pytest
from bounded import PATIENCE_S
from counted_reads import counted_reads
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from rest_catalog import FakeRestCatalog, rest_catalog

from airflow_snowpack.iceberg import (
    CatalogConfig,
    CatalogUnreachable,
    TableName,
    TableNotFound,
    TableUnreadable,
    broker as broker_module,
)
from airflow_snowpack.iceberg.broker import CATALOG_LIMIT, KEEP_CATALOG, Broker, shared_broker
from airflow_snowpack.timed_calls import CONCURRENT_CALLS, NoAnswer

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))
NAMES = [TableName("lake", "db", name) for name in ("a", "b", "c")]
A, B, C = NAMES


def location(_: TableName, table: Table) -> str:
    return table.metadata_location


def read(broker: Broker, known: dict[TableName, Any], process: Callable[[TableName, Table], Any]) -> dict[TableName, Any]:
    return dict(broker.read(known, process))


@pytest.fixture
def tables(catalog: Catalog) -> dict[TableName, Table]:
    return {name: catalog.create_table(name.identifier, SCHEMA) for name in NAMES}


@pytest.fixture
def broker(catalog: Catalog) -> Broker:
    return Broker(lambda: catalog)


def change(table: Table) -> None:
    with table.transaction() as transaction:
        transaction.set_properties(comment="changed")


def test_a_round_over_a_sql_catalog_is_one_statement_and_reads_the_metadata_of_the_tables_that_have_changed(
    broker: Broker, tables: dict[TableName, Table]
) -> None:
    known: dict[TableName, Any] = read(broker, dict.fromkeys(NAMES), location)
    assert known == {name: table.metadata_location for name, table in tables.items()}

    with counted_reads() as reads:
        assert read(broker, known, location) == dict.fromkeys(NAMES)
    assert (len(reads.of_catalog), reads.metadata) == (1, [])

    change(tables[B])
    with counted_reads() as reads:
        assert read(broker, known, location) == {A: None, B: tables[B].metadata_location, C: None}
    assert (len(reads.of_catalog), reads.metadata) == (1, [tables[B].metadata_location])


def test_a_table_whose_metadata_file_may_be_written_again_is_always_read(
    broker: Broker, catalog: Catalog, tables: dict[TableName, Table]
) -> None:
    file = Path(tables[A].metadata_location.removeprefix("file://"))
    copy = file.with_name("v3.metadata.json")
    copy.write_bytes(file.read_bytes())
    catalog.drop_table(A.identifier)
    catalog.register_table(A.identifier, f"file://{copy}")
    known = {A: f"file://{copy}"}
    assert read(broker, known, location) == known


def test_a_table_that_cannot_be_read_keeps_no_other_from_being_read(
    broker: Broker, catalog: Catalog, tables: dict[TableName, Table]
) -> None:
    catalog.drop_table(A.identifier)
    Path(tables[B].metadata_location.removeprefix("file://")).unlink()
    found = read(broker, dict.fromkeys(NAMES), location)
    assert isinstance(found[A], TableNotFound)
    assert "Its database has: db.b, db.c" in str(found[A])
    assert isinstance(found[B], TableUnreadable)
    assert found[C] == tables[C].metadata_location


@pytest.mark.parametrize("number", [1, 10])
def test_tables_that_do_not_exist_cost_the_same_whatever_their_number(
    broker: Broker, tables: dict[TableName, Table], number: int
) -> None:
    missing = [TableName("lake", "db", f"gone{each}") for each in range(number)]
    with counted_reads() as reads:
        found = read(broker, dict.fromkeys(missing), location)
    assert all(isinstance(problem, TableNotFound) for problem in found.values())
    assert len(reads.of_catalog) <= 3, "the locations, whether the database exists, and its tables for the message"


def test_what_fails_for_one_table_is_returned_for_that_table(broker: Broker, tables: dict[TableName, Table]) -> None:
    def process(name: TableName, table: Table) -> str:
        if name == B:
            raise ValueError("a damaged manifest")
        return location(name, table)

    found = read(broker, dict.fromkeys(NAMES), process)
    assert [str(found[name]) for name in NAMES] == [
        tables[A].metadata_location,
        "a damaged manifest",
        tables[C].metadata_location,
    ]


def test_a_table_is_there_as_soon_as_it_is_read_while_another_takes_long(broker: Broker, tables: dict[TableName, Table]) -> None:
    a_is_there = Event()

    def process(name: TableName, table: Table) -> str:
        assert name != B or a_is_there.wait(PATIENCE_S)
        return location(name, table)

    found = {}
    for name, result in broker.read({A: None, B: None}, process):
        found[name] = result
        if name == A:
            a_is_there.set()
    assert found == {name: tables[name].metadata_location for name in (A, B)}


def test_several_tables_are_read_at_a_time_and_no_more_than_the_bound(broker: Broker, catalog: Catalog) -> None:
    names = [TableName("lake", "db", f"t{number}") for number in range(2 * CONCURRENT_CALLS)]
    for name in names:
        catalog.create_table(name.identifier, SCHEMA)
    together, reading, most = Barrier(CONCURRENT_CALLS), Semaphore(CONCURRENT_CALLS), []

    def process(name: TableName, table: Table) -> None:
        assert reading.acquire(blocking=False), "more are read than the bound"
        together.wait(PATIENCE_S)
        assert current_thread().daemon, "a storage that hangs would keep the process from ending"
        most.append(name)
        reading.release()

    assert read(broker, dict.fromkeys(names), process) == dict.fromkeys(names)
    assert len(most) == len(names)


def test_awaited_tables_are_read_once_for_all_that_wait_and_forgotten_when_the_last_one_leaves(
    broker: Broker, tables: dict[TableName, Table]
) -> None:
    with broker.waiting_for(frozenset([A])):
        with counted_reads() as reads, broker.waiting_for(frozenset([A, B])):
            first = dict(broker.tables([A, B]))
            again = dict(broker.tables([A, B]))
        assert first == again
        assert len(reads.metadata) == 2
        with counted_reads() as reads:
            dict(broker.tables([A, B]))
        assert reads.metadata == [tables[B].metadata_location], "nothing waits for it any more"
    with counted_reads() as reads:
        dict(broker.tables([A]))
    assert len(reads.metadata) == 1


def test_a_catalog_is_connected_to_again_after_a_while_and_after_an_outage(catalog: Catalog, tables: Any) -> None:
    connected: list[float] = []
    now, is_up = 0.0, True

    def load() -> Catalog:
        connected.append(now)
        if not is_up:
            raise CatalogUnreachable("lake", ConnectionError("no route"))
        return catalog

    broker = Broker(load, monotonic=lambda: now)
    for now in (0.0, 1.0, KEEP_CATALOG / timedelta(seconds=1) + 2):  # noqa: B007 - the broker's clock
        dict(broker.tables(NAMES))
    assert len(connected) == 2

    now, is_up = 2 * now, False
    for _ in range(2):
        with pytest.raises(CatalogUnreachable):
            dict(broker.tables(NAMES))
    is_up = True
    assert not any(isinstance(table, Exception) for table in dict(broker.tables(NAMES)).values())
    assert len(connected) == 5


def test_a_process_has_one_broker_for_a_catalog_until_the_last_one_leaves_it(tmp_path: Path) -> None:
    lake, other = CatalogConfig.embedded(tmp_path / "lake"), CatalogConfig.embedded(tmp_path / "other")
    with shared_broker(lake) as one:
        with shared_broker(CatalogConfig.embedded(tmp_path / "lake")) as same, shared_broker(other) as another:
            assert same is one
            assert another is not one
        with shared_broker(lake) as still:
            assert still is one
    with shared_broker(lake) as new:
        assert new is not one


@pytest.fixture
def rest() -> Iterator[FakeRestCatalog]:
    with rest_catalog() as catalog:
        catalog.tables = {("db",): ["a", "b", "c"]}
        yield catalog


def requests_of(rest: FakeRestCatalog) -> list[str]:
    found = sorted(request.removeprefix("/v1/namespaces/db/tables/") for request in rest.requests if "/tables/" in request)
    rest.requests.clear()
    return found


def test_a_round_over_a_rest_catalog_loads_all_snapshots_of_the_tables_that_have_changed(rest: FakeRestCatalog) -> None:
    config = CatalogConfig.rest("lake", rest.url, properties={"snapshot-loading-mode": "refs"})
    broker = Broker(config.load)
    known: dict[TableName, Any] = read(broker, dict.fromkeys(NAMES), location)
    assert requests_of(rest) == ["a?snapshots=all", "b?snapshots=all", "c?snapshots=all"]

    assert read(broker, known, location) == dict.fromkeys(NAMES)
    assert requests_of(rest) == ["a?snapshots=refs", "b?snapshots=refs", "c?snapshots=refs"]

    rest.commits["b"] = 1
    found = read(broker, known, location)
    assert (found[A], found[C]) == (None, None)
    assert found[B] not in (None, known[B])
    assert requests_of(rest) == ["a?snapshots=refs", "b?snapshots=all", "b?snapshots=refs", "c?snapshots=refs"]


def test_an_outage_of_a_rest_catalog_is_one_error_and_not_one_for_each_table(rest: FakeRestCatalog) -> None:
    broker = Broker(CatalogConfig.rest("lake", rest.url).load)
    rest.tables["db",].remove("b")
    found = read(broker, dict.fromkeys(NAMES), location)
    assert isinstance(found[B], TableNotFound)

    rest.answer = "outage"
    with pytest.raises(CatalogUnreachable):
        dict(broker.tables([A, C]))


class TickingClock:
    """Moves a second each time that it is read, and by hours when a test moves it: no call exceeds its limit by itself."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now

    def pass_limits(self) -> None:
        self.now += 3600


@pytest.mark.parametrize("stage", ["its metadata", "its manifests"])
def test_tables_whose_storage_hangs_delay_no_other_and_are_set_aside(
    catalog: Catalog, tables: dict[TableName, Table], stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than are read at a time, in the round, in the rounds after it, and for those who wait for tables."""
    names = [TableName("lake", "db", f"stuck{number}") for number in range(CONCURRENT_CALLS + 1)]
    stuck = {catalog.create_table(name.identifier, SCHEMA).metadata_location: name for name in names}
    released, clock, attempts = Event(), TickingClock(), []
    read_metadata = broker_module._read_metadata

    def hang(location: str) -> None:
        if location in stuck:
            attempts.append(location)
            assert released.wait(PATIENCE_S)

    def open_table(catalog: Any, name: TableName, location: str) -> Table:
        if stage == "its metadata":
            hang(location)
        return read_metadata(catalog, name, location)

    def process(name: TableName, table: Table) -> str:
        hang(table.metadata_location)
        return location(name, table)

    monkeypatch.setattr(broker_module, "_read_metadata", open_table)
    broker, found = Broker(lambda: catalog, monotonic=clock), dict[TableName, Any]()
    reads = broker.reads(limit=timedelta(days=1))
    try:
        for _ in range(2):
            found = {}
            for name, result in broker.read(dict.fromkeys([*names, *NAMES]), process, reads):
                found[name] = result
                if tables.keys() <= found.keys() and not found.keys() & set(names):
                    clock.now += 24 * 3600
            assert {name: found[name] for name in NAMES} == {name: each.metadata_location for name, each in tables.items()}
            assert {type(found[name]) for name in names} == {NoAnswer}
            assert len(attempts) == len(names), "one that is set aside is not read again"
        assert "The storage of db.stuck0 did not answer within 1 d. It is set aside" in str(found[names[0]])
    finally:
        released.set()


def test_a_catalog_that_hangs_keeps_no_reader_and_is_asked_again_after_a_pause(catalog: Catalog, tables: Any) -> None:
    released, connected, clock = Event(), list[float](), TickingClock()

    def load() -> Catalog:
        connected.append(clock.now)
        if len(connected) == 1:
            clock.now += CATALOG_LIMIT.total_seconds()
            assert released.wait(PATIENCE_S)
        return catalog

    broker = Broker(load, monotonic=clock)
    try:
        for _ in range(2):
            with pytest.raises(CatalogUnreachable, match="'lake' cannot be reached: NoAnswer: The catalog did"):
                dict(broker.tables(NAMES))
            assert len(connected) == 1
        clock.pass_limits()
        assert dict(broker.tables(NAMES)).keys() == set(NAMES)
    finally:
        released.set()
