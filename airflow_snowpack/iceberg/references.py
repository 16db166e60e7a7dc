"""Which files a table's metadata names, over all its snapshots.

    >>> refers_to = referenced_files(MetadataReader(table))  # doctest: +SKIP
    >>> "/warehouse/db/flights/data/part-0.parquet" in refers_to  # doctest: +SKIP
    True

The invariant: what any snapshot can still read is named here, in the spelling of :func:`.locations.normalise`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.iceberg.locations import normalise

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table.snapshots import Snapshot

    from airflow_snowpack.iceberg.files import LiveDelete, LiveFile
    from airflow_snowpack.iceberg.metadata_reader import MetadataReader


def manifests_of(reader: MetadataReader, snapshots: Iterable[Snapshot]) -> dict[str, ManifestFile]:
    """The manifests of these snapshots by path, each one once."""
    return {manifest.manifest_path: manifest for snapshot in snapshots for manifest in reader.manifests(snapshot)}


def live_contents(reader: MetadataReader, manifests: Iterable[ManifestFile]) -> dict[str, LiveFile | LiveDelete]:
    """The data and delete files that are live in these manifests, by path."""
    return {file.path: file for manifest in manifests for file in reader.contents(manifest)}


def referenced_files(reader: MetadataReader) -> frozenset[str]:
    """Every file that the table's metadata names: metadata files, statistics, manifest lists, manifests, data and delete files.

    Metadata files that have fallen out of the log (``write.metadata.previous-versions-max``) are not among them, as they are not
    for Iceberg's own ``remove_orphan_files``.
    """
    table, metadata = reader.table, reader.table.metadata
    manifests = manifests_of(reader, metadata.snapshots)
    named = {
        table.metadata_location,
        f"{table.location()}/metadata/version-hint.text",
        *(entry.metadata_file for entry in metadata.metadata_log),
        *(statistics.statistics_path for statistics in (*metadata.statistics, *metadata.partition_statistics)),
        *(snapshot.manifest_list for snapshot in metadata.snapshots if snapshot.manifest_list),
        *manifests,
        *live_contents(reader, manifests.values()),
    }
    return frozenset(normalise(location) for location in named)
