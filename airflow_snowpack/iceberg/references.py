"""Which files a table's metadata names, over all its snapshots.

    >>> refers_to = referenced_files(table)  # doctest: +SKIP
    >>> "/warehouse/db/flights/data/part-0.parquet" in refers_to  # doctest: +SKIP
    True

The invariant: what any snapshot can still read is named here, in the spelling of :func:`.locations.normalise`. A manifest that
several snapshots share is opened once: PyIceberg's ``all_manifests`` and ``all_files`` open it once a snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.iceberg.files import read_manifests
from airflow_snowpack.iceberg.locations import normalise

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.manifest import DataFileContent, ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


def manifests_of(table: Table, snapshots: Iterable[Snapshot]) -> dict[str, ManifestFile]:
    """The manifests of these snapshots by path, each one once."""
    return {manifest.manifest_path: manifest for snapshot in snapshots for manifest in read_manifests(table, snapshot)}


def live_contents(table: Table, manifests: Iterable[ManifestFile]) -> dict[str, DataFileContent]:
    """The data and delete files that are live in these manifests, by path."""
    from pyiceberg.manifest import DataFileContent

    entries = (entry for manifest in manifests for entry in manifest.fetch_manifest_entry(table.io))
    # The manifests of format version 1 leave the content out, which PyIceberg reads as a bare number or nothing.
    return {entry.data_file.file_path: DataFileContent(entry.data_file.content or 0) for entry in entries}


def referenced_files(table: Table) -> frozenset[str]:
    """Every file that the table's metadata names: metadata files, statistics, manifest lists, manifests, data and delete files.

    Metadata files that have fallen out of the log (``write.metadata.previous-versions-max``) are not among them, as they are not
    for Iceberg's own ``remove_orphan_files``.
    """
    metadata = table.metadata
    manifests = manifests_of(table, metadata.snapshots)
    named = {
        table.metadata_location,
        f"{table.location()}/metadata/version-hint.text",
        *(entry.metadata_file for entry in metadata.metadata_log),
        *(statistics.statistics_path for statistics in (*metadata.statistics, *metadata.partition_statistics)),
        *(snapshot.manifest_list for snapshot in metadata.snapshots if snapshot.manifest_list),
        *manifests,
        *live_contents(table, manifests.values()),
    }
    return frozenset(normalise(location) for location in named)
