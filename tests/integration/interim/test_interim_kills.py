"""kill -9 at every statement, commit, catalog call and deletion in the life of an interim table, by real processes.

Each moment takes a process of its own, so the suite meets each 67th of some two hundred moments, others on each database;
``SNOWPACK_KILL_EVERY=1`` meets them all.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from datetime import timedelta
from itertools import count
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING

import kill_interim
import pytest
from bounded import started
from interim_lake import InterimLake, ToldRuns, holder, new_catalog
from kill_interim import ShiftedClock

from airflow_snowpack.interim.folders import folder_of_namespace
from airflow_snowpack.interim.ownership import claim
from airflow_snowpack.interim.registry import InterimRegistry
from airflow_snowpack.interim.sweeper import sweep
from airflow_snowpack.store import Store
from airflow_snowpack.store.engine import open_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EVERY = int(os.environ.get("SNOWPACK_KILL_EVERY", "67"))
LONGEST_S = 400.0 if EVERY == 67 else 3600.0


@pytest.fixture
def home() -> Iterator[Path]:
    """In memory, where there is such a disk: a kill is no power cut."""
    memory = Path("/dev/shm")
    made = Path(tempfile.mkdtemp(prefix="snowpack-kills-", dir=memory if memory.is_dir() else None))
    yield made
    shutil.rmtree(made)


def assert_nothing_is_left(lake: InterimLake, run_id: str) -> None:
    """No row, no table and no folder of this run."""
    assert lake.registry.tables(run_id=run_id) == []
    assert not [name for name in lake.catalog.list_tables(("snowpack_interim",)) if "keep" not in name[-1]]
    around = folder_of_namespace(lake.catalog, "snowpack_interim")
    assert around is not None
    assert not [name for name in around.children() if "keep" not in name]


@pytest.mark.timeout(LONGEST_S + 20)
def test_a_kill_at_any_moment_leaks_nothing_and_drops_nothing_that_is_needed(
    store_url: str, home: Path, record_property: Callable[[str, object], None]
) -> None:
    clock, catalog, killed = ShiftedClock(), new_catalog(home), 0
    command = [sys.executable, kill_interim.__file__, store_url, str(home)]
    with (
        Store(open_engine(store_url), clock) as store,
        started(command, patience_s=LONGEST_S, stdin=PIPE, stdout=PIPE) as doomed,
    ):
        assert doomed.stdin is not None
        assert doomed.stdout is not None
        assert doomed.stdout.readline() == "ready\n"
        claim(catalog, "lake", "snowpack_interim", store.identity)
        lake, told = InterimLake(InterimRegistry(store), catalog), ToldRuns()
        for moment in count(1 + (EVERY // 2 if store.is_postgres else 0), EVERY):
            run_id = f"run{moment}"
            needed = lake.handed_on("keep", consumers=["later"], run_id=run_id)
            doomed.stdin.write(f"{moment} {clock.ahead.total_seconds()}\n")
            doomed.stdin.flush()
            answer = doomed.stdout.readline().strip()
            killed += answer == "killed"

            told.finish("clean", "report", "publish", run_id=run_id)
            for _ in range(3):
                clock.ahead += timedelta(hours=2)
                assert lake.collector(told).run().failed == ()
            assert lake.tables() == {needed.table}, "what a consumer needs is there"
            lake.registry.release(lake.registry.consume([needed], holder=holder("later", run_id=run_id)))
            left = lake.registry.tables(run_id=run_id)
            assert [table.table_id for table in left if not table.is_named] == [needed.table_id]

            told.end(run_id)
            clock.ahead += timedelta(hours=2)
            lake.collector(told).run()
            assert_nothing_is_left(lake, run_id)
            clock.ahead += timedelta(days=2)
            assert sweep(lake.registry, catalog, "lake", dry_run=True) == [], "not even for the sweeper"
            assert lake.collector(told).run().runs == 0, "the run is forgotten"
            if answer != "killed":
                break
    assert answer == "finished 0"
    record_property("moments", killed)
    assert moment > 100, f"every step was met, in {moment} moments"
