"""Health as compact JSON, for the store.

    text = encode(health)
    decode(text) == health

Values are lists in the order of the fields, without names, because ten thousand tables are read at once. Changing any field of
the model requires a new :data:`FORMAT`; health of another format is read from the table again.
"""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from operator import attrgetter
from typing import Any

from airflow_snowpack.iceberg.health.bounds import HealthBounds
from airflow_snowpack.iceberg.health.file_counts import FileCounts
from airflow_snowpack.iceberg.health.model import (
    PartitionHealth,
    Ref,
    SnapshotLog,
    SpecField,
    TableHealth,
    moment,
)
from airflow_snowpack.iceberg.health.numbers import TableNumbers

FORMAT = 3
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
COUNTS = tuple(field.name for field in fields(FileCounts))
PLAIN = tuple(
    field.name
    for field in fields(TableHealth)
    if field.name
    not in {
        *COUNTS,
        *("read_at", "bounds", "totals", "snapshots", "refs", "partitions", "rest", "outdated", "specs", "file_sizes"),
    }
)
counts_of = attrgetter(*COUNTS)
plain_of = attrgetter(*PLAIN)
bounds_of = attrgetter(*(field.name for field in fields(HealthBounds)))
totals_of = attrgetter(*(field.name for field in fields(TableNumbers)))
ref_of = attrgetter(*(field.name for field in fields(Ref)))
spec_field_of = attrgetter(*(field.name for field in fields(SpecField)))


def encode(health: TableHealth) -> str:
    log = health.snapshots
    document = [
        counts_of(health),
        plain_of(health),
        (health.read_at - EPOCH) // MICROSECOND,
        bounds_of(health.bounds),
        totals_of(health.totals),
        [log.ids, log.parents, log.committed_ms, log.operations, log.added, log.dropped],
        [ref_of(ref) for ref in health.refs],
        health.file_sizes,
        [_encode_partition(partition) for partition in health.partitions],
        counts_of(health.rest),
        counts_of(health.outdated),
        {spec_id: [spec_field_of(each) for each in fields] for spec_id, fields in health.specs.items()},
    ]
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def decode(text: str) -> TableHealth:
    counts, plain, read_at, bounds, totals, log, refs, sizes, partitions, rest, outdated, specs = json.loads(text)
    return TableHealth(
        **dict(zip(COUNTS, counts, strict=True)),
        **dict(zip(PLAIN, plain, strict=True)),
        read_at=EPOCH + read_at * MICROSECOND,
        bounds=_bounds(*bounds),
        totals=TableNumbers(*totals),
        snapshots=SnapshotLog(*map(tuple, log)),
        refs=tuple(Ref(*ref) for ref in refs),
        file_sizes=tuple(sizes),
        partitions=tuple(map(_decode_partition, partitions)),
        rest=_counts(rest),
        outdated=_counts(outdated),
        specs={int(spec_id): tuple(SpecField(*each) for each in fields) for spec_id, fields in specs.items()},
    )


def _encode_partition(partition: PartitionHealth) -> list[Any]:
    newest_at = partition.newest_at and round(partition.newest_at.timestamp() * 1000)
    own = (partition.data_manifests, partition.delete_manifests, partition.own_deletes_files)
    return [partition.spec_id, partition.values, partition.label, newest_at, *own, *counts_of(partition)]


def _decode_partition(encoded: list[Any]) -> PartitionHealth:
    spec_id, values, label, newest_at, data_manifests, delete_manifests, own_deletes_files, *counts = encoded
    return PartitionHealth(
        spec_id=spec_id,
        values=tuple(values),
        label=label,
        newest_at=None if newest_at is None else moment(newest_at),
        data_manifests=data_manifests,
        delete_manifests=delete_manifests,
        own_deletes_files=own_deletes_files,
        **dict(zip(COUNTS, counts, strict=True)),
    )


def _counts(encoded: list[int]) -> FileCounts:
    return FileCounts(**dict(zip(COUNTS, encoded, strict=True)))


@lru_cache(maxsize=64)
def _bounds(*values: Any) -> HealthBounds:
    """Return the same object for equal bounds: a fleet has few of them."""
    return HealthBounds(**dict(zip((field.name for field in fields(HealthBounds)), values, strict=True)))
