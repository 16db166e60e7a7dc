"""The pointer ``_CURRENT``: the one object that decides what is served.

    read_pointer(storage)                   # a Current, or None
    set_pointer(storage, current, lock, above=standing.seen, waits=policy.pointer_waits, sleep=time.sleep)

The invariant: it is replaced whole, by the process that holds the dataset's lock and checks its fence right before. A process may
sleep between that check and the write for longer than its lease. Where the storage has a compare-and-set, its write is then
refused. Elsewhere each pointer carries a number that never goes back: readers ignore a smaller one than they have seen, and the
next process that takes the lock writes the right pointer again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import timedelta

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.dataset_lock import DatasetLock
from airflow_snowpack.builds.errors import (
    InvalidBuild,
    ManifestDamaged,
    ObjectMissing,
    PointerMoved,
    PointerUnknown,
    PublishFailed,
    StorageFailed,
)
from airflow_snowpack.builds.model import Current
from airflow_snowpack.builds.records import read_current, to_json
from airflow_snowpack.builds.storage import Storage

log = logging.getLogger(__name__)


def read_pointer(storage: Storage) -> Current | None:
    """What the pointer says; ``None`` when there is none.

    :raises ManifestDamaged: it is not what was written.
    :raises StorageFailed: it could not be read.
    """
    try:
        data = storage.read(layout.CURRENT)
    except ObjectMissing:
        return None
    return read_current(data, layout.CURRENT)


def sound_pointer(storage: Storage, dataset: str) -> Current | None:
    """The dataset's pointer; ``None`` as well when it is damaged, which is logged.

    :raises InvalidBuild: the folder is another dataset's.
    """
    try:
        pointer = read_pointer(storage)
    except ManifestDamaged:
        log.warning("pointer_damaged: of the dataset %s", dataset, exc_info=True)
        return None
    if pointer is not None and pointer.dataset != dataset:
        raise InvalidBuild("url", storage.url, f"the dataset {pointer.dataset} stands there, and not {dataset}")
    return pointer


def set_pointer(
    storage: Storage,
    current: Current,
    lock: DatasetLock,
    *,
    above: int,
    waits: Sequence[timedelta],
    sleep: Callable[[float], None],
) -> None:
    """Replace the pointer, if it is still the one that is read right before.

    :param above: the number of the pointer that the caller has seen; 0 for none.
    :param waits: before the second try, and those after it.
    :raises PublishFailed: all tries failed, and the pointer is what it was.
    :raises PointerMoved: another installation has set it to this number, or to a greater one.
    :raises PointerUnknown: all tries failed, and it cannot be read either.
    :raises StaleBuild: the lock was lost before it was set.
    """
    data = to_json(current)
    for wait in (*waits, None):
        try:
            found, version = storage.read_version(layout.CURRENT)
            if found == data:
                return None  # a write whose answer was lost had worked
            _check_number(found, current, above)
            lock.check()  # right before the write, as the read may have taken long
            return storage.replace(layout.CURRENT, data, version)
        except StorageFailed as error:
            log.warning("pointer_not_set: of %s to the run %s: %s", current.dataset, current.run_id, error)
            failure = error
        if wait is not None:
            sleep(wait.total_seconds())
    tries = len(waits) + 1
    try:
        # A write whose answer was lost may have happened all the same.
        if storage.read(layout.CURRENT) == data:
            return None
    except ObjectMissing:
        pass
    except StorageFailed as error:
        raise PointerUnknown(current.dataset, current.run_id, tries, error) from failure
    raise PublishFailed(current.dataset, current.run_id, tries, failure) from failure


def _check_number(found: bytes | None, current: Current, above: int) -> None:
    """:raises PointerMoved: the pointer has a number that only another installation can have drawn."""
    if found is None:
        return
    try:
        number = read_current(found, layout.CURRENT).publication
    except ManifestDamaged:
        return  # it is replaced
    if number > above and number >= current.publication:
        raise PointerMoved(current.dataset, current.run_id, current.publication, number)
