"""Several publish, roll back and clean up one dataset at the same moment: they take turns, and the newest build is current."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

from bounded import PATIENCE_S
from built_runs import DATASET, DAY, MIDNIGHT, begun, built, current_run, folders, unknown_folders
from effort import rounds

from airflow_snowpack.builds.cleanup import cleanup
from airflow_snowpack.builds.errors import DatasetBusy
from airflow_snowpack.builds.model import Retention
from airflow_snowpack.builds.pointer import read_pointer
from airflow_snowpack.builds.publish import publish
from airflow_snowpack.builds.registry.model import BuildPolicy, RunStatus
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.store import Store

BUILDERS = 4
BUILDS_EACH = rounds(3, soak=30)


def test_builds_that_finish_at_once_take_turns_and_the_newest_is_current(store: Store, storage: Storage) -> None:
    # Each try to get the lock counts as a second of waiting, however short it is.
    registry = BuildRegistry(store, BuildPolicy(lock_wait=DAY), sleep=lambda _: threading.Event().wait(0.01))
    days = random.Random(4).sample(range(BUILDERS * BUILDS_EACH), BUILDERS * BUILDS_EACH)
    ready = [built(registry, storage, MIDNIGHT + day * DAY, shards=1) for day in days]
    together, over, seen = threading.Barrier(BUILDERS + 2), threading.Event(), []

    def build(turn: int) -> None:
        together.wait(PATIENCE_S)
        for handle, manifest in ready[turn::BUILDERS]:
            publish(registry, storage, handle, manifest)

    def clean() -> None:
        together.wait(PATIENCE_S)
        while not over.is_set():
            try:
                assert not any(action.error for action in cleanup(registry, storage, DATASET, Retention(keep_runs=2)))
            except DatasetBusy:
                over.wait(0.01)

    def read() -> None:
        together.wait(PATIENCE_S)
        while not over.is_set():
            pointer = read_pointer(storage)
            if pointer is not None:
                seen.append(pointer.publication)

    with ThreadPoolExecutor(BUILDERS + 2) as people:
        beside = [people.submit(clean), people.submit(read)]
        try:
            for work in [people.submit(build, turn) for turn in range(BUILDERS)]:
                work.result(timeout=PATIENCE_S)
        finally:
            over.set()
        for work in beside:
            work.result(timeout=PATIENCE_S)
    newest = f"{MIDNIGHT + max(days) * DAY:%Y%m%dT%H%M%SZ}"
    assert current_run(storage) == newest
    assert seen == sorted(seen), "the pointer never went back"
    assert len(registry.runs(DATASET, limit=1000, status=RunStatus.SUCCEEDED).items) == len(ready)
    moves = registry.publications(DATASET, limit=1000)
    as_of = [registry.run(DATASET, move.run_id).as_of for move in moves]
    assert as_of == sorted(as_of, reverse=True)
    cleanup(registry, storage, DATASET, Retention(keep_runs=2))
    assert unknown_folders(registry, storage, DATASET) == []
    assert len(folders(storage, "data/")) == 2


def test_runs_that_begin_at_once_get_names_and_numbers_of_their_own(store: Store, storage: Storage) -> None:
    registry = BuildRegistry(store)
    together = threading.Barrier(6)

    def begin() -> tuple[str, int]:
        together.wait(PATIENCE_S)
        handle = begun(registry, storage, MIDNIGHT)
        return handle.run_id, handle.sequence

    with ThreadPoolExecutor(6) as people:
        begun_runs = [work.result(timeout=PATIENCE_S) for work in [people.submit(begin) for _ in range(6)]]
    assert len({run_id for run_id, _ in begun_runs}) == 6
    assert sorted(sequence for _, sequence in begun_runs) == [1, 2, 3, 4, 5, 6]
