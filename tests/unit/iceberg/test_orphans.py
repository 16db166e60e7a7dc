"""Orphans are what no metadata names, and no other table owns."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyarrow.fs import FileInfo, FileType

from airflow_snowpack.iceberg import LocationOutsideTable, Relation, TableName, TableNotFound, find_orphans, location_conflicts
from airflow_snowpack.iceberg.orphans import _stored, inner_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    Flights = Callable[..., Table]

LATER = datetime.now(UTC) + timedelta(days=365)


def folder(table: Table) -> Path:
    return Path(table.location().removeprefix("file://"))


def litter(table: Table, path: str, text: str = "left behind", *, age: timedelta = timedelta(0)) -> Path:
    file = folder(table) / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    moment = (datetime.now(UTC) - age).timestamp()
    os.utime(file, (moment, moment))
    return file


def test_a_table_as_its_commits_left_it_has_no_orphans(flights: Flights) -> None:
    table = flights(3, 4)
    table.delete("month = 3")

    assert find_orphans(table, older_than=LATER) == ()


def test_a_file_that_nobody_names_is_an_orphan_with_its_size(flights: Flights) -> None:
    table = flights(3)
    stray = litter(table, "data/month=3/stray.parquet", "12345")

    (orphan,) = find_orphans(table, older_than=LATER)

    assert orphan.path == f"file://{stray}"
    assert orphan.bytes == 5


def test_a_young_file_may_belong_to_a_commit_on_its_way(flights: Flights) -> None:
    table = flights(3)
    litter(table, "data/young.parquet", age=timedelta(days=2))
    old = litter(table, "data/old.parquet", age=timedelta(days=4))

    orphans = find_orphans(table, older_than=datetime.now(UTC) - timedelta(days=3))

    assert [orphan.path for orphan in orphans] == [f"file://{old}"]


def test_files_of_old_snapshots_are_not_orphans(flights: Flights) -> None:
    table = flights(3, 3)
    table.delete("month = 3")
    assert not list(table.scan().plan_files())

    assert find_orphans(table, older_than=LATER) == ()


def test_hidden_files_are_left_alone_as_iceberg_does(flights: Flights) -> None:
    table = flights(3)
    litter(table, "data/.part.parquet.crc")
    litter(table, "_temporary/0/part.parquet")

    assert find_orphans(table, older_than=LATER) == ()


def test_a_folder_inside_the_table_narrows_the_search(flights: Flights) -> None:
    table = flights(3)
    litter(table, "data/stray.parquet")
    litter(table, "metadata/stray.avro")

    orphans = find_orphans(table, older_than=LATER, location=f"{folder(table)}/metadata")

    assert [Path(orphan.path).name for orphan in orphans] == ["stray.avro"]


def test_a_folder_around_the_table_is_refused(flights: Flights) -> None:
    table = flights(3)

    for outside in (str(folder(table).parent), f"{folder(table)}_2", f"{folder(table)}/../other"):
        with pytest.raises(LocationOutsideTable, match="is not inside the location of table"):
            find_orphans(table, older_than=LATER, location=outside)


def test_tables_side_by_side_do_not_conflict(flights: Flights, catalog: Catalog) -> None:
    flights(3, name="flights")
    flights(3, name="flights_2")

    assert location_conflicts(catalog, TableName.parse("db.flights", catalog="lake")) == ()


@pytest.mark.parametrize(("below", "relation"), [("", Relation.SAME), ("/archive", Relation.INSIDE), ("/..", Relation.AROUND)])
def test_a_table_that_shares_or_nests_is_named(flights: Flights, catalog: Catalog, below: str, relation: Relation) -> None:
    table = flights(3)
    # Written as Hadoop writes it, so that only a comparison of places finds it.
    flights(name="other", location=f"file:{folder(table)}{below}")

    (conflict,) = location_conflicts(catalog, TableName.parse("db.flights", catalog="lake"))

    assert (conflict.table, conflict.relation) == ("db.other", relation)


def test_a_table_that_writes_its_data_elsewhere_conflicts_there_too(flights: Flights, catalog: Catalog) -> None:
    table = flights(3)
    flights(name="other", properties={"write.data.path": f"{table.location()}/guests"})

    (conflict,) = location_conflicts(catalog, TableName.parse("db.flights", catalog="lake"))

    assert conflict.relation is Relation.INSIDE


def test_tables_of_other_and_nested_databases_are_looked_at(flights: Flights, catalog: Catalog) -> None:
    table = flights(3)
    catalog.create_namespace("db.deep")
    catalog.create_table("db.deep.copy", table.schema(), location=table.location())

    (conflict,) = location_conflicts(catalog, TableName.parse("db.flights", catalog="lake"))

    assert conflict.table == "db.deep.copy"


def test_a_table_that_cannot_be_read_counts_as_a_conflict(flights: Flights, catalog: Catalog) -> None:
    flights(3)
    broken = flights(name="broken")
    os.remove(broken.metadata_location.removeprefix("file://"))

    (conflict,) = location_conflicts(catalog, TableName.parse("db.flights", catalog="lake"))

    assert conflict.relation is None
    assert "db.broken" in str(conflict)


def test_a_table_whose_name_we_would_refuse_is_looked_at_all_the_same(flights: Flights, catalog: Catalog) -> None:
    table = flights(3)
    flights(name="größe 2", location=table.location())

    (conflict,) = location_conflicts(catalog, TableName.parse("db.flights", catalog="lake"))

    assert conflict.table == "db.größe 2"


def test_conflicts_of_a_table_that_is_not_there_cannot_be_told(catalog: Catalog) -> None:
    with pytest.raises(TableNotFound):
        location_conflicts(catalog, TableName.parse("db.nowhere", catalog="lake"))


def test_a_file_whose_modification_time_is_unknown_has_none_and_no_age() -> None:
    assert _stored("s3://lake/a", FileInfo("lake/a", FileType.File, size=3, mtime_ns=0)).modified_at is None
    assert _stored("s3://lake/a", FileInfo("lake/a", FileType.File, size=3)).modified_at is None


@pytest.mark.parametrize(
    ("scheme", "path", "inner"),
    [
        ("file", "file:/lake/a b#c?d%20e", "/lake/a b#c?d%20e"),
        ("file", "file:///lake/a:b", "/lake/a:b"),
        ("file", "/lake/a", "/lake/a"),
        ("s3", "s3a://bucket/key#1/x?y", "bucket/key#1/x?y"),
        ("hdfs", "hdfs://name:8020/lake/a", "/lake/a"),
    ],
)
def test_the_characters_of_a_path_are_taken_as_they_are(scheme: str, path: str, inner: str) -> None:
    assert inner_path(scheme, path) == inner
