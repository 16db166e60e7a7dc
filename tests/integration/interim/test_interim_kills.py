"""kill -9 at the statements, commits, catalog calls and deletions in the life of an interim table, by real processes.

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
from pathlib import Path
from subprocess import PIPE

import kill_interim
import pytest
from bounded import PATIENCE_S, started
from clocks import ShiftedClock
from effort import rounds
from interim_lake import InterimLake, ReportedRuns, holder, new_catalog

from airflow_snowpack.interim.collection.dropping import folder_of_namespace
from airflow_snowpack.interim.collection.sweeper import sweep
from airflow_snowpack.interim.ownership import claim
from airflow_snowpack.interim.registry import InterimRegistry
from airflow_snowpack.store import Store
from airflow_snowpack.store.opening import open_engine

pytestmark = pytest.mark.both_in_soak

LONGEST_S = max(900.0, PATIENCE_S)


@pytest.fixture
def home() -> Iterator[Path]:
    """In memory, where there is such a disk: a kill is no power cut."""
    memory = Path("/dev/shm")
    made = Path(tempfile.mkdtemp(prefix="snowpack-kills-", dir=memory if memory.is_dir() else None))
    yield made
    shutil.rmtree(made)


@contextmanager
def doomed(url: str, home: Path) -> Iterator[Callable[[int, timedelta], str]]:
    """A process that goes through every step for each number, unless it is killed at the moment of that number."""
    command = [sys.executable, kill_interim.__file__, url, str(home)]
    with started(command, patience_s=LONGEST_S, stdin=PIPE, stdout=PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def live(moment: int, ahead: timedelta) -> str:
            stdin.write(f"{moment} {ahead.total_seconds()}\n")
            stdin.flush()
            return stdout.readline().strip()

        assert stdout.readline() == "ready\n"
        yield live


def assert_nothing_is_left(lake: InterimLake, run_id: str) -> None:
    """No row, no table and no folder of this run."""
    assert lake.registry.tables(run_id=run_id) == []
    assert not [name for name in lake.catalog.list_tables(("snowpack_interim",)) if "keep" not in name[-1]]
    around = folder_of_namespace(lake.catalog, "snowpack_interim")
    assert around is not None
    assert not [name for name in around.children() if "keep" not in name]


def moments_of(answer: str) -> int:
    """How many moments the steps had, of a process that was not killed."""
    finished, number = answer.split()
    assert finished == "finished"
    return int(number)


@pytest.mark.timeout(LONGEST_S + 20)
def test_a_kill_at_any_moment_leaks_nothing_and_drops_nothing_that_is_needed(
    store_url: str, home: Path, record_property: Callable[[str, object], None]
) -> None:
    clock, catalog = ShiftedClock(), new_catalog(home)
    with Store(open_engine(store_url), clock) as store, doomed(store_url, home) as live:
        claim(catalog, "lake", "snowpack_interim", store.identity)
        lake, reported = InterimLake(InterimRegistry(store), catalog), ReportedRuns()

        def live_and_collect(moment: int) -> str:
            run_id = f"run{moment}"
            needed = lake.handed_on("keep", consumers=["later"], run_id=run_id)
            answer = live(moment, clock.ahead)

            reported.finish("clean", "report", "publish", run_id=run_id)
            for _ in range(3):
                clock.ahead += timedelta(hours=2)
                assert lake.collector(reported).run().failed == ()
            assert lake.tables() == {needed.table}, "what a consumer needs is there"
            lake.registry.release(lake.registry.consume([needed], attempt=holder("later", run_id=run_id)))
            left = lake.registry.tables(run_id=run_id)
            assert [table.table_id for table in left if not table.is_named] == [needed.table_id]

            reported.end(run_id)
            clock.ahead += timedelta(hours=2)
            lake.collector(reported).run()
            assert_nothing_is_left(lake, run_id)
            clock.ahead += timedelta(days=2)
            assert sweep(lake.registry, catalog, "lake", dry_run=True) == [], "not even for the sweeper"
            assert lake.collector(reported).run().runs == 0, "the run is forgotten"
            return answer

        moments = moments_of(live_and_collect(0))
        assert moments > 100, "every step was met"
        every = rounds(moments // 3, soak=1)
        first = 1 + every * (2 if store.is_postgres else 1) // 3  # other moments on each database
        killed = 0
        while (answer := live_and_collect(first + killed * every)) == "killed":
            killed += 1
    assert moments_of(answer) > 100, "the last one, at a moment that never came, met every step too"
    assert killed >= rounds(2, soak=100)
    record_property("faults", killed)
