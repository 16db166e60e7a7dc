"""kill -9 of the process of a pass at random moments: every planned table is maintained once, or named as waiting.

The process plans, submits, claims, runs and reports. After a kill another process resumes the pass, as retries of its tasks do.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from subprocess import PIPE

import kill_fleet
import pytest
import sqlalchemy as sa
from bounded import started
from clocks import ShiftedClock
from effort import rounds, seed
from fleet_lake import FleetLake

from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.jobs import JobStatus, LifecyclePolicy
from airflow_snowpack.maintenance.fleet import EntryState, PassState
from airflow_snowpack.store import open_store
from airflow_snowpack.store.tables.jobs import job_queue, table_locks

pytestmark = pytest.mark.both_in_soak

ROUNDS = rounds(4, soak=50)
TABLES = 4
LEASE = LifecyclePolicy().lease


@pytest.fixture
def fleet(store_url: str, tmp_path: Path) -> FleetLake:
    """The process that resumes; its clock is moved on, so that leases of killed processes have expired."""
    lake = FleetLake(CatalogConfig.embedded(tmp_path), open_store(store_url, clock=ShiftedClock()))
    for number in range(TABLES):
        lake.make(f"t{number}", commits=4 + number)
    return lake


@pytest.fixture
def doomed(store_url: str, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """A process that runs a pass for each line, and reports whether it was killed."""
    command = [sys.executable, kill_fleet.__file__, store_url, str(tmp_path)]
    with started(command, stdin=PIPE, stdout=PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def live(line: str) -> str:
            stdin.write(f"{line}\n")
            stdin.flush()
            return str(stdout.readline().strip())

        assert stdout.readline() == "ready\n"
        yield live


def resume(fleet: FleetLake, owner: str) -> None:
    """What the retries of the tasks do once the leases of the killed process have expired."""
    clock = fleet.store.clock
    assert isinstance(clock, ShiftedClock)
    clock.ahead += LEASE + timedelta(minutes=1)
    fleet.jobs.sweep()
    clock.ahead += timedelta(minutes=5)  # the back-off of a requeued job
    kill_fleet.run_pass(fleet, owner, "survivor")


def assert_each_table_is_accounted_for(fleet: FleetLake, owner: str) -> int:
    """Check the pass of this owner; return how many of its tables were maintained."""
    passes = [each for each in fleet.passes.list(limit=1_000).items if each.owner == owner]
    for ended in passes:
        assert ended.state is PassState.ENDED
        entries = fleet.passes.entries(ended.pass_id)
        maintained = [entry for entry in entries if entry.state is EntryState.MAINTAINED]
        assert len(maintained) <= kill_fleet.BUDGET.tables or 0
        assert {entry.state for entry in entries} <= {EntryState.MAINTAINED, EntryState.WAITING}
        assert all(entry.reason for entry in entries if entry.state is EntryState.WAITING)
        assert len(entries) == TABLES
        assert ended.report is not None
        assert ended.report["counts"]["maintained"] == len(maintained)
        for entry in maintained:
            assert fleet.jobs.get(entry.job_id or "").status is JobStatus.COMPLETED
    with fleet.store.engine.connect() as conn:
        assert conn.execute(sa.select(job_queue)).all() == []
        assert conn.execute(sa.select(table_locks)).all() == []
    submitted = Counter(job.table for job in fleet.jobs.list(limit=10_000) if job.submitted_by == owner)
    assert all(number <= len(passes) for number in submitted.values()), "a table has at most one job for each pass"
    return sum(each.report["counts"]["maintained"] for each in passes if each.report)


def test_the_next_pass_takes_over_the_tables_of_a_command_that_was_killed_when_its_lease_has_expired(
    fleet: FleetLake, doomed: Callable[[str], str]
) -> None:
    """One job was running, and others waited for the process that is gone."""
    assert doomed("0 command-1/run") == "killed"
    (left,) = fleet.passes.list().items
    alive = kill_fleet.run_pass(fleet, "night1/run/plan", "survivor")
    assert fleet.passes.get(left.pass_id).state is PassState.RUNNING, "the command may still run"
    assert (alive.counts["maintained"], len(fleet.jobs.locks.list())) == (1, 3), "its tables are left to it"

    clock = fleet.store.clock
    assert isinstance(clock, ShiftedClock)
    clock.ahead += LEASE + timedelta(minutes=1)
    next_night = kill_fleet.run_pass(fleet, "night2/run/plan", "survivor")
    assert next_night.counts["maintained"] == kill_fleet.BUDGET.tables
    ended = fleet.passes.get(left.pass_id)
    assert (ended.state, (ended.report or {})["counts"]["failed"]) == (PassState.ENDED, 1)
    assert fleet.jobs.locks.list() == []


def test_after_a_kill_at_any_moment_each_planned_table_is_maintained_once_or_named_as_waiting(
    fleet: FleetLake, doomed: Callable[[str], str], record_property: Callable[[str, object], None]
) -> None:
    chance, killed, longest = random.Random(seed(18)), 0, 400
    for number in range(ROUNDS):
        owner = f"night{number}/run/plan"
        answer = doomed(f"{chance.randrange(1, longest)} {owner}")
        killed += answer == "killed"
        assert answer in ("killed", "finished 0")
        resume(fleet, owner)
        assert assert_each_table_is_accounted_for(fleet, owner) >= kill_fleet.BUDGET.tables or 0
    record_property("faults", killed)
    assert killed >= ROUNDS / 2
