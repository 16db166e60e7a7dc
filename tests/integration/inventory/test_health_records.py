"""Stored health: what is kept of each table and of its past, and when it can be used instead of reading the table."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
import sqlalchemy as sa
from clocks import MovedClock
from counted_reads import counted_reads
from made_health import READ_AT, made_health, made_partition

from airflow_snowpack.iceberg import CatalogConfig, HealthBounds, TableName, TableUnreadable
from airflow_snowpack.iceberg.health import score
from airflow_snowpack.iceberg.health.encoding import decode, encode
from airflow_snowpack.installation import Installation, retained_rows
from airflow_snowpack.inventory import HealthRecords
from airflow_snowpack.maintenance.fleet.model import PlannedTable
from airflow_snowpack.maintenance.fleet.passes import FleetPasses
from airflow_snowpack.maintenance.policies import PoliciesFile
from airflow_snowpack.store import Store, open_store
from airflow_snowpack.store.retention import Pruner
from airflow_snowpack.store.tables.health import table_health, table_health_history

if TYPE_CHECKING:
    from pyiceberg.table import Table

TABLE = TableName("lake", "db", "flights")
DAY = timedelta(days=1)


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock(READ_AT)


@pytest.fixture
def store(store_url: str, clock: MovedClock) -> Iterator[Store]:
    with open_store(store_url, clock=clock) as store:
        yield store


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table of two commits, with a manifest each."""
    catalog = CatalogConfig.embedded(tmp_path).load()
    catalog.create_namespace("db")
    rows = pa.table({"month": [1]})
    table = catalog.create_table("db.flights", rows.schema)
    table.append(rows)
    table.append(rows)
    return table


@pytest.fixture
def records(store: Store) -> HealthRecords:
    return Installation(store).health_records


def test_health_is_the_same_after_it_was_stored(records: HealthRecords) -> None:
    health = made_health(
        bounds=HealthBounds(target_file_size_bytes=64, delete_ratio_threshold=0.3),
        partitions=(
            made_partition(values=(None, "NaN", "2026"), label='a=null/b=NaN/c="é\x00', newest_at=None),
            made_partition(spec_id=1),
        ),
        properties={"write.format.default": "parquet", "snowpack.skip": "frozen \N{SNOWFLAKE}"},
        expirable_bytes=12,
    )

    records.put(TABLE, health)

    record = records.get([TABLE])[TABLE]
    assert record.health is not None
    assert record.health.bounds == health.bounds
    assert record.health == replace(health, partitions=record.health.partitions)
    assert record.health.partitions[0].values == (None, "NaN", "2026")
    assert (record.read_at, record.metadata_location, record.problem) == (READ_AT, health.metadata_location, None)
    assert decode(encode(health)) == health


def test_health_of_many_tables_is_one_statement(records: HealthRecords, store: Store) -> None:
    tables = [TableName("lake", "db", f"t{number}") for number in range(3)]
    for table in tables:
        records.put(table, made_health(table=table.dotted))

    statements: list[str] = []
    sa.event.listen(store.engine, "before_cursor_execute", lambda *heard: statements.append(heard[2]))
    found = records.get([*tables, TableName("lake", "db", "missing")])

    assert len(statements) == 1
    assert {table: record.health.table for table, record in found.items() if record.health} == {
        table: table.dotted for table in tables
    }


def test_tables_of_two_catalogs_of_one_name_have_health_of_their_own(records: HealthRecords) -> None:
    other = replace(TABLE, catalog_id="0badcafe")
    records.put(TABLE, made_health())

    assert records.get([other]) == {}


def test_stored_health_is_used_for_the_same_metadata_and_bounds(records: HealthRecords) -> None:
    health = made_health()
    records.put(TABLE, health)

    assert records.current(TABLE, health.metadata_location, HealthBounds()).health == health
    assert records.current(TABLE, "file:///lake/db/flights/metadata/00002.metadata.json", HealthBounds()) is None
    assert records.current(TABLE, health.metadata_location, HealthBounds(delete_file_threshold=3)) is None
    assert records.current(replace(TABLE, table="other"), health.metadata_location, HealthBounds()) is None


