"""A drop that fails, or is cut short, is tried again; and nothing but the table's own folder is ever deleted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse

import pytest
from clocks import MovedClock
from interim_lake import InterimLake, ReportedRuns, new_catalog
from pyiceberg.catalog.sql import SqlCatalog

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.iceberg.errors import CatalogUnreachable
from airflow_snowpack.interim.collection.collector import Collector
from airflow_snowpack.interim.collection.dropping import Folder, folder_of_namespace
from airflow_snowpack.interim.collection.sweeper import SweepKind, sweep
from airflow_snowpack.interim.model import TableState
from airflow_snowpack.interim.ownership import claim
from airflow_snowpack.interim.registry import Output

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.typedef import Identifier

DAY = timedelta(days=1)


@pytest.fixture
def interim_catalog(tmp_path: Path) -> Catalog:
    """A catalog that the test may break."""
    return new_catalog(tmp_path / "lake")


def folder_of(lake: InterimLake, name: str) -> Path:
    around = folder_of_namespace(lake.catalog, lake.registry.policy.namespace)
    assert around is not None
    return Path(urlparse(around.location).path) / name.rpartition(".")[2]


def test_a_drop_that_fails_keeps_its_row_and_is_tried_again(
    lake_of_tables: InterimLake, reported: ReportedRuns, clock: MovedClock, tmp_path: Path
) -> None:
    ref = lake_of_tables.handed_on("clean")
    other = lake_of_tables.handed_on("ingest")
    file = tmp_path / "lake" / "catalog.db"
    lake_of_tables.catalog.engine.dispose()  # type: ignore[attr-defined]  # a SQL catalog's
    away = file.rename(file.with_name("away.db"))
    file.mkdir()

    failed = lake_of_tables.collect(reported).failed

    assert {str(each.table.table) for each in failed} == {ref.table, other.table}
    [table, _] = lake_of_tables.registry.tables()
    assert (table.state, table.drops) == (TableState.DROPPING, 1)
    assert table.error is not None
    assert "catalog" in table.error
    assert lake_of_tables.collect(reported, later=timedelta(seconds=30)).failed == (), "it waits before it tries again"
    file.rmdir()
    away.rename(file)
    assert len(lake_of_tables.collect(reported, later=timedelta(minutes=1)).dropped) == 2
    assert lake_of_tables.tables() == set()
    reported.end()
    assert lake_of_tables.collect(reported).runs == 1
    assert lake_of_tables.collect(reported).runs == 0


@pytest.mark.one_database
def test_a_catalog_that_is_down_is_called_once_per_pass(
    lake_of_tables: InterimLake, reported: ReportedRuns, clock: MovedClock
) -> None:
    for number in range(3):
        lake_of_tables.handed_on(f"task{number}")
    asked = []

    def closed(name: str) -> Catalog:
        asked.append(name)
        raise CatalogUnreachable(name, OSError("closed"))

    clock.move(timedelta(hours=1))
    collected = Collector(lake_of_tables.registry, reported, closed).run()

    assert (len(collected.failed), asked) == (3, ["lake"])


def test_a_pass_finishes_what_a_killed_one_has_begun(
    lake_of_tables: InterimLake, reported: ReportedRuns, clock: MovedClock
) -> None:
    ref = lake_of_tables.handed_on("clean", with_rows=True)
    clock.move(timedelta(hours=1))
    collector_store = lake_of_tables.collector(reported)._collector_store
    [doomed] = collector_store.settle(lake_of_tables.collector(reported)._due.take(10), {}, 10)
    collector_store.locate(doomed, lake_of_tables.catalog.load_table(doomed.table.identifier).location())
    lake_of_tables.catalog.drop_table(doomed.table.identifier)
    folder = folder_of(lake_of_tables, ref.table)
    assert folder.is_dir()

    assert lake_of_tables.collect(reported, later=timedelta(minutes=1)).dropped == (), "it may be alive"
    assert len(lake_of_tables.collect(reported, later=timedelta(minutes=10)).dropped) == 1
    assert not folder.exists()


@pytest.mark.one_database
def test_the_files_of_a_write_that_never_created_its_table_go_too(lake_of_tables: InterimLake, reported: ReportedRuns) -> None:
    writing = lake_of_tables.begun("clean")
    folder = folder_of(lake_of_tables, str(writing.table))
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "part-0.parquet").write_bytes(b"half a write")
    reported.set("clean", "failed")

    assert len(lake_of_tables.collect(reported).dropped) == 1
    assert not folder.exists()


@pytest.mark.one_database
def test_a_table_in_another_folder_loses_its_own_files_and_nothing_beside_them(
    lake_of_tables: InterimLake, reported: ReportedRuns, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "shared"
    neighbour = elsewhere / "data" / "precious.parquet"
    neighbour.parent.mkdir(parents=True)
    neighbour.write_bytes(b"not ours")
    writing = lake_of_tables.begun("clean")
    table = lake_of_tables.catalog.create_table(
        writing.table.identifier, schema=lake_of_tables.rows().schema, location=f"file://{elsewhere}"
    )
    table.append(lake_of_tables.rows())
    lake_of_tables.registry.commit(Output(writing, None, 3), consumers=())

    assert len(lake_of_tables.collect(reported).dropped) == 1
    assert [file for file in elsewhere.rglob("*") if file.is_file()] == [neighbour]


def test_no_folder_is_deleted_that_is_not_called_like_an_interim_table(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not the folder of an interim table"):
        Folder(f"file://{tmp_path}").delete()
    assert tmp_path.is_dir()


@pytest.mark.one_database
def test_without_an_answer_of_airflow_nothing_is_dropped_and_it_is_queried_again_soon(
    lake_of_tables: InterimLake, reported: ReportedRuns
) -> None:
    ref = lake_of_tables.handed_on("clean", consumers=["report"])
    reported.silent = SnowpackError("Airflow does not answer.")
    with pytest.raises(SnowpackError, match="does not answer"):
        lake_of_tables.collect(reported)
    assert lake_of_tables.tables() == {ref.table}

    reported.silent = None
    reported.finish("report")
    assert len(lake_of_tables.collect(reported, later=timedelta(minutes=1)).dropped) == 1


def test_the_sweeper_takes_old_tables_and_folders_without_a_record_and_nothing_else(
    lake_of_tables: InterimLake, reported: ReportedRuns, clock: MovedClock
) -> None:
    claim(lake_of_tables.catalog, "lake", "snowpack_interim", lake_of_tables.registry.store.identity)
    known = lake_of_tables.handed_on("clean", consumers=["report"])
    stranger = lake_of_tables.begun("lost")
    lake_of_tables.create(stranger, with_rows=True)
    lake_of_tables.registry.abandon(stranger, "no")
    collector_store = lake_of_tables.collector(reported)._collector_store
    [doomed] = collector_store.take(1)
    collector_store.dropped(doomed)  # the row is gone, and then the write went through after all
    users = lake_of_tables.catalog.create_table(("snowpack_interim", "users_own"), schema=lake_of_tables.rows().schema)
    leftover = folder_of(lake_of_tables, "lost_rows_5f0c3a9e4b7d4c21a8f6")
    (leftover / "data").mkdir(parents=True)
    (leftover / "data" / "part-0.parquet").write_bytes(b"half a write")
    foreign = folder_of(lake_of_tables, "somebody_elses")
    foreign.mkdir()

    clock.now = clock.now.now(clock.now.tzinfo)  # files are as old as the machine's clock says
    assert sweep(lake_of_tables.registry, lake_of_tables.catalog, "lake") == [], "it is too young"
    clock.move(DAY + timedelta(minutes=1))
    planned = sweep(lake_of_tables.registry, lake_of_tables.catalog, "lake", dry_run=True)
    assert {(action.kind, action.name) for action in planned} == {
        (SweepKind.TABLE, stranger.table.table),
        (SweepKind.FOLDER, leftover.name),
    }
    assert leftover.exists()

    assert sweep(lake_of_tables.registry, lake_of_tables.catalog, "lake") == planned
    assert lake_of_tables.tables() == {known.table}
    assert lake_of_tables.catalog.table_exists(("snowpack_interim", "users_own"))
    assert not leftover.exists()
    assert not folder_of(lake_of_tables, str(stranger.table)).exists()
    assert foreign.exists()
    assert Path(urlparse(users.location()).path).exists()
    assert sweep(lake_of_tables.registry, lake_of_tables.catalog, "lake") == []


class SlowCatalog(SqlCatalog):
    """Something happens before each table is dropped."""

    before: Callable[[], None]

    def drop_table(self, identifier: str | Identifier) -> None:
        self.before()
        super().drop_table(identifier)


def slow(lake: InterimLake, before: Callable[[], None]) -> SlowCatalog:
    made = SlowCatalog("lake", **lake.catalog.properties)
    made.before = before
    return made


def test_the_lease_of_a_batch_of_drops_is_renewed_while_it_lasts(
    lake_of_tables: InterimLake, reported: ReportedRuns, clock: MovedClock
) -> None:
    for number in range(6):
        lake_of_tables.handed_on("clean", output=str(number))
    others: list[object] = []

    def four_minutes() -> None:
        clock.move(timedelta(minutes=4))
        others.extend(lake_of_tables.collector(reported).run().dropped)

    clock.move(timedelta(hours=2))
    collected = Collector(lake_of_tables.registry, reported, lambda _: slow(lake_of_tables, four_minutes)).run()

    assert len(collected.dropped) == 6
    assert others == [], "24 minutes of drops belong to one collector, although its lease is 10 minutes"


def test_a_collector_leaves_tables_that_another_one_has_taken_over(
    lake_of_tables: InterimLake, reported: ReportedRuns, clock: MovedClock
) -> None:
    for number in range(3):
        lake_of_tables.handed_on("clean", output=str(number))
    others: list[object] = []

    def an_hour() -> None:
        clock.move(timedelta(hours=1))
        others.extend(lake_of_tables.collector(reported).run().dropped)

    clock.move(timedelta(hours=2))
    collected = Collector(lake_of_tables.registry, reported, lambda _: slow(lake_of_tables, an_hour)).run()

    assert len(others) == 3
    assert len(collected.dropped) == 1, "the one that it was dropping when its lease ended"
