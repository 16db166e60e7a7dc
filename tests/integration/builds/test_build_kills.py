"""kill -9 at the statements, commits and storage calls of build, publish, rollback and cleanup, by real processes.

Each kill takes a process of its own, so ``make test`` has three on each database, a third of the way apart; with
``SNOWPACK_SOAK=1`` there is one at every statement, every commit and every write.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from subprocess import PIPE

import kill_builds
import pytest
from bounded import PATIENCE_S, started
from built_runs import (
    DATASET,
    DAY,
    MIDNIGHT,
    begun,
    built,
    complete,
    current_run,
    everything,
    folders,
    unknown_folders,
    write_attempt,
)
from clocks import ShiftedClock
from effort import rounds

from airflow_snowpack.builds.cleanup import cleanup
from airflow_snowpack.builds.model import Retention
from airflow_snowpack.builds.pointer import read_pointer
from airflow_snowpack.builds.publish import publish
from airflow_snowpack.builds.registry.model import RunStatus
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.store import Store
from airflow_snowpack.store.opening import open_engine

pytestmark = pytest.mark.both_in_soak

LONGEST_S = max(900.0, PATIENCE_S)
RETENTION = Retention(keep_runs=2)


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory, where there is such a disk: what is synced a thousand times costs nothing there, and a kill is no power cut."""
    memory = Path("/dev/shm")
    made = Path(tempfile.mkdtemp(prefix="snowpack-kills-", dir=memory if memory.is_dir() else None))
    yield made / "flights"
    shutil.rmtree(made)


@contextmanager
def doomed(url: str, folder: Path) -> Iterator[Callable[[int], str]]:
    """A process that goes through every step for each number, unless it is killed at the moment of that number."""
    command = [sys.executable, kill_builds.__file__, url, str(folder)]
    with started(command, patience_s=LONGEST_S, stdin=PIPE, stdout=PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def live(moment: int) -> str:
            stdin.write(f"{moment}\n")
            stdin.flush()
            return stdout.readline().strip()

        assert stdout.readline() == "ready\n"
        yield live


def assert_healed(registry: BuildRegistry, storage: Storage) -> None:
    """What is there is what is on record, and all of it is whole."""
    assert unknown_folders(registry, storage, DATASET) == []
    kept = [run for run in registry.runs(DATASET, limit=10_000, status=RunStatus.SUCCEEDED).items if run.deleted_at is None]
    assert set(folders(storage, "data/")) == {run.run_id for run in kept}
    for run in kept:
        assert run.manifest is not None
        complete(storage, run.manifest, run.checksum)
    pointer, known = read_pointer(storage), registry.dataset(DATASET)
    assert pointer is not None
    assert (pointer.run_id, pointer.publication) == (known.current_run, known.publication)


def moments_of(answer: str) -> int:
    """How many moments the steps had, of a process that was not killed."""
    finished, number = answer.split()
    assert finished == "finished"
    return int(number)


@pytest.mark.timeout(LONGEST_S + 20)
def test_a_kill_at_any_moment_leaves_a_complete_build_and_the_next_run_cleans_up(
    store_url: str, folder: Path, record_property: Callable[[str, object], None]
) -> None:
    storage, clock, seen = Storage(folder), ShiftedClock(), 0
    days = count(10)
    with Store(open_engine(store_url), clock) as store, doomed(store_url, folder) as live:
        registry = BuildRegistry(store)

        def live_and_heal(moment: int) -> str:
            nonlocal seen
            day = next(days)
            in_flight = begun(registry, storage, MIDNIGHT + day * DAY, shards=1)
            its_attempt = write_attempt(storage, in_flight.run_id, 0)
            answer = live(moment)

            pointer = read_pointer(storage)
            assert pointer is not None
            assert pointer.publication >= seen, "the pointer never goes back"
            assert current_run(storage) == pointer.run_id, "without falling back"
            assert its_attempt.url in everything(storage), "a run in flight survives"

            clock.ahead += timedelta(minutes=5)
            outcome = publish(
                registry, storage, *built(registry, storage, MIDNIGHT + day * DAY + DAY / 2, shards=1, owner="task")
            )
            assert outcome.moved, "the next run goes on"
            assert current_run(storage) == outcome.run_id
            seen = outcome.publication or 0
            for _ in range(3):
                clock.ahead += timedelta(days=1, minutes=1)
                assert not any(action.error for action in cleanup(registry, storage, DATASET, RETENTION))
            assert_healed(registry, storage)
            return answer

        for day in range(1, 3):
            publish(registry, storage, *built(registry, storage, MIDNIGHT + day * DAY, shards=1))
        moments = moments_of(live_and_heal(0))
        assert moments > 200, "every step was met"
        every = rounds(moments // 3, soak=1)
        first = 1 + every * (2 if store.is_postgres else 1) // 3  # other moments on each database
        killed = 0
        while (answer := live_and_heal(first + killed * every)) == "killed":
            killed += 1
    assert moments_of(answer) > 200, "the last one, at a moment that never came, met every step too"
    assert killed >= rounds(2, soak=200)
    record_property("faults", killed)