def test_health_of_another_format_counts_as_not_stored(records: HealthRecords, store: Store) -> None:
    health = made_health()
    records.put(TABLE, health)
    store.execute(sa.update(table_health).values(format=0, document="{}"))

    assert records.get([TABLE]) == {}
    assert records.current(TABLE, health.metadata_location, HealthBounds()) is None


def test_a_table_that_cannot_be_read_keeps_the_reason(records: HealthRecords) -> None:
    health = made_health()
    records.put(TABLE, health)

    records.unreadable(TABLE, health.metadata_location, "The manifest s3://lake/m1.avro does not exist.")

    record = records.get([TABLE])[TABLE]
    assert (record.health, record.score) == (None, None)
    assert record.problem == "The manifest s3://lake/m1.avro does not exist."
    assert records.current(TABLE, health.metadata_location, HealthBounds()) is None


def test_a_table_that_can_be_read_again_loses_its_problem(records: HealthRecords) -> None:
    records.unreadable(TABLE, "", "The catalog does not answer.")

    records.put(TABLE, made_health())

    record = records.get([TABLE])[TABLE]
    assert record.problem is None
    assert record.score is not None
    assert record.score.total == 100


def test_health_that_was_read_earlier_does_not_replace_newer_health(records: HealthRecords) -> None:
    records.put(TABLE, made_health(read_at=READ_AT, data_files=20))

    records.put(TABLE, made_health(read_at=READ_AT - timedelta(seconds=1), data_files=10))

    record = records.get([TABLE])[TABLE]
    assert record.health is not None
    assert record.health.data_files == 20
    assert [point.data_files for point in records.history(TABLE, 30)] == [20]


def test_the_history_has_the_numbers_of_each_health(records: HealthRecords, clock: MovedClock) -> None:
    for hours, files in ((0, 10), (1, 12), (30, 14)):
        clock.now = READ_AT + timedelta(hours=hours)
        records.put(TABLE, made_health(read_at=clock.now, data_files=files))

    assert [(each.read_at, each.data_files) for each in records.history(TABLE, 30)] == [
        (READ_AT, 10),
        (READ_AT + timedelta(hours=1), 12),
        (READ_AT + timedelta(hours=30), 14),
    ]
    assert [each.data_files for each in records.history(TABLE, 1)] == [14]
    assert records.history(replace(TABLE, table="other"), 30) == []


def test_days_older_than_thirty_keep_their_last_row(records: HealthRecords, clock: MovedClock) -> None:
    first_day = datetime(2026, 1, 1, tzinfo=UTC)
    for day in range(40):
        for hour in (1, 13, 23):
            clock.now = first_day + timedelta(days=day, hours=hour)
            records.put(TABLE, made_health(read_at=clock.now))

    kept = [point.read_at for point in records.history(TABLE, 60)]

    since = clock.now - 30 * DAY
    assert [at for at in kept if at < since] == [first_day + timedelta(days=day, hours=23) for day in range(9)]
    assert len([at for at in kept if at >= since]) == 3 * 30 + 1


def test_thinning_leaves_other_tables_alone(records: HealthRecords, clock: MovedClock) -> None:
    other = replace(TABLE, table="other")
    for hours in (0, 1):
        records.put(other, made_health(read_at=READ_AT + timedelta(hours=hours)))
    clock.now = READ_AT + 60 * DAY

    records.put(TABLE, made_health(read_at=clock.now))

    assert len(records.history(other, 100)) == 2


def test_an_unchanged_table_is_never_read_again(records: HealthRecords, table: Table) -> None:
    with counted_reads() as reads:
        first = records.read(TABLE, table)
    assert len(reads.manifests) == 2

    with counted_reads() as reads:
        again = records.read(TABLE, table)

    assert reads.manifests == []
    assert again == first
    assert (again.data_files, records.get([TABLE])[TABLE].score) == (2, score(first))


