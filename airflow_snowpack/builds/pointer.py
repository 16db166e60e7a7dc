"""The pointer ``_CURRENT``, the object that names the current build, and the manifests it leads to.

    current = published_pointer(storage)
    path, manifest = newest_whole(storage, current, damaged={})
    set_pointer(storage, changed, lock, above=current.publication)

The process that holds the dataset's lock replaces the pointer as a whole, and checks its fence immediately before. It may still
sleep between check and write until its lease has expired. Storage with compare-and-set then rejects the write. Elsewhere, the
publication number, which grows with each pointer (``is_newer``), protects readers, who ignore a smaller number; and the next
process that takes the lock restores the pointer.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.errors import (
    BuildNotFound,
    InvalidBuild,
    ManifestDamaged,
    NothingPublished,
    ObjectMissing,
    PointerMoved,
    PointerUnknown,
    PublishFailed,
    StorageFailed,
)
from airflow_snowpack.builds.json_format import read_current, read_manifest, to_json
from airflow_snowpack.builds.model import Current, Manifest, is_newer
from airflow_snowpack.builds.storage import Storage

if TYPE_CHECKING:  # readers need neither the registry nor its database
    from airflow_snowpack.builds.registry.dataset_lock import DatasetLock

log = logging.getLogger(__name__)


def read_pointer(storage: Storage) -> Current | None:
    """Return the pointer, ``None`` if there is none; raise :class:`ManifestDamaged` if it is not what was written."""
    try:
        return read_current(storage.read(layout.CURRENT), layout.CURRENT)
    except ObjectMissing:
        return None


def published_pointer(storage: Storage) -> Current:
    """Return the pointer, or raise :class:`NothingPublished` if there is none; also raises like :func:`read_pointer`."""
    pointer = read_pointer(storage)
    if pointer is None:
        raise NothingPublished(storage.url)
    return pointer


def sound_pointer(storage: Storage, dataset: str) -> Current | None:
    """Return the dataset's pointer; ``None`` if it is missing or, with a warning in the log, damaged.

    :raises InvalidBuild: the folder belongs to another dataset.
    """
    try:
        pointer = read_pointer(storage)
    except ManifestDamaged:
        log.warning("pointer_damaged: of the dataset %s", dataset, exc_info=True)
        return None
    if pointer is not None and pointer.dataset != dataset:
        raise InvalidBuild("url", storage.url, f"the folder belongs to the dataset {pointer.dataset}, not to {dataset}")
    return pointer


def set_pointer(storage: Storage, current: Current, lock: DatasetLock, *, above: int) -> None:
    """Replace the pointer, unless it changes between read and write.

    :param above: the publication number that the caller has read; 0 for none.
    :raises PublishFailed: all tries failed, and the pointer is unchanged.
    :raises PointerMoved: another installation has set it to this number or a greater one.
    :raises PointerUnknown: all tries failed, and the pointer cannot be read either.
    :raises StaleBuild: the lock was lost before the write.
    """
    data, waits = to_json(current), lock.policy.pointer_waits
    for wait in (*waits, None):
        try:
            found, version = storage.read_version(layout.CURRENT)
            if found == data:
                return None  # an earlier write succeeded, but its response was lost
            _check_number(found, current, above)
            lock.check()  # as late as possible: the read may have taken long
            return storage.replace(layout.CURRENT, data, version)
        except StorageFailed as error:
            log.warning("pointer_not_set: of %s to the run %s: %s", current.dataset, current.run_id, error)
            failure = error
        if wait is not None:
            lock.sleep(wait.total_seconds())
    tries = len(waits) + 1
    try:
        if storage.read(layout.CURRENT) == data:  # the last write succeeded, but its response was lost
            return None
    except ObjectMissing:
        pass
    except StorageFailed as error:
        raise PointerUnknown(current.dataset, current.run_id, tries, error) from failure
    raise PublishFailed(current.dataset, current.run_id, tries, failure) from failure


def _check_number(found: bytes | None, current: Current, above: int) -> None:
    """Raise :class:`PointerMoved` if only another installation can have drawn the pointer's number."""
    if found is None:
        return
    try:
        number = read_current(found, layout.CURRENT).publication
    except ManifestDamaged:
        return  # a damaged pointer is replaced
    if is_newer(number, above) and not is_newer(current.publication, number):
        raise PointerMoved(current.dataset, current.run_id, current.publication, number)


def manifest_at(storage: Storage, path: str, checksum: str | None = None) -> Manifest:
    """Read a manifest, or raise :class:`ManifestDamaged` if it is missing or not what was published."""
    try:
        return read_manifest(storage.read(path), path, checksum)
    except ObjectMissing:
        raise ManifestDamaged(path, "it does not exist") from None


def check_files(storage: Storage, path: str, manifest: Manifest) -> None:
    """Raise :class:`ManifestDamaged` unless each file of the manifest at ``path`` exists with its size; takes one listing."""
    sizes = {found.path: found.bytes for found in storage.objects(layout.run_folder(manifest.run_id))}
    wrong = [shard for shard in manifest.shards if shard.url is not None and sizes.get(shard.url) != shard.bytes]
    if wrong:
        first = wrong[0]
        found = "does not exist" if first.url not in sizes else f"has {sizes[first.url]} bytes"
        others = f", and {len(wrong) - 1} more of its {len(manifest.shards)} files are wrong" if len(wrong) > 1 else ""
        raise ManifestDamaged(path, f"its file {first.url} of {first.bytes} bytes {found}{others}")


def newest_whole(
    storage: Storage, current: Current, damaged: MutableMapping[str, ManifestDamaged], *, oldest: str | None = None
) -> tuple[str, Manifest]:
    """Return the path and content of the manifest that the pointer names, or of the nearest earlier one that is undamaged.

    Only the first two have their checksums compared, with those in the pointer; manifests hold no checksum of earlier ones.

    :param damaged: damaged manifests by path; newly found ones are added.
    :param oldest: the path of the oldest manifest that may be returned; ``None`` for no limit.
    :raises ManifestDamaged: all are damaged; the error is that of the manifest which the pointer names.
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
        if path == oldest:
            break
        if path == current.manifest and current.previous is not None:
            path, checksum = current.previous, current.previous_checksum
        else:
            path, checksum = (manifest.previous if manifest else None), None
    raise damaged[current.manifest]


def find_manifest(storage: Storage, ref: str) -> tuple[str, Manifest]:
    """Return the path and content of a manifest.

    :param ref: a run's id, or the path relative to the dataset's root.
    :raises BuildNotFound: there is no such manifest.
    :raises ManifestDamaged: the object is not a manifest.
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
