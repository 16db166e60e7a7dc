"""Reads the health of a table from its manifests, each once and one after the other."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, replace
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_snowpack.iceberg.avro_columns import AvroBlocks, read_blocks
from airflow_snowpack.iceberg.catalog import check_refs, unreadable_errors
from airflow_snowpack.iceberg.errors import TableUnreadable
from airflow_snowpack.iceberg.health.bounds import HealthBounds, manifest_target
from airflow_snowpack.iceberg.health.counting import DATA_MANIFESTS, DELETE_MANIFESTS, NEWEST, OWN_DELETES, Counting, total
from airflow_snowpack.iceberg.health.encoding import COUNTS
from airflow_snowpack.iceberg.health.expirable import read_expirable_bytes
from airflow_snowpack.iceberg.health.file_counts import FileCounts
from airflow_snowpack.iceberg.health.model import (
    MAX_PARTITIONS,
    PartitionHealth,
    Ref,
    SpecField,
    TableHealth,
    moment,
)
from airflow_snowpack.iceberg.health.numbers import TableNumbers, numbers_of_summary
from airflow_snowpack.iceberg.health.snapshots import read_snapshots
from airflow_snowpack.iceberg.metadata_reader import partition_label, read_manifest_list
from airflow_snowpack.iceberg.table_properties import NESSIE, OWNER, SORT_ORDER, owner_properties

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from datetime import datetime

    from pyiceberg.io import FileIO, InputFile
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from airflow_snowpack.iceberg.health.model import SnapshotLog
    from airflow_snowpack.iceberg.metadata_reader import PartitionKey

READERS = 4
"""How many manifests are fetched from the storage at once, if they total at most :data:`READ_AHEAD_BYTES`."""
READ_AHEAD_BYTES = 16 * 1024**2
"""Compressed; what was read ahead is decompressed in memory."""
PROPERTIES = ("snowpack.", "write.", "history.", "commit.", "gc.enabled", "compaction_skip", SORT_ORDER, NESSIE)
NOT_PROPERTIES = "write.metadata.metrics."
"""A wide table may have one for each column, and no maintenance depends on them."""


def read_health(
    table: Table, *, now: datetime, bounds: HealthBounds | None = None, expired: Collection[int] | None = None
) -> TableHealth:
    """Read the health of the table as it was loaded.

    :param now: the current time; it becomes ``read_at``.
    :param bounds: what counts as small, large and many deletes; ``None`` for the defaults, with the target size of the table.
    :param expired: ids of the snapshots that would expire, to return ``expirable_bytes`` as well; this reads old manifests, too.
    :raises TableUnreadable: the metadata, or a file that it names, is missing or damaged.
    """
    check_refs(table)
    try:
        health = _read_health(table, now, bounds or HealthBounds.of_table(table.properties))
        return health if expired is None else replace(health, expirable_bytes=read_expirable_bytes(table, expired))
    except unreadable_errors() as error:
        raise TableUnreadable(".".join(table.name()), error) from error


def _read_health(table: Table, now: datetime, bounds: HealthBounds) -> TableHealth:
    snapshot, metadata = table.current_snapshot(), table.metadata
    manifests = [] if snapshot is None else read_manifest_list(snapshot, table.io)
    log = read_snapshots(metadata)
    counting = _count(table.io, manifests, bounds, log)
    counted = counted_health(table, counting, manifests)
    counts = FileCounts(**{name: counted[name] for name in COUNTS})
    numbers = numbers_of_summary(table, len(manifests)) or TableNumbers(
        snapshot_id=snapshot.snapshot_id if snapshot else None,
        data_files=counts.data_files,
        delete_files=counts.delete_files,
        bytes=counts.bytes + counts.delete_bytes,
        records=counts.records,
        position_deletes=counting.deleted_positions,
        equality_deletes=counting.deleted_equalities,
        snapshots=len(log),
        manifests=len(manifests),
    )
    return TableHealth(
        **counted,
        table=".".join(table.name()),
        metadata_location=table.metadata_location,
        table_uuid=str(metadata.table_uuid),
        location=table.location(),
        format_version=table.format_version,
        read_at=now,
        totals=numbers,
        metadata_bytes=_size(table.io.new_input(table.metadata_location)),
        snapshots=log,
        refs=refs_of(table),
        properties={name: value for name, value in owner_properties(table).items() if _is_kept(name)},
        specs={spec.spec_id: spec_fields(table, spec.spec_id) for spec in table.specs().values()},
        spec_id=table.spec().spec_id,
    )


def counted_health(table: Table, counting: Counting, manifests: Sequence[ManifestFile]) -> dict[str, Any]:
    """Return what the health of a table takes from its manifests and from the files that were counted in them."""
    bounds, spec_id, partitions = counting.bounds, table.spec().spec_id, dict(counting.partitions())
    listed = sorted(partitions, key=lambda key: _improvable(partitions[key], bounds), reverse=True)
    worst, others = listed[:MAX_PARTITIONS], listed[MAX_PARTITIONS:]
    return {
        **asdict(total(partitions.values())),
        **_manifest_numbers(table, manifests),
        "bounds": bounds,
        "file_sizes": counting.file_sizes(),
        "skew": _skew([each[1] for each in partitions.values()]),
        "partition_count": len(partitions),
        "partitions": _listed(table, worst, partitions, bounds),
        "rest": total(partitions[key] for key in others),
        "outdated": total(each for key, each in partitions.items() if key[0] != spec_id),
    }


def _count(io: FileIO, manifests: Sequence[ManifestFile], bounds: HealthBounds, log: SnapshotLog) -> Counting:
    from pyiceberg.manifest import ManifestContent

    of_writers = (operation != "replace" for operation in log.operations)
    committed = zip(log.ids, log.committed_ms, of_writers, strict=True)
    counting = Counting(bounds, {snapshot: at for snapshot, at, is_writers in committed if is_writers})
    # Equal, not identical: format version 1 leaves the content out, and PyIceberg reads a bare 0.
    deletes_first = sorted(manifests, key=lambda manifest: manifest.content == ManifestContent.DATA)
    for manifest, file in _read_ahead(io, deletes_first):
        if manifest.content == ManifestContent.DATA:
            counting.add_data(manifest, file)
        else:
            counting.add_deletes(manifest, file)
    return counting


def _read_ahead(io: FileIO, manifests: Sequence[ManifestFile]) -> Iterator[tuple[ManifestFile, AvroBlocks]]:
    """Fetch and decompress the next manifests while one is counted."""

    def fetch(manifest: ManifestFile) -> tuple[ManifestFile, AvroBlocks]:
        return manifest, read_blocks(io.new_input(manifest.manifest_path))

    coming, bytes_ahead = deque(manifests), 0
    ahead: deque[Future[tuple[ManifestFile, AvroBlocks]]] = deque()
    with ThreadPoolExecutor(READERS, thread_name_prefix="snowpack-manifests") as pool:
        while coming or ahead:
            while coming and len(ahead) < READERS and (not ahead or bytes_ahead + coming[0].manifest_length <= READ_AHEAD_BYTES):
                bytes_ahead += coming[0].manifest_length
                ahead.append(pool.submit(fetch, coming.popleft()))
            manifest, blocks = ahead.popleft().result()
            bytes_ahead -= manifest.manifest_length
            yield manifest, blocks


def _improvable(counts: list[int], bounds: HealthBounds) -> tuple[int, int]:
    """Return how much a rewrite of a partition would improve, to list the worst ones."""
    summed = total([counts])
    return bounds.improvable(summed), summed.data_files


def _listed(
    table: Table, keys: Iterable[PartitionKey], counts: dict[PartitionKey, list[int]], bounds: HealthBounds
) -> tuple[PartitionHealth, ...]:
    partitions = (
        PartitionHealth(
            **asdict(total([counts[key]])),
            spec_id=key[0],
            values=tuple(map(as_json, key[1])),
            label=partition_label(table, key),
            newest_at=moment(counts[key][NEWEST]) if counts[key][NEWEST] else None,
            data_manifests=counts[key][DATA_MANIFESTS],
            delete_manifests=counts[key][DELETE_MANIFESTS],
            own_deletes_files=counts[key][OWN_DELETES],
        )
        for key in keys
    )
    return tuple(sorted(partitions, key=lambda partition: (-bounds.improvable(partition), partition.label)))


def as_json(value: Any) -> Any:
    """Convert a partition value for ``PartitionHealth.values``."""
    match value:
        case float() if not isfinite(value):
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        case float():
            return float(value)
        case Decimal() | UUID():
            return str(value)
        case bytes():
            return value.hex()
        case _:
            return value


def _is_kept(name: str) -> bool:
    return name == OWNER or (name.startswith(PROPERTIES) and not name.startswith(NOT_PROPERTIES))


def _size(file: InputFile) -> int | None:
    """Return the size of the metadata file; ``None`` if a later commit has deleted it."""
    try:
        return len(file)
    except FileNotFoundError:
        return None


def _manifest_numbers(table: Table, manifests: Sequence[ManifestFile]) -> dict[str, Any]:
    from pyiceberg.manifest import ManifestContent

    small, spec_id = manifest_target(table.properties) / 2, table.spec().spec_id
    kinds = {"data": ManifestContent.DATA, "delete": ManifestContent.DELETES}
    counts: dict[str, int] = {}
    # Format version 1 may leave the counts out.
    live = [each for each in manifests if not each.added_files_count == each.existing_files_count == 0]
    for kind, content in kinds.items():
        mine = [manifest for manifest in manifests if manifest.content == content]
        counts[f"{kind}_manifests"] = len(mine)
        counts[f"outdated_{kind}_manifests"] = sum(each.partition_spec_id != spec_id for each in mine)
        counts[f"empty_{kind}_manifests"] = len(mine) - sum(each.content == content for each in live)
    return {
        **counts,
        "manifests_bytes": sum(manifest.manifest_length for manifest in manifests),
        "small_manifests": sum(manifest.manifest_length < small for manifest in live),
    }


def refs_of(table: Table) -> tuple[Ref, ...]:
    """Return the branches and tags, by name."""
    refs = sorted(table.metadata.refs.items())
    return tuple(
        Ref(
            name,
            ref.snapshot_ref_type.value,
            ref.snapshot_id,
            max_ref_age_ms=ref.max_ref_age_ms,
            max_snapshot_age_ms=ref.max_snapshot_age_ms,
            min_snapshots_to_keep=ref.min_snapshots_to_keep,
        )
        for name, ref in refs
    )


def _skew(sizes: Sequence[int]) -> float:
    return round(max(sizes) * len(sizes) / sum(sizes), 3) if sum(sizes) else 0.0


def _path(schema: Schema, field_id: int) -> str | None:
    """Return the name of a column for ``SpecField.source``."""
    name = schema.find_column_name(field_id)
    if name is None:
        return None
    nested, accessor = 0, schema.accessor_for_field(field_id).inner
    while accessor is not None:
        nested, accessor = nested + 1, accessor.inner
    return name if name.count(".") == nested else None


def spec_fields(table: Table, spec_id: int) -> tuple[SpecField, ...]:
    """Return the fields of a partition spec."""
    schema = table.schema()
    fields = []
    for field in table.specs()[spec_id].fields:
        source = _path(schema, field.source_id)
        source_type = None if source is None else str(schema.find_type(field.source_id))
        fields.append(SpecField(source, source_type, str(field.transform), field.name))
    return tuple(fields)