def test_a_changed_table_is_read_again(records: HealthRecords, table: Table) -> None:
    records.read(TABLE, table)
    table.append(table.scan().to_arrow())

    with counted_reads() as reads:
        health = records.read(TABLE, table)

    assert len(reads.manifests) == 3
    assert health.metadata_location == table.metadata_location
    assert [point.data_files for point in records.history(TABLE, 1)] == [3]  # both were read at the same time of this clock


def test_other_bounds_are_read_again_unless_any_will_do(records: HealthRecords, table: Table) -> None:
    tiny = HealthBounds(target_file_size_bytes=10)
    records.read(TABLE, table, tiny)

    with counted_reads() as reads:
        shown = records.read(TABLE, table)
    assert (reads.manifests, shown.bounds) == ([], tiny)

    with counted_reads() as reads:
        read = records.read(TABLE, table, HealthBounds())
    assert (len(reads.manifests), read.bounds) == (2, HealthBounds())


def test_a_metadata_file_whose_name_may_be_written_again_is_always_read(records: HealthRecords, table: Table) -> None:
    """As Hadoop catalogs and tables that were registered by hand have them."""
    reused = Path(table.location().removeprefix("file://")) / "metadata" / "v1.metadata.json"
    for data_files in (2, 3):
        shutil.copy(table.metadata_location.removeprefix("file://"), reused)
        registered = table.catalog.register_table("db.registered", f"file://{reused}")

        assert records.read(TABLE, registered).data_files == data_files

        table.catalog.drop_table("db.registered")
        table.append(pa.table({"month": [1]}))


def test_a_table_that_is_shown_is_read_as_its_policy_plans_it_and_not_once_more(
    store: Store, table: Table, tmp_path: Path
) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text("default: {actions: {rewrite_data_files: {options: {target_file_size_bytes: 1000000}}}}")
    installation = Installation(store, policies_file=PoliciesFile(file))

    shown = installation.read_health(TABLE, table)
    with counted_reads() as reads:
        installation.planner().plan(table, TABLE)
    file.write_text("default: 5")

    assert shown.bounds.target_file_size_bytes == 1_000_000
    assert reads.manifests == []
    assert installation.read_health(TABLE, table) == shown


def test_a_missing_manifest_is_stored_as_the_reason(records: HealthRecords, table: Table) -> None:
    snapshot = table.current_snapshot()
    manifest = snapshot.manifests(table.io)[0].manifest_path
    Path(manifest.removeprefix("file://")).unlink()

    with pytest.raises(TableUnreadable, match=Path(manifest).name):
        records.read(TABLE, table)

    problem = records.get([TABLE])[TABLE].problem
    assert problem is not None
    assert Path(manifest).name in problem


def test_old_health_is_pruned_unless_a_pass_over_the_fleet_still_takes_it_for_that_of_now(
    records: HealthRecords, store: Store, clock: MovedClock
) -> None:
    old, unchanged, new = replace(TABLE, table="old"), replace(TABLE, table="unchanged"), TABLE
    for table in (old, unchanged):
        records.put(table, made_health(read_at=READ_AT))
    FleetPasses(store).remember([PlannedTable(unchanged, "v1", "policy", needs_work=False)])
    clock.now = READ_AT + 200 * DAY
    records.put(new, made_health(read_at=clock.now))

    rows = Pruner(store, retained_rows(store), older_than=180 * DAY).run(sleep=lambda _: None)

    assert (rows["table_health"], rows["table_health_history"]) == (1, 2)
    assert records.get([old, unchanged, new]).keys() == {unchanged, new}
    assert store.scalar(sa.select(sa.func.count()).select_from(table_health_history)) == 1


def test_of_many_who_store_health_at_once_the_newest_stays(records: HealthRecords, store: Store) -> None:
    readings = [made_health(read_at=READ_AT + timedelta(minutes=minute), data_files=minute) for minute in range(24)]
    random.Random(18).shuffle(readings)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda health: records.put(TABLE, health), readings))

    stored = records.get([TABLE])[TABLE].health
    assert stored.data_files == 23
    last = sa.select(table_health_history.c.data_files).where(table_health_history.c.last_of_day)
    assert [row.data_files for row in store.all(last)] == [23]
