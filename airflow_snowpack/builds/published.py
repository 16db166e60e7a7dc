"""What of a dataset is to be read: the build that the pointer names, or the one before it when that one is damaged.

    current = read_pointer(storage)
    path, manifest = newest_whole(storage, current, damaged := {})

The invariant: the manifest that the pointer names, and the one before it, are read only if they are exactly what was published,
and **one that was found damaged is never served**, whether it is that itself or one of its shards. Those further back have no
checksum to be compared with: no manifest holds that of another.
"""

from __future__ import annotations

from collections.abc import MutableMapping

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.errors import BuildNotFound, ManifestDamaged, NothingPublished, ObjectMissing
from airflow_snowpack.builds.model import Current, Manifest
from airflow_snowpack.builds.records import read_current, read_manifest
from airflow_snowpack.builds.storage import Storage


def read_pointer(storage: Storage) -> Current:
    """``_CURRENT``.

    :raises NothingPublished: there is none.
    :raises ManifestDamaged: it is not one.
    """
    try:
        return read_current(storage.read(layout.CURRENT), layout.CURRENT)
    except ObjectMissing:
        raise NothingPublished(storage.url) from None


def manifest_at(storage: Storage, path: str, checksum: str | None = None) -> Manifest:
    """A manifest.

    :raises ManifestDamaged: it is not there, or not what was published.
    """
    try:
        return read_manifest(storage.read(path), path, checksum)
    except ObjectMissing:
        raise ManifestDamaged(path, "it is not there") from None


def check_files(storage: Storage, path: str, manifest: Manifest) -> None:
    """Check that every file of a manifest exists and has its size, from one listing of the run's folder.

    :param path: of the manifest, for the error.
    :raises ManifestDamaged: a file is missing or has another size.
    :raises StorageFailed: the folder could not be listed.
    """
    sizes = {found.path: found.bytes for found in storage.objects(layout.run_folder(manifest.run_id))}
    wrong = [shard for shard in manifest.shards if shard.url is not None and sizes.get(shard.url) != shard.bytes]
    if wrong:
        first = wrong[0]
        found = "is not there" if first.url not in sizes else f"has {sizes[first.url]} bytes"
        others = f", and {len(wrong) - 1} more of its {len(manifest.shards)} files are wrong" if len(wrong) > 1 else ""
        raise ManifestDamaged(path, f"its file {first.url} of {first.bytes} bytes {found}{others}")


def newest_whole(storage: Storage, current: Current, damaged: MutableMapping[str, ManifestDamaged]) -> tuple[str, Manifest]:
    """The manifest that the pointer names, or the nearest before it that is whole; and its path.

    :param damaged: what was found damaged already, by the path of its manifest; what is found now is added.
    :raises ManifestDamaged: none is left; it is the one that the pointer names.
    """
    path: str | None = current.manifest
    checksum: str | None = current.checksum
    seen: set[str] = set()
    while path is not None and path not in seen:
        seen.add(path)
        manifest = None
        try:
            manifest = manifest_at(storage, path, checksum)
        except ManifestDamaged as damage:
            damaged.setdefault(path, damage)
        if manifest is not None and path not in damaged:
            return path, manifest
        if path == current.manifest and current.previous is not None:
            path, checksum = current.previous, current.previous_checksum
        else:
            path, checksum = (manifest.previous if manifest else None), None
    raise damaged[current.manifest]


def find_manifest(storage: Storage, ref: str) -> tuple[str, Manifest]:
    """The manifest of a run, or the one at a path; and its path.

    :param ref: a run's id, or a manifest's path relative to the dataset's root.
    :raises BuildNotFound: there is no such manifest.
    :raises ManifestDamaged: it is not one.
    """
    if not ref.startswith(layout.MANIFESTS):
        folder = layout.manifest_folder(layout.check_run(ref))
        tries = sorted((found.path for found in storage.objects(folder)), key=lambda path: (len(path), path))
        if not tries:
            raise BuildNotFound(storage.url, ref, "the run has no manifest there")
        ref = tries[-1]
    try:
        return ref, read_manifest(storage.read(ref), ref)
    except ObjectMissing:
        raise BuildNotFound(storage.url, ref, "there is no manifest at that path") from None
