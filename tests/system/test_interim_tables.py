"""Interim tables through Airflow's own processes: handed on, retried, cleared, killed, paused and deferred, all of it at once.

The collector's clock is hours ahead at every pass, so that each lease has run out by then: what keeps a table is that Airflow
says that somebody may still need it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from airflow_snowpack.interim import InterimRegistry
from airflow_snowpack.interim.collection.collector import Collector
from airflow_snowpack.interim.model import TableState
from airflow_snowpack.store import open_store
from tests.system.conftest import AirflowHome, Run, RunningAirflow

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

NAMESPACE = "snowpack_interim"
KILLS, CLEARS, PAUSED = "system_interim_kills", "system_interim_clears", "system_interim_paused"
TWINS = "system_interim_twins"


@dataclass
class Ahead:
    """A clock that is further ahead every time that it is told to."""

    by: timedelta = timedelta(0)

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.by


@dataclass
class Collecting:
    """The collector, and what it leaves."""

    registry: InterimRegistry
    collector: Collector
    catalog: Catalog
    clock: Ahead
    tables: dict[str, str] = field(default_factory=dict)  # all that were ever seen, with their folders

    def run(self) -> None:
        """One pass that looks at every run."""
        self.clock.by += timedelta(hours=3)
        collected = self.collector.run()
        assert collected.failed == ()

    def nothing_left_of(self, run: Run) -> None:
        """After a pass, the run has no table on record."""
        self.run()
        assert self.registry.tables(dag_id=run.dag_id, run_id=run.run_id) == []

    def outputs(self, run: Run) -> set[str]:
        """The tasks that have handed on tables which are there; each of them can be read."""
        found = self.registry.tables(dag_id=run.dag_id, run_id=run.run_id, state=TableState.READY)
        for table in found:
            assert table.location is not None
            self.tables[table.table.table] = table.location
            assert self.catalog.load_table(table.table.identifier).scan().to_arrow().num_rows == table.rows
        return {table.producer.task_id for table in found}

    def gone(self) -> None:
        """No table that was seen is there any more, nor a file of it, except those that are on record."""
        on_record = {table.table.table for table in self.registry.tables(limit=1000)}
        in_catalog = {name for _, name in self.catalog.list_tables(NAMESPACE)}
        assert in_catalog <= on_record
        for name, location in self.tables.items():
            left = [] if name in on_record else [path for path in _folder(location).rglob("*") if path.is_file()]
            assert left == [], name


def _folder(location: str) -> Path:
    from pathlib import Path

    return Path(location.removeprefix("file://"))


@pytest.fixture(scope="module")
def collecting(_running: RunningAirflow, airflow_home: AirflowHome, catalog: Catalog) -> Iterator[Collecting]:
    from airflow_snowpack.hooks.api_client import AirflowRest
    from airflow_snowpack.hooks.run_states import RestRunStates

    clock = Ahead()
    with (
        open_store(f"sqlite:///{airflow_home.home / 'snowpack.db'}", clock=clock) as store,
        AirflowRest(f"http://127.0.0.1:{airflow_home.port}", "admin", "admin") as rest,
    ):
        registry = InterimRegistry(store)
        collector = Collector(registry, RestRunStates(rest), lambda _: catalog)
        yield Collecting(registry, collector, catalog, clock)


@dataclass
class Stories:
    """Runs that were started together."""

    airflow: RunningAirflow
    folder: Path
    runs: dict[str, Run] = field(default_factory=dict)
    orphan: psutil.Process = field(init=False)

    def tell(self, story: str, dag_id: str) -> None:
        self.runs[story] = self.airflow.trigger(dag_id, {"story": story, "folder": str(self.folder)})

    def process(self, story: str) -> psutil.Process:
        """The one that waits in this story."""
        pid = self.airflow.until((self.folder / f"{story}.pid").exists, f"a task of {story} waits")
        assert pid
        text = self.airflow.until((self.folder / f"{story}.pid").read_text, f"a task of {story} has said who it is")
        return psutil.Process(int(text))

    def go_on(self, story: str) -> None:
        (self.folder / f"{story}.go").touch()


@pytest.fixture(scope="module")
def stories(_running: RunningAirflow, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stories]:
    """All of them at once. Two tasks are killed while they write: one itself, and the supervisor of the other."""
    told = Stories(_running, tmp_path_factory.mktemp("stories"))
    for story in ("killed", "orphaned"):
        told.tell(story, KILLS)
    told.process("killed").kill()
    told.orphan = told.process("orphaned")
    supervisor = told.orphan.parent()
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    told.tell("diamond", "system_interim")
    told.tell("fails", KILLS)
    told.tell("cleared", CLEARS)
    told.tell("paused", PAUSED)
    yield told
    for story in told.runs:
        told.go_on(story)


def clear(airflow: RunningAirflow, run: Run, *task_ids: str, downstream: bool = False) -> None:
    body = {
        "dry_run": False,
        "dag_run_id": run.run_id,
        "task_ids": list(task_ids),
        "only_failed": False,
        "reset_dag_runs": True,
        "include_downstream": downstream,
    }
    path = f"/dags/{run.dag_id}/clearTaskInstances"
    # Airflow's own SQLite answers that it is busy, now and then.
    airflow.until(lambda: airflow.call("POST", path, body, allowed=(200, 500)), f"{task_ids} are cleared")


def tried(airflow: RunningAirflow, run: Run, task_id: str) -> tuple[int, str]:
    task = airflow.task(run, task_id)
    return task["try_number"], task["state"]


def log_of(airflow: RunningAirflow, run: Run, task_id: str) -> str:
    tried = airflow.task(run, task_id)["try_number"]
    return str(airflow.call("GET", f"{run.path}/taskInstances/{task_id}/logs/{tried}?full_content=true"))


def test_what_an_orphan_writes_late_reaches_nobody_and_is_dropped(
    airflow: RunningAirflow, stories: Stories, collecting: Collecting
) -> None:
    """First, before any pass: a clock that is hours ahead would take the orphan for dead before its table is there."""
    run, orphan = stories.runs["orphaned"], stories.orphan
    airflow.until(lambda: airflow.task(run, "use")["try_number"] >= 2, "the retry has begun")
    # Where the machine is busy, Airflow may give up on a retry as well.
    used = airflow.task_becomes(run, "use", "success")["try_number"]
    assert orphan.is_running()
    stories.go_on("orphaned")
    airflow.until(lambda: not orphan.is_running() or orphan.status() == psutil.STATUS_ZOMBIE, "the orphan leaves")

    assert airflow.ended(run) == "success"
    assert airflow.result(run, "check") == [{"story": "orphaned", "try": used}]
    collecting.nothing_left_of(run)
    collecting.gone()


def test_a_cleared_consumer_finds_its_table_while_another_needs_it_and_is_told_what_to_clear_when_nobody_did(
    airflow: RunningAirflow, stories: Stories, collecting: Collecting
) -> None:
    run = stories.runs["cleared"]
    stories.process("cleared")
    airflow.task_becomes(run, "count", "success")
    collecting.run()
    assert collecting.outputs(run) == {"make"}
    clear(airflow, run, "count")
    airflow.until(lambda: tried(airflow, run, "count") == (2, "success"), "it counted again")

    stories.go_on("cleared")
    assert airflow.ended(run) == "success"
    collecting.nothing_left_of(run)

    clear(airflow, run, "count")
    airflow.task_becomes(run, "count", "failed")
    assert tried(airflow, run, "count") == (3, "failed"), "it fails at once, and for good"
    # Whoever clears before the scheduler has noted the end is overruled by it, and the run stays failed.
    assert airflow.ended(run) == "failed"
    assert "Clear its producer too, the task 'make'" in log_of(airflow, run, "count").replace("\\", "")

    clear(airflow, run, "make", downstream=True)
    airflow.task_becomes(run, "late", "success")
    assert airflow.ended(run) == "success"
    assert (airflow.result(run, "count"), airflow.result(run, "late")) == (3, 3)
    collecting.nothing_left_of(run)
    collecting.gone()


def test_a_paused_dag_keeps_what_its_waiting_tasks_were_handed(
    airflow: RunningAirflow, stories: Stories, collecting: Collecting
) -> None:
    run = stories.runs["paused"]
    stories.process("paused")

    def pause(paused: bool) -> None:
        body = {"is_paused": paused}
        airflow.until(lambda: airflow.call("PATCH", f"/dags/{PAUSED}", body, allowed=(200, 500)), f"it is paused: {paused}")

    pause(True)
    stories.go_on("paused")
    airflow.task_becomes(run, "slow", "success")
    airflow.task_becomes(run, "count", "success")
    collecting.run()
    assert collecting.outputs(run) == {"make"}, "its own consumers are done; who was handed it by one of them is not"

    pause(False)
    assert airflow.ended(run) == "success"
    assert airflow.result(run, "late") == 3
    collecting.nothing_left_of(run)


def test_two_runs_at_once_read_what_is_their_own_and_a_deferral_between_keeps_it_there(
    airflow: RunningAirflow, stories: Stories, collecting: Collecting
) -> None:
    """Both runs' tasks wait for each other: no other story may hold a place that they need."""
    for story in list(stories.runs):
        stories.go_on(story)
    for story in ("left", "right"):
        stories.tell(story, TWINS)
    runs = {story: stories.runs[story] for story in ("left", "right")}
    for run in runs.values():
        airflow.task_becomes(run, "wait", "deferred")
    collecting.run()
    for story, run in runs.items():
        assert collecting.outputs(run) == {"spell"}, "who needs it has not begun"
        (table,) = collecting.registry.tables(dag_id=run.dag_id, run_id=run.run_id)
        assert (table.name, table.is_named, table.rows) == ("letters", True, len(story))
        assert {pin.rpartition("/")[2] for pin in table.pins} == {"wait", "read"}
        assert airflow.task(run, "wait")["state"] not in ("success", "failed")

    for story in runs:
        stories.go_on(story)
    for story, run in runs.items():
        assert airflow.ended(run) == "success"
        assert airflow.result(run, "read") == {"handed": story, "named": story}
        assert tried(airflow, run, "read") == (1, "success")
        collecting.nothing_left_of(run)
    collecting.gone()


