"""Which tables there are: as the catalog last said in full, whatever it says now.

Every operation of the inventory runs on both databases here. What only the catalog or a thread decides runs on SQLite alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from bounded import PATIENCE_S
from clocks import MovedClock
from rest_catalog import FakeRestCatalog, rest_catalog

from airflow_snowpack.iceberg import CatalogConfig, CatalogUnreachable, TableName, TableNotFound
from airflow_snowpack.inventory import Inventory, refresher
from airflow_snowpack.inventory.inventory import REFRESH_EVERY
from airflow_snowpack.store import Store, StoreUnreachable, open_store
from airflow_snowpack.store.tables.jobs import inventory_tables

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

WAIT_S = PATIENCE_S


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def store(store_url: str, clock: MovedClock) -> Iterator[Store]:
    with open_store(store_url, clock=clock) as store:
        yield store


@pytest.fixture
def catalog() -> Iterator[FakeRestCatalog]:
    with rest_catalog() as catalog:
        catalog.tables = {("db",): ["orders", "visits"], ("db", "eu"): ["orders"]}
        yield catalog


@pytest.fixture
def inventory(store: Store, catalog: FakeRestCatalog) -> Inventory:
    return another(store, catalog)


def another(store: Store, catalog: FakeRestCatalog) -> Inventory:
    """As another process has it."""
    config = CatalogConfig.rest("lake", catalog.url)
    return Inventory(store, "lake", lambda: config.load(limit=timedelta(seconds=0.2 if catalog.answer == "silence" else WAIT_S)))


def name(text: str) -> TableName:
    return TableName.parse(text, catalog="lake")


def dotted(inventory: Inventory, **which: str | int | None) -> list[str]:
    return [table.dotted for table in inventory.tables(**which)]  # type: ignore[arg-type]  # as the caller gives them


# -- refresh -----------------------------------------------------------------------------------------------------------


def test_a_new_inventory_knows_nothing_and_says_so(inventory: Inventory) -> None:
    assert inventory.tables() == []
    assert (inventory.state().tables, inventory.state().refreshed_at, inventory.state().problem) == (0, None, None)


def test_a_refresh_takes_over_what_the_catalog_lists(inventory: Inventory, clock: MovedClock) -> None:
    state = inventory.refresh()

    assert dotted(inventory) == ["db.eu.orders", "db.orders", "db.visits"]
    assert (state.tables, state.refreshed_at, state.tried_at, state.problem) == (3, clock.now, clock.now, None)


def test_a_table_that_was_dropped_goes_with_the_next_refresh_and_the_others_keep_when_they_were_first_seen(
    inventory: Inventory, catalog: FakeRestCatalog, clock: MovedClock, store: Store
) -> None:
    inventory.refresh()
    first = clock.now
    clock.now += timedelta(hours=1)
    catalog.tables = {("db",): ["visits", "clicks"]}
    assert inventory.has(name("db.orders")), "until then it is still there"
    inventory.refresh()

    seen = store.read(lambda conn: conn.execute(sa.select(inventory_tables.c.table_name, inventory_tables.c.first_seen_at)).all())
    assert {row.table_name: row.first_seen_at for row in seen} == {"visits": first, "clicks": clock.now}


@pytest.mark.one_database
def test_names_that_no_request_could_name_are_left_out(inventory: Inventory, catalog: FakeRestCatalog) -> None:
    catalog.tables = {("db",): ["orders", "my table", "x" * 300], ("my db",): ["orders"]}

    assert inventory.refresh().tables == 1


@pytest.mark.parametrize("answered", range(3))
def test_an_outage_of_the_catalog_at_any_request_leaves_every_table_and_is_remembered(
    inventory: Inventory, catalog: FakeRestCatalog, clock: MovedClock, answered: int
) -> None:
    before, refreshed_at = inventory.refresh(), clock.now
    clock.now += timedelta(hours=1)
    catalog.tables = {("db",): ["other"]}
    catalog.fail_after = len(catalog.requests) + answered

    with pytest.raises(CatalogUnreachable):
        inventory.refresh()
    state = inventory.state()
    assert dotted(inventory) == ["db.eu.orders", "db.orders", "db.visits"]
    assert (state.tables, state.refreshed_at, state.tried_at) == (before.tables, refreshed_at, clock.now)
    assert "cannot be reached" in (state.problem or "")

    catalog.fail_after = None
    assert inventory.refresh().problem is None
    assert dotted(inventory) == ["db.other"]


@pytest.mark.one_database
@pytest.mark.parametrize("answer", ["silence", "outage", "strange"])
def test_a_catalog_that_is_away_from_the_start_leaves_an_empty_inventory_with_its_problem(
    inventory: Inventory, catalog: FakeRestCatalog, answer: str
) -> None:
    catalog.answer = answer
    with pytest.raises(CatalogUnreachable):
        inventory.refresh()

    assert (inventory.state().tables, inventory.state().refreshed_at) == (0, None)
    assert "cannot be reached" in (inventory.state().problem or "")
    catalog.answer = "well"
    assert inventory.refresh().tables == 3


def test_a_listing_replaces_the_one_before_in_one_transaction(
    inventory: Inventory, catalog: FakeRestCatalog, store: Store
) -> None:
    inventory.refresh()
    catalog.tables = {("db",): ["other"]}
    with store.engine.begin() as conn:
        conn.exec_driver_sql("ALTER TABLE inventory_tables RENAME COLUMN first_seen_at TO seen_first")  # the insert will fail

    with pytest.raises(sa.exc.DBAPIError):
        inventory.refresh()
    assert inventory.has(name("db.orders"))
    assert not inventory.has(name("db.other"))


def test_two_catalogs_in_one_store_do_not_touch_each_other(store: Store, catalog: FakeRestCatalog) -> None:
    another(store, catalog).refresh()
    house = Inventory(store, "house", CatalogConfig.rest("house", catalog.url).load)
    catalog.tables = {("db",): ["chairs"]}
    house.refresh()

    assert dotted(house) == ["db.chairs"]
    assert len(another(store, catalog).tables()) == 3


# -- a table that is asked for -----------------------------------------------------------------------------------------


@pytest.mark.one_database
def test_a_table_that_the_inventory_has_is_there_without_a_word_to_the_catalog(
    inventory: Inventory, catalog: FakeRestCatalog
) -> None:
    inventory.refresh()
    catalog.answer = "outage"

    inventory.require(name("db.orders"))


def test_a_miss_asks_the_catalog_and_remembers(inventory: Inventory, catalog: FakeRestCatalog) -> None:
    inventory.refresh()
    catalog.tables[("db",)].append("brand_new")
    inventory.require(name("db.brand_new"))
    assert inventory.has(name("db.brand_new"))

    catalog.answer = "outage"
    inventory.require(name("db.brand_new"))


@pytest.mark.one_database
def test_a_table_that_neither_has_is_not_found_and_names_its_neighbours(inventory: Inventory) -> None:
    with pytest.raises(TableNotFound, match=r"db\.nowhere.*Its database has: db\.orders, db\.visits"):
        inventory.require(name("db.nowhere"))
    assert inventory.tables() == []


@pytest.mark.one_database
def test_a_miss_while_the_catalog_is_away_says_that_and_not_that_there_is_no_such_table(
    inventory: Inventory, catalog: FakeRestCatalog
) -> None:
    inventory.refresh()
    catalog.answer = "outage"

    with pytest.raises(CatalogUnreachable):
        inventory.require(name("db.nowhere"))


def test_twenty_who_ask_for_a_new_table_at_once_all_find_it(inventory: Inventory) -> None:
    together = Barrier(20)

    def ask(_number: int) -> None:
        together.wait(WAIT_S)
        inventory.require(name("db.eu.orders"))

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(ask, range(20)))
    assert dotted(inventory) == ["db.eu.orders"]


# -- lists of tables ---------------------------------------------------------------------------------------------------


def test_tables_are_listed_page_by_page_in_order_of_their_names(inventory: Inventory, catalog: FakeRestCatalog) -> None:
    catalog.tables = {("db",): [f"t{number}" for number in range(25)], ("Db",): ["T"], ("db_2",): ["t"]}
    inventory.refresh()
    seen: list[str] = []
    while page := dotted(inventory, after=seen[-1] if seen else None, limit=7):
        seen += page

    assert seen == dotted(inventory)
    assert len(set(seen)) == 27


def test_tables_are_found_by_a_part_of_their_name_as_it_is_written(inventory: Inventory, catalog: FakeRestCatalog) -> None:
    catalog.tables = {("db",): ["page_views", "pageviews", "PAGE-Views", "orders"], ("page",): ["orders"]}
    inventory.refresh()

    assert dotted(inventory, search="PAGE_V") == ["db.page_views"]
    assert dotted(inventory, search="page", database="page") == ["page.orders"]
    assert len(dotted(inventory, search="page")) == 4
    for text in ("%", "\\", "lake%", "a\x00b", "\ud800", "größe", "x" * 10_000):
        assert dotted(inventory, search=text) == dotted(inventory, database=text) == [], text
    assert dotted(inventory, search="lake.") == [], "the catalog is no part of what is searched"
    assert dotted(inventory, after="\x00\ud800") is not None


# -- several that share a store ----------------------------------------------------------------------------------------


def root_listings(catalog: FakeRestCatalog) -> int:
    return catalog.requests.count("/v1/namespaces")


def test_two_refreshers_share_the_period(store: Store, catalog: FakeRestCatalog, clock: MovedClock) -> None:
    one, two = (refresher(another(store, catalog)) for _ in range(2))
    for _ in range(8):  # each looks four times in a period
        one.run_once()
        two.run_once()
        clock.now += REFRESH_EVERY / 4

    assert root_listings(catalog) == 2


def test_of_many_whose_turn_it_is_at_once_one_lists_the_catalog(store: Store, catalog: FakeRestCatalog) -> None:
    together = Barrier(8)

    def look(inventory: Inventory) -> bool:
        together.wait(WAIT_S)
        return inventory.refresh_if_older()

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(look, [another(store, catalog) for _ in range(8)])) == 1
    assert root_listings(catalog) == 1


def test_after_a_listing_that_failed_the_next_look_tries_again(store: Store, catalog: FakeRestCatalog, clock: MovedClock) -> None:
    beside, inventory = refresher(another(store, catalog)), another(store, catalog)
    catalog.answer = "outage"
    beside.run_once()
    assert inventory.state().problem
    catalog.answer = "well"
    beside.run_once()
    assert inventory.state().problem, "not before its time"
    clock.now += REFRESH_EVERY / 4
    beside.run_once()

    assert (inventory.state().problem, inventory.state().tables) == (None, 3)


def test_a_first_listing_whose_process_was_killed_is_repeated_by_another(
    store: Store, catalog: FakeRestCatalog, clock: MovedClock
) -> None:
    def be_killed() -> Catalog:
        raise SystemExit

    with pytest.raises(SystemExit):
        Inventory(store, "lake", be_killed).refresh_if_older()
    inventory = another(store, catalog)
    assert not inventory.refresh_if_older(), "not before its time"
    clock.now += REFRESH_EVERY / 4

    assert inventory.refresh_if_older()
    assert inventory.state().tables == 3


def test_listings_at_the_same_moment_do_not_wait_for_each_other_in_a_ring(store: Store, catalog: FakeRestCatalog) -> None:
    catalog.tables = {("db",): [f"t{number}" for number in range(200)]}
    other = FakeRestCatalog()
    other.tables = {("db",): [f"t{number}" for number in reversed(range(100, 300))]}
    tables = [[TableName("lake", "db", t) for t in each.tables[("db",)]] for each in (catalog, other)]
    inventories = [another(store, catalog) for _ in range(4)]

    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            list(pool.map(lambda number: inventories[number]._replace(tables[number % 2], []), range(4)))
    if store.is_postgres:
        count = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        assert store.read(lambda conn: conn.exec_driver_sql(count).scalar_one()) == 0
    assert inventories[0].state().tables == 200


# -- in the background -------------------------------------------------------------------------------------------------


@pytest.mark.one_database
def test_a_started_refresher_refreshes_at_once_and_stops(store: Store, catalog: FakeRestCatalog) -> None:
    beside, inventory = refresher(another(store, catalog)), another(store, catalog)
    beside.start()
    deadline = time.monotonic() + WAIT_S
    while inventory.state().tables == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    beside.stop()

    assert inventory.state().tables == 3


@pytest.mark.one_database
@pytest.mark.parametrize("trouble", [CatalogUnreachable("lake", OSError("gone")), RuntimeError("a bug of somebody else's")])
def test_no_trouble_ends_the_background_thread(store: Store, trouble: Exception, caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> None:
        raise trouble

    refresher(Inventory(store, "lake", broken)).run_once()  # type: ignore[arg-type]  # it never gives a catalog
    assert "inventory_not_refreshed" in caplog.text


@pytest.mark.one_database
def test_a_store_that_is_away_does_not_end_it_either(
    store: Store, catalog: FakeRestCatalog, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_work: object) -> None:
        raise StoreUnreachable("somewhere", OSError("gone"))

    monkeypatch.setattr(store, "transact", away)
    refresher(another(store, catalog)).run_once()
    assert "store at somewhere cannot be reached" in caplog.text


# -- an embedded catalog -----------------------------------------------------------------------------------------------


@pytest.mark.one_database
def test_the_embedded_catalog_is_listed_with_its_nested_namespaces(store: Store, tmp_path: Path) -> None:
    from pyiceberg.schema import Schema

    config = CatalogConfig.embedded(tmp_path / "lake")
    sql = config.load()
    for namespace in ("db", "db.eu"):
        sql.create_namespace(namespace)
        sql.create_table(f"{namespace}.orders", Schema())
    inventory = Inventory(store, "lake", config.load)

    assert inventory.refresh().tables == 2
    assert dotted(inventory) == ["db.eu.orders", "db.orders"]


def test_tables_that_the_package_cannot_handle_are_counted_and_the_first_are_kept_with_their_reason(
    inventory: Inventory, catalog: FakeRestCatalog
) -> None:
    catalog.tables[("db",)] += [f"{number} totals" for number in range(60)]
    catalog.tables[("my db",)] = ["clicks"]
    state = inventory.refresh()

    assert (state.tables, state.left_out_count, len(state.left_out)) == (3, 61, 50)
    assert [each.name for each in state.left_out[:2]] == ["my db.*", "db.0 totals"], "a namespace stands for many tables"
    assert "must start with a letter or an underscore" in state.left_out[0].reason
    catalog.tables = {("db",): ["orders"]}
    assert inventory.refresh().left_out == ()
