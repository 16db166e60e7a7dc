"""The tables that other tests rely on are what their names say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from table_zoo import KINDS, UNREADABLE_KINDS, Zoo, rows, with_snapshots

from airflow_snowpack.iceberg import MetadataReader


def test_a_shared_table_is_made_once(zoo: Zoo) -> None:
    assert zoo.shared("unpartitioned") == zoo.shared("unpartitioned")
    assert zoo.new("never_written") != zoo.new("never_written")


def test_every_readable_kind_without_spark_is_in_this_zoo(zoo: Zoo) -> None:
    assert zoo.kinds() == list(KINDS)


@pytest.mark.parametrize(("kind", "left"), [("position_deletes", 34), ("upgraded_to_version_2", 5), ("branches_and_tags", 4)])
def test_readers_see_a_table_without_its_deleted_rows(zoo: Zoo, kind: str, left: int) -> None:
    assert len(rows(zoo.load(zoo.shared(kind)))) == left


def test_a_table_of_three_specs_has_files_of_each(zoo: Zoo) -> None:
    files = MetadataReader(zoo.load(zoo.shared("evolved_spec"))).files().data

    assert {file.spec_id for file in files} == {0, 1, 2}


def test_a_table_has_as_many_snapshots_as_it_should_and_as_old(zoo: Zoo) -> None:
    until = datetime(2026, 1, 1, tzinfo=UTC)

    with_snapshots(zoo, "of_ten", 10, every=timedelta(days=1), until=until)

    table = zoo.load(zoo.named("of_ten"))
    times = [datetime.fromtimestamp(each.timestamp_ms / 1000, tz=UTC) for each in table.metadata.snapshots]
    assert times == [until - timedelta(days=9 - each) for each in range(10)]
    assert {len(rows(table, each.snapshot_id)) for each in table.metadata.snapshots} == {1, 2, 3, 4}
    assert len(rows(table)) == 4


@pytest.mark.parametrize("kind", UNREADABLE_KINDS)
def test_an_unreadable_table_cannot_be_read(zoo: Zoo, kind: str) -> None:
    name = zoo.shared(kind)

    with pytest.raises((OSError, ValueError)):
        MetadataReader(zoo.load(name)).files()
