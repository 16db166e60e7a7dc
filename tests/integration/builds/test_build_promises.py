"""Whatever happens in whatever order, the current build is complete and never older than before, and nothing live is deleted.

Hypothesis plays several writers, publishers that sleep, people who roll back, cleanups, kills and the clock against the promises:
300 steps in ``make test``, more than 10,000 with ``SNOWPACK_SOAK=1``.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from built_runs import (
    DATASET,
    DAY,
    MIDNIGHT,
    begun,
    cleanup_losers,
    cleanup_old_runs,
    cleanup_stale_attempts,
    complete,
    current_run,
    folders,
    selected,
    unknown_folders,
    write_attempt,
)
from clocks import MovedClock
from effort import SOAK, rounds
from hypothesis import settings, strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.cleanup import cleanup
from airflow_snowpack.builds.errors import BuildNotFound, DatasetBusy, DatasetNotFound, StaleBuild
from airflow_snowpack.builds.model import Manifest, Retention
from airflow_snowpack.builds.pointer import read_pointer
from airflow_snowpack.builds.publish import publish, rollback
from airflow_snowpack.builds.registry.model import BuildPolicy, BuildRun, PublicationKind, RunHandle, RunStatus
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Deleted, Storage
from airflow_snowpack.store import Store
from airflow_snowpack.store.opening import open_engine

Ready = tuple[RunHandle, Manifest]

EXAMPLES = rounds(10, soak=400)
STEPS = 30
SHARDS = 2
RETENTION = Retention(keep_runs=2, stale_attempt_age=timedelta(hours=2))
days = st.integers(0, 4)
owners = st.sampled_from(["task a", "task b", None])


class Killed(BaseException):
    """The process is gone: no handler of an error gets to see it."""


class Perilous(Storage):
    """A storage at whose n-th change the process is killed, before or after it."""

    changes_left: int | None = None
    after = False

    def _perhaps(self, change: Callable[[], Deleted | None]) -> Deleted | None:
        if self.changes_left is None or self.changes_left > 0:
            self.changes_left = None if self.changes_left is None else self.changes_left - 1
            return change()
        if self.after:
            change()
        raise Killed

    def write(self, path: str, data: bytes, *, tries: int = 3) -> None:
        self._perhaps(lambda: super(Perilous, self).write(path, data, tries=tries))

    def delete(self, path: str) -> Deleted:
        done = self._perhaps(lambda: super(Perilous, self).delete(path))
        assert done is not None
        return done


class Promises(RuleBasedStateMachine):
    runs: Bundle[RunHandle] = Bundle("runs")
    ready: Bundle[Ready] = Bundle("ready")

    def __init__(self, migrated: Path, taken: Counter[str]) -> None:
        super().__init__()
        self.taken = taken
        # Where there is a disk in memory, a thousand synced files cost nothing.
        memory = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(prefix="snowpack-promises-", dir=memory if memory.is_dir() else None))
        self.clock = MovedClock(MIDNIGHT)
        database = shutil.copy(migrated, self.folder / "snowpack.db")
        self.store = Store(open_engine(f"sqlite:///{database}"), self.clock)
        self.registry = BuildRegistry(self.store, BuildPolicy(lock_wait=timedelta(0)), sleep=lambda _: None)
        self.storage = Storage(self.folder / "flights", sleep=lambda _: None)
        self.seen = 0
        self.newest: datetime | None = None

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    def doomed(self, changes: int | None, after: bool) -> Storage:
        """The storage of a process that may be killed."""
        storage = Perilous(self.folder / "flights")
        storage.changes_left, storage.after = changes, after
        return storage

    # -- what may happen ---------------------------------------------------------------------------------------------------

    @rule(target=runs, day=days, owner=owners)
    def begin(self, day: int, owner: str | None) -> RunHandle:
        return begun(self.registry, self.storage, MIDNIGHT + day * DAY, shards=SHARDS, owner=owner)

    @rule(handle=runs, shard_id=st.integers(0, SHARDS - 1), task=st.sampled_from([1, 2, 10]))
    def write(self, handle: RunHandle, shard_id: int, task: int) -> None:
        if self.is_there(handle):
            write_attempt(self.storage, handle.run_id, shard_id, task=task)

    @rule(target=ready, handle=runs)
    def select(self, handle: RunHandle) -> MultipleResults[Ready] | Ready:
        if not self.is_there(handle):
            return multiple()
        for shard_id in range(SHARDS):
            write_attempt(self.storage, handle.run_id, shard_id, task=5)
        return handle, selected(self.storage, handle)

    @rule(handle=runs)
    def beat(self, handle: RunHandle) -> None:
        self.registry.heartbeat(handle)

    @rule(handle=runs)
    def fail(self, handle: RunHandle) -> None:
        self.registry.fail(handle, "it was no good")

    @rule(build=consumes(ready), changes=st.none() | st.integers(0, 2), after=st.booleans())
    def publish(self, build: Ready, changes: int | None, after: bool) -> None:
        handle, manifest = build
        with suppress(StaleBuild, DatasetBusy, Killed):
            outcome = publish(self.registry, self.doomed(changes, after), handle, manifest)
            assert outcome.recorded
            if outcome.moved:
                assert self.registry.dataset(DATASET).current_run == handle.run_id

    @rule(build=consumes(ready), other=consumes(ready))
    def publish_while_asleep(self, build: Ready, other: Ready) -> None:
        """A publisher sleeps right before its write of the pointer, longer than its lease; another publishes and cleans up."""
        machine = self

        class Asleep(Storage):
            def write(self, path: str, data: bytes, *, tries: int = 3) -> None:
                if path == layout.CURRENT:
                    machine.clock.move(machine.registry.policy.lock_lease)
                    with suppress(StaleBuild):
                        publish(machine.registry, machine.storage, *other)
                    cleanup(machine.registry, machine.storage, DATASET, RETENTION)
                    machine.look()
                super().write(path, data, tries=tries)

        with suppress(StaleBuild, DatasetBusy):
            publish(self.registry, Asleep(self.folder / "flights"), *build)

    @rule(to=st.sampled_from(["-1", "-2", "20260101T000000Z", "20260103T000000Z"]), changes=st.none() | st.integers(0, 1))
    def roll_back(self, to: str, changes: int | None) -> None:
        with suppress(BuildNotFound, DatasetBusy, DatasetNotFound, Killed):
            rollback(self.registry, self.doomed(changes, True), DATASET, to, None)

    @precondition(lambda self: self.registry.datasets().items)
    @rule(changes=st.none() | st.integers(0, 3), after=st.booleans())
    def clean_up(self, changes: int | None, after: bool) -> None:
        live = {run.run_id: self.objects_of(run.run_id) for run in self.living()}
        planned = cleanup(self.registry, self.storage, DATASET, RETENTION, dry_run=True)
        try:
            done = cleanup(self.registry, self.doomed(changes, after), DATASET, RETENTION)
        except (DatasetBusy, Killed):
            pass
        else:
            assert done == planned
        assert all(self.objects_of(run_id) >= objects for run_id, objects in live.items()), "a run in flight survives"

    @precondition(lambda self: self.registry.datasets().items)
    @rule(phase=st.sampled_from([cleanup_losers, cleanup_old_runs, cleanup_stale_attempts]))
    def clean_up_in_part(self, phase: Callable[..., object]) -> None:
        with suppress(DatasetBusy):
            phase(self.registry, self.storage, DATASET, RETENTION)

    @rule(minutes=st.sampled_from([1, 3, 40, 130]))
    def move_the_clock(self, minutes: int) -> None:
        self.clock.move(timedelta(minutes=minutes))

    # -- what must hold ----------------------------------------------------------------------------------------------------

    @invariant()
    def count_the_step(self) -> None:
        self.taken["steps"] += 1

    def is_there(self, handle: RunHandle) -> bool:
        """Writers that outlive the second pass of cleanup are reported by ``unknown_folders``, and tested elsewhere."""
        return self.registry.run(DATASET, handle.run_id).deleted_at is None

    def living(self) -> list[BuildRun]:
        runs = self.registry.runs(DATASET, limit=1000, status=RunStatus.RUNNING).items
        return [run for run in runs if run.lease_until is not None and run.lease_until > self.clock.now]

    def objects_of(self, run_id: str) -> set[str]:
        return {found.path for found in self.storage.objects(layout.run_folder(run_id))}

    @invariant()
    def look(self) -> None:
        """A reader that stays sees a complete build, and never an older publication than it has seen."""
        pointer = read_pointer(self.storage)
        if pointer is None:
            assert self.seen == 0, "what was published once is never gone"
            return
        if pointer.publication < self.seen:
            return  # a reader that has seen more keeps it; new readers are checked below
        complete(self.storage, pointer.manifest, pointer.checksum)
        self.seen = pointer.publication

    @invariant()
    def new_readers_see_a_complete_build(self) -> None:
        """A new reader sees a complete build too, if only by falling back."""
        pointer = read_pointer(self.storage)
        if pointer is None or pointer.publication >= self.seen:
            return
        assert current_run(self.storage) is not None

    @precondition(lambda self: self.registry.datasets().items)
    @invariant()
    def the_newest_never_gets_older(self) -> None:
        known = self.registry.dataset(DATASET)
        if known.newest_as_of is None:
            assert self.newest is None
            return
        assert self.newest is None or known.newest_as_of >= self.newest
        self.newest = known.newest_as_of
        moves = self.registry.publications(DATASET, limit=1000)
        if not any(each.kind is PublicationKind.ROLLBACK for each in moves):
            assert known.current_run is not None
            assert self.registry.run(DATASET, known.current_run).as_of == known.newest_as_of

    @precondition(lambda self: self.registry.datasets().items)
    @rule()
    def let_it_heal(self) -> None:
        """Once all leases have expired, two cleanups leave exactly what is recorded, and the pointer is the registry's."""
        for _ in range(2):
            self.clock.move(DAY)
            cleanup(self.registry, self.storage, DATASET, RETENTION)
        assert cleanup(self.registry, self.storage, DATASET, RETENTION) == []
        assert unknown_folders(self.registry, self.storage, DATASET) == []
        known, pointer = self.registry.dataset(DATASET), read_pointer(self.storage)
        seen = (pointer.run_id, pointer.publication) if pointer is not None else (None, None)
        assert seen == (known.current_run, known.publication)
        kept = [run for run in self.registry.runs(DATASET, limit=999, status=RunStatus.SUCCEEDED).items if run.deleted_at is None]
        assert set(folders(self.storage, "data/")) == {run.run_id for run in kept}
        for run in kept:
            assert run.manifest is not None
            complete(self.storage, run.manifest, run.checksum)


def test_every_sequence_of_steps_keeps_the_promises(
    migrated_sqlite: Path, record_property: Callable[[str, object], None]
) -> None:
    taken: Counter[str] = Counter()
    bounded = settings(max_examples=EXAMPLES, stateful_step_count=STEPS)
    run_state_machine_as_test(lambda: Promises(migrated_sqlite, taken), settings=bounded)
    record_property("steps", taken["steps"])
    assert taken["steps"] >= (10_000 if SOAK else EXAMPLES)
