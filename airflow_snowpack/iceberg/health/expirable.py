"""The bytes that only expired snapshots need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.iceberg.avro_columns import AvroColumns, read_blocks
from airflow_snowpack.iceberg.metadata_reader import BYTES, DELETED, PATH, STATUS, read_manifest_list

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table

READER = AvroColumns((STATUS, PATH, BYTES), required=(STATUS, PATH, BYTES))


def read_expirable_bytes(table: Table, expired: Collection[int]) -> int:
    """Return the bytes of data files, delete files and manifests that no snapshot would need if these expired.

    This reads the manifest list of every snapshot, the manifests that only the expired ones have, and, if these have files, the
    manifests of the others. Only the files of the expired snapshots are in memory.

    :param expired: ids of snapshots.
    """
    gone: dict[str, ManifestFile] = {}
    kept: dict[str, ManifestFile] = {}
    expired = frozenset(expired)
    for snapshot in table.metadata.snapshots:
        into = gone if snapshot.snapshot_id in expired else kept
        into.update({manifest.manifest_path: manifest for manifest in read_manifest_list(snapshot, table.io)})
    only_gone = [manifest for path, manifest in gone.items() if path not in kept]
    files = dict(_live_files(table.io, only_gone))
    if files:
        for path, _ in _live_files(table.io, kept.values()):
            files.pop(path, None)
    return sum(files.values()) + sum(manifest.manifest_length for manifest in only_gone)


def _live_files(io: FileIO, manifests: Iterable[ManifestFile]) -> Iterable[tuple[str, int]]:
    for manifest in manifests:
        for status, path, size in READER.rows(read_blocks(io.new_input(manifest.manifest_path))):
            if status != DELETED:
                yield path, size
