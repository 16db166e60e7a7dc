"""Health of tables that do not exist, for tests that need many tables or exact numbers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from airflow_snowpack.iceberg.health import (
    HealthBounds,
    PartitionHealth,
    Ref,
    SnapshotLog,
    SpecField,
    TableHealth,
    TableNumbers,
)

READ_AT = datetime(2026, 11, 20, 3, 0, tzinfo=UTC)
MIB = 1024**2


def made_partition(**changes: Any) -> PartitionHealth:
    """Return a partition of ten good files, changed as given."""
    return replace(
        PartitionHealth(
            spec_id=0,
            values=(7,),
            label="month=7",
            newest_at=datetime(2026, 11, 19, tzinfo=UTC),
            data_files=10,
            bytes=5120 * MIB,
            records=10_000,
        ),
        **changes,
    )


def made_health(**changes: Any) -> TableHealth:
    """Return the health of a healthy table with one partition and one snapshot, changed as given."""
    committed_ms = round(READ_AT.timestamp() * 1000) - 3_600_000
    partition = made_partition()
    health = TableHealth(
        table="db.flights",
        metadata_location="file:///lake/db/flights/metadata/00001.metadata.json",
        table_uuid="6b1f8e4c-6a5e-4a6f-9a51-8f8c2b1d9e00",
        location="file:///lake/db/flights",
        format_version=2,
        read_at=READ_AT,
        bounds=HealthBounds(),
        totals=TableNumbers(snapshot_id=1, data_files=10, bytes=partition.bytes, records=10_000, snapshots=1, manifests=1),
        data_files=10,
        bytes=partition.bytes,
        records=10_000,
        data_manifests=1,
        manifests_bytes=9 * MIB,
        metadata_bytes=4_096,
        snapshots=SnapshotLog((1,), (None,), (committed_ms,), ("append",)),
        refs=(Ref("main", "branch", 1),),
        file_sizes=(0,) * 10 + (10,),
        skew=1.0,
        partition_count=1,
        partitions=(partition,),
        specs={0: (SpecField("month", "long", "identity", "month"),)},
    )
    return replace(health, **changes)


def sick_health(partitions: int = 3, small: int = 400) -> TableHealth:
    """Return the health of a table with so many small files in each of so many partitions, and ten good ones."""
    parts = tuple(
        made_partition(
            values=(month,),
            label=f"month={month}",
            data_files=small + 10,
            small_files=small,
            small_bytes=small * MIB,
            bytes=small * MIB + 5120 * MIB,
            newest_at=None,
        )
        for month in range(1, partitions + 1)
    )
    return made_health(
        data_files=sum(each.data_files for each in parts),
        small_files=small * partitions,
        small_bytes=small * partitions * MIB,
        bytes=sum(each.bytes for each in parts),
        partitions=parts,
        partition_count=partitions,
        file_sizes=(0, small * partitions, 0, 0, 0, 0, 0, 0, 0, 0, 10 * partitions),
    )
