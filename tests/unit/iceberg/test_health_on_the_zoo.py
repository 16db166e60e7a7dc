"""Health of tables of every kind, beside PyIceberg's own manifest entries; those that only Spark writes are among the integration
tests."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from counted_reads import counted_reads
from health_from_entries import check_counts
from table_zoo import KINDS, UNREADABLE_KINDS, Zoo

from airflow_snowpack.iceberg import HealthBounds, TableUnreadable, load_table, read_health
from airflow_snowpack.iceberg.health import score
from airflow_snowpack.iceberg.health.encoding import decode, encode

NOW = datetime(2026, 11, 23, 3, 0, tzinfo=UTC)


@pytest.mark.parametrize("kind", KINDS)
def test_health_counts_what_the_entries_of_the_manifests_have(zoo: Zoo, kind: str) -> None:
    table = zoo.load(zoo.shared(kind))
    snapshot = table.current_snapshot()
    manifests = snapshot.manifests(table.io) if snapshot else []

    with counted_reads() as reads:
        health = read_health(table, now=NOW)

    assert sorted(reads.manifests) == sorted(manifest.manifest_path for manifest in manifests)
    check_counts(table, health)
    good_sizes = HealthBounds(target_file_size_bytes=100_000, min_file_size_bytes=1)
    check_counts(table, read_health(table, now=NOW, bounds=good_sizes))
    assert decode(encode(health)) == health
    assert 0 <= score(health).total <= 100
    assert (health.totals.data_files, health.totals.records) == (health.data_files, health.records)


@pytest.mark.parametrize("kind", UNREADABLE_KINDS)
def test_a_table_whose_metadata_cannot_be_read_is_named_with_the_reason(zoo: Zoo, kind: str) -> None:
    name = zoo.shared(kind)

    with pytest.raises(TableUnreadable, match=rf"The metadata of table '.*{name.dotted}' cannot be read: "):
        read_health(load_table(zoo.catalog, name), now=NOW)