def test_a_task_that_is_killed_while_it_writes_is_retried_with_its_input_and_leaves_nothing(
    airflow: RunningAirflow, stories: Stories, collecting: Collecting
) -> None:
    run = stories.runs["killed"]
    assert airflow.ended(run) == "success"
    assert airflow.result(run, "check") == [{"story": "killed", "try": 2}]
    collecting.nothing_left_of(run)


def test_tables_go_through_a_diamond_a_fan_out_and_a_consumer_that_fails_twice(
    airflow: RunningAirflow, stories: Stories, collecting: Collecting
) -> None:
    run = stories.runs["diamond"]
    airflow.until(lambda: airflow.task(run, "brittle")["try_number"] > 1, "the consumer is tried again")
    collecting.run()
    there = collecting.outputs(run)
    assert "source" in there or tried(airflow, run, "tidy")[1] == "success", "who comes last has still to read it"

    assert airflow.ended(run) == "success"
    assert airflow.result(run, "report") == {
        "diamond": [{"n": 2, "twice": 4}, {"n": 3, "twice": 6}],
        "parts": [1, 2],
    }
    assert tried(airflow, run, "brittle") == (3, "success")
    assert [tried(airflow, run, task_id)[1] for task_id in ("unused", "tidy")] == ["skipped", "success"]
    collecting.nothing_left_of(run)
    collecting.gone()


def test_nothing_is_left_of_a_run_that_failed(airflow: RunningAirflow, stories: Stories, collecting: Collecting) -> None:
    run = stories.runs["fails"]
    assert airflow.ended(run) == "failed"
    collecting.nothing_left_of(run)
