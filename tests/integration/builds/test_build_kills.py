"""kill -9 at every statement, commit and storage call of build, publish, rollback and cleanup, by real processes.

Each moment takes a process of its own, so the suite meets each nineteenth of some hundreds of moments, others on each database;
``SNOWPACK_KILL_EVERY=1`` meets them all.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING

import kill_builds
import pytest
from bounded import started
from built_runs import DATASET, DAY, MIDNIGHT, begun, built, complete, served, write_attempt

from airflow_snowpack.builds.cleanup import cleanup, strangers
from airflow_snowpack.builds.model import Retention, RunStatus
from airflow_snowpack.builds.pointer import read_pointer
from airflow_snowpack.builds.publish import publish
from airflow_snowpack.builds.registry import BuildRegistry
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.store import Store, utc_now
from airflow_snowpack.store.engine import open_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

EVERY = int(os.environ.get("SNOWPACK_KILL_EVERY", "19"))
LONGEST_S = 400.0 if EVERY == 19 else 3600.0
RETENTION = Retention(keep_runs=2)


class ShiftedClock:
    """The machine's clock, moved on by the test."""

    ahead = timedelta(0)

    def __call__(self) -> datetime:
        return utc_now() + self.ahead


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory, where there is such a disk: what is synced a thousand times costs nothing there, and a kill is no power cut."""
    memory = Path("/dev/shm")
    made = Path(tempfile.mkdtemp(prefix="snowpack-kills-", dir=memory if memory.is_dir() else None))
    yield made / "flights"
    shutil.rmtree(made)


@contextmanager
def doomed(url: str, folder: Path) -> Iterator[Callable[[int], str]]:
    """Somebody who goes through every step for each number, and says whether he was killed."""
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
    assert strangers(registry, storage, DATASET) == []
    kept = [run for run in registry.runs(DATASET, limit=10_000, status=RunStatus.SUCCEEDED) if run.deleted_at is None]
    assert set(storage.folders("data/")) == {run.run_id for run in kept}
    for run in kept:
        assert run.manifest is not None
        complete(storage, run.manifest, run.checksum)
    pointer, known = read_pointer(storage), registry.dataset(DATASET)
    assert pointer is not None
    assert (pointer.run_id, pointer.publication) == (known.current_run, known.publication)


@pytest.mark.timeout(LONGEST_S + 20)
def test_a_kill_at_any_moment_leaves_a_complete_build_and_the_next_run_cleans_up(
    store_url: str, folder: Path, record_property: Callable[[str, object], None]
) -> None:
    storage, clock = Storage(folder), ShiftedClock()
    seen, killed, day = 0, 0, 9
    with Store(open_engine(store_url), clock) as store, doomed(store_url, folder) as live:
        registry = BuildRegistry(store)
        for day in range(1, 3):
            publish(registry, storage, *built(registry, storage, MIDNIGHT + day * DAY, shards=1))
        first = 1 + (EVERY // 2 if store.is_postgres else 0)
        for day, moment in zip(count(10), count(first, EVERY)):
            in_flight = begun(registry, storage, MIDNIGHT + day * DAY, shards=1)
            its_attempt = write_attempt(storage, in_flight.run_id, 0)
            answer = live(moment)
            killed += answer == "killed"

            pointer = read_pointer(storage)
            assert pointer is not None
            assert pointer.publication >= seen, "the pointer never goes back"
            assert served(storage) == pointer.run_id, "without falling back"
            assert storage.exists(its_attempt.url or ""), "a run in flight survives"

            clock.ahead += timedelta(minutes=5)
            outcome = publish(
                registry, storage, *built(registry, storage, MIDNIGHT + day * DAY + DAY / 2, shards=1, owner="task")
            )
            assert outcome.moved, "the next run goes on"
            assert served(storage) == outcome.run_id
            seen = outcome.publication or 0
            for _ in range(3):
                clock.ahead += timedelta(days=1, minutes=1)
                assert not any(action.error for action in cleanup(registry, storage, DATASET, RETENTION))
            assert_healed(registry, storage)
            if answer != "killed":
                break
    assert answer == "finished 0"
    record_property("moments", killed)
    assert moment > 200, f"every step was met, in {moment} moments"
