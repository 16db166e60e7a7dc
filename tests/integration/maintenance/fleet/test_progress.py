"""The jobs of a pass: one for each chosen table, claimed in order, within the budget, and named when no worker claimed them."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest
from clocks import MovedClock
from counted_reads import counted_reads
from made_plans import made_plan

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import ActionOutcome, ActionResult, Claim, DrainModeOn, Jobs, JobStatus
from airflow_snowpack.jobs.explanation import explain
from airflow_snowpack.maintenance.fleet import Budget, EntryState, Pass, PassEntry
from airflow_snowpack.maintenance.fleet.model import PlannedTable
from airflow_snowpack.maintenance.fleet.passes import FleetPasses
from airflow_snowpack.maintenance.fleet.progress import (
    LOST,
    NO_TIME_LEFT,
    NOT_CLAIMED,
    OUT_OF_TIME,
    OVERSPENT,
    RECORDED_AHEAD,
    JobUsage,
    PassWork,
)
from airflow_snowpack.maintenance.fleet.report import PassReport
from airflow_snowpack.maintenance.planning import Estimate
from airflow_snowpack.store import Store
from tests.support import effort

HOUR = Estimate(files_removed=11, bytes_rewritten=1_000, gb_hours=4.0, seconds=3_600.0)


def table(name: str) -> TableName:
    return TableName("lake", "demo", name, "c0ffee")


class Night:
    """A pass over tables that are not there, and its jobs."""

    def __init__(self, store: Store, clock: MovedClock) -> None:
        self.store, self.clock = store, clock
        self.passes, self.jobs = FleetPasses(store), Jobs(store)
        self.work = PassWork(self.passes, self.jobs)

    def planned(self, *names: str, budget: Budget | None = None, owner: str = "dag/run/plan") -> Pass:
        planning = self.passes.begin(owner, "lake", "c0ffee", budget or Budget(tables=9), workers=2, holder="worker-1")
        evidence = "12 of 12 files are small"
        entries = [
            PassEntry(table(name), place, EntryState.CHOSEN, plan=made_plan(table(name), HOUR, rewrite_data_files=evidence))
            for place, name in enumerate(names)
        ]
        return self.passes.plan(planning, entries, [PlannedTable(table(name), "m1", "p1", True) for name in names], {"listed": 9})

    def submitted(self, *names: str, **more: Any) -> Pass:
        this = self.planned(*names, **more)
        self.work.submit(this)
        return this

    def claim(self, entry: PassEntry | None = None, worker_id: str = "pod-1") -> Claim:
        claim = self.jobs.claim(worker_id, job_id=None if entry is None else entry.job_id, catalog_id="c0ffee")
        assert claim is not None
        return claim

    def usage(self, this: Pass, claim: Claim) -> JobUsage:
        usage = self.work.usage(this, claim.job)
        assert usage is not None
        return usage

    def lose_claims(self) -> None:
        """Requeue the jobs whose workers were lost."""
        self.clock.move(timedelta(minutes=31))
        assert self.jobs.sweep().requeued

    def end(self, entry: PassEntry, error: str | None = None, **metrics: float) -> None:
        status, done = JobStatus.COMPLETED, ActionOutcome.SUCCEEDED
        if error is not None:
            status, done = JobStatus.FAILED, ActionOutcome.FAILED
        seconds = metrics.pop("seconds", 1_800.0)
        result = ActionResult("rewrite_data_files", done, "Compacted", seconds, error=error, metrics=metrics)
        assert self.jobs.finish(self.claim(entry), status, [result], error)

    def states(self, planned: Pass) -> dict[str, EntryState]:
        return {entry.table.table: entry.state for entry in self.passes.entries(planned.pass_id)}

    def reasons(self, planned: Pass) -> dict[str, str | None]:
        return {entry.table.table: entry.reason for entry in self.passes.entries(planned.pass_id) if entry.reason}

    def waited(self, *names: str) -> list[int]:
        plans = self.passes.last_plans("lake", "c0ffee")
        return [plans[table(name).lock_key].passes_waited for name in names]

    def report(self, planned: Pass) -> PassReport:
        return PassReport.of(planned, self.passes.entries(planned.pass_id), self.clock())


@pytest.fixture
def night(store: Store, clock: MovedClock) -> Night:
    return Night(store, clock)


def test_each_chosen_table_gets_one_job_however_often_the_pass_is_submitted(night: Night) -> None:
    this = night.planned("a", "b")
    assert (night.work.submit(this), night.work.submit(this)) == (2, 0)
    claimable = night.work.claimable(this)
    assert [entry.table.table for entry in claimable] == ["a", "b"]
    assert night.jobs.queue_depth("c0ffee") == 2
    assert night.jobs.get(claimable[0].job_id or "").submitted_by == "dag/run/plan"


def test_a_locked_table_waits_for_the_next_pass_and_the_others_go_on(night: Night) -> None:
    this = night.planned("a", "b")
    night.jobs.submit(table("a"), ["expire_snapshots"])
    assert night.work.submit(this) == 1
    assert night.states(this) == {"a": EntryState.WAITING, "b": EntryState.SUBMITTED}
    assert "has been locked by" in (night.reasons(this)["a"] or "")
    assert night.waited("a", "b") == [1, 0]


@pytest.mark.one_database
def test_a_pass_continues_after_drain_mode(night: Night) -> None:
    this = night.planned("a")
    night.jobs.set_drain(True, by="me")
    with pytest.raises(DrainModeOn):
        night.work.submit(this)
    night.jobs.set_drain(False, by="me")
    assert night.work.submit(this) == 1


def test_the_outcome_of_each_job_is_recorded_beside_its_estimate(night: Night) -> None:
    this = night.submitted("a", "b")
    first, second = night.work.claimable(this)
    night.end(first, rewritten_data_files_count=12, rewritten_bytes_count=900)
    night.end(second, "Disk 7 of node 3 is full")

    settled = night.work.settle(this)
    assert [entry.state for entry in settled] == [EntryState.MAINTAINED, EntryState.FAILED]
    half_the_time = Estimate(files_removed=12, bytes_rewritten=900, gb_hours=2.0, seconds=1_800.0)
    assert (settled[0].spent, settled[1].reason) == (half_the_time, "Disk 7 of node 3 is full")
    assert night.work.settle(this) == []


def test_no_table_is_claimed_that_would_end_after_the_time_of_the_pass(night: Night) -> None:
    this = night.submitted("a", "b", budget=Budget(time=timedelta(hours=2)))
    assert len(night.work.claimable(this)) == 2
    night.clock.move(timedelta(minutes=61))
    assert night.work.claimable(this) == []
    night.clock.move(timedelta(hours=1))
    assert night.work.close(this)
    assert night.reasons(this) == {"a": OUT_OF_TIME, "b": OUT_OF_TIME}
    assert night.jobs.queue_depth("c0ffee") == 0
    assert night.jobs.locks.get(table("a")) is None


def test_when_outcomes_exceed_estimates_the_last_tables_are_withdrawn(night: Night) -> None:
    this = night.submitted("a", "b", "c", budget=Budget(gb_hours=12))
    night.end(night.work.claimable(this)[0], seconds=2 * 3_600.0)  # 8 GB·h instead of 4
    night.work.settle(this)
    assert night.states(this) == {"a": EntryState.MAINTAINED, "b": EntryState.SUBMITTED, "c": EntryState.WAITING}
    assert night.reasons(this) == {"c": OVERSPENT}
    assert night.waited("c") == [1]


def test_what_a_lost_attempt_has_used_counts_beside_the_next_attempt(night: Night) -> None:
    this = night.submitted("a", budget=Budget(gb_hours=6))
    (entry,) = night.work.claimable(this)
    lost = night.claim(entry)
    usage = night.usage(this, lost)
    assert night.work.allows(this, usage, 3.3)
    night.lose_claims()
    night.clock.move(timedelta(minutes=5))
    claim = night.claim(entry, "pod-2")
    usage = night.usage(this, claim)
    assert usage.recorded == pytest.approx(3.5), "at most, since it was recorded ahead"
    night.clock.move(timedelta(minutes=15))
    assert night.work.allows(this, usage, None)
    assert usage.recorded == pytest.approx(4.5), "by the estimate of 4 GB·h in an hour"
    assert night.work.allows(this, usage, 2.5)
    assert not night.work.allows(this, usage, 2.6)
    assert not night.work.allows(this, usage, 2.6), "each check beyond the estimate asks the budget"
    result = ActionResult("rewrite_data_files", ActionOutcome.INTERRUPTED, "Interrupted", 60.0, gb_hours=2.6)
    assert night.jobs.finish(claim, JobStatus.CANCELLED, [result], "Stopped")
    (settled,) = night.work.settle(this)
    assert settled.spent is not None
    assert settled.spent.gb_hours == pytest.approx(6.1)


def test_what_a_lost_attempt_has_used_stays_used_when_its_job_is_withdrawn(night: Night) -> None:
    this = night.submitted("a", "b", budget=Budget(gb_hours=8))
    runs, is_lost = night.work.claimable(this)
    lost = night.claim(is_lost)
    usage = night.usage(this, lost)
    assert night.work.allows(this, usage, 3.5)
    night.lose_claims()
    claim = night.claim(runs, "pod-2")
    usage = night.usage(this, claim)

    assert not night.work.allows(this, usage, 4.6), "with 3.7, recorded ahead, it is more than 8"

    assert night.states(this) == {"a": EntryState.SUBMITTED, "b": EntryState.FAILED}


def test_a_job_within_its_estimate_is_recorded_ahead_and_beyond_it_at_each_check(night: Night) -> None:
    checks, gb_hours = 1_800, 4.0  # of an hour, every 2 s
    this = night.submitted("a", "b", budget=Budget(gb_hours=9))
    claim = night.claim()
    usage = night.usage(this, claim)
    with counted_reads(of=night.store.engine) as reads:
        for number in range(checks + 1):
            assert night.work.allows(this, usage, gb_hours * number / checks)
    assert sum(statement.startswith("UPDATE") for statement in reads.of_store) <= 1 / RECORDED_AHEAD
    stored = night.usage(this, claim)
    assert stored.recorded == gb_hours
    with counted_reads(of=night.store.engine) as reads:
        for number in range(3):
            assert night.work.allows(this, usage, 4.1 + number / 10)
    assert sum(statement.startswith("UPDATE") for statement in reads.of_store) == 3
    result = ActionResult("rewrite_data_files", ActionOutcome.SUCCEEDED, "Compacted", 60.0, gb_hours=4.2)
    assert night.jobs.finish(claim, JobStatus.COMPLETED, [result])
    (settled,) = night.work.settle(this)
    assert settled.spent is not None
    assert settled.spent.gb_hours == 4.2, "what was recorded ahead of a job that has measured all of its work does not count"


@pytest.mark.one_database
def test_random_outcomes_of_several_workers_never_exceed_the_budget(night: Night) -> None:
    """Between two checks of its jobs, a pass cannot use more than its workers use in that time."""
    chance, stopped, most = random.Random(4), 0, 0.5
    for number in range(effort.rounds(6, soak=500)):
        budget = Budget(gb_hours=chance.choice([12.0, 14.0, 20.0]))
        this = night.submitted(*(f"n{number}t{each}" for each in range(3)), budget=budget, owner=f"night{number}/run")
        used, running, usages = 0.0, dict[str, tuple[Claim, float, float]](), dict[str, JobUsage]()
        while (entries := night.work.claimable(this, limit=1)) or running:
            if entries and len(running) < 2:
                claim = night.claim(entries[0])
                running[claim.attempt_id] = claim, 0.0, chance.uniform(1.0, 12.0)
                usage = night.usage(this, claim)
                usages[claim.attempt_id] = usage
            for fence, (claim, before, whole) in list(running.items()):
                more = chance.uniform(0.0, most)
                used, own = used + more, before + more
                running[fence] = claim, own, whole
                done = own >= whole
                if not done and night.work.allows(this, usages[fence], own):
                    continue
                outcome = ActionOutcome.SUCCEEDED if done else ActionOutcome.INTERRUPTED
                result = ActionResult("rewrite_data_files", outcome, "Ended", 60.0, gb_hours=own)
                status, error = (JobStatus.COMPLETED, None) if done else (JobStatus.CANCELLED, "Stopped")
                assert night.jobs.finish(claim, status, [result], error)
                del running[fence]
                night.work.settle(this)
                stopped += not done
        night.work.close(this)
        report = night.report(this)
        assert report.spent.gb_hours == pytest.approx(used)
        assert used <= (budget.gb_hours or 0.0) + 2 * most
    assert stopped


def test_a_pass_that_ends_with_too_little_time_for_a_job_says_so_and_not_that_no_worker_came(night: Night) -> None:
    this = night.submitted("a", "b", budget=Budget(time=timedelta(hours=2)))
    night.clock.move(timedelta(minutes=61))
    assert night.work.claimable(this) == []
    assert night.work.close(this)
    assert night.reasons(this) == {"a": NO_TIME_LEFT, "b": NO_TIME_LEFT}


def test_a_pass_with_a_job_that_a_worker_has_stays_open_until_it_ends(night: Night) -> None:
    this = night.submitted("a", "b")
    claim = night.claim()
    assert not night.work.close(this)
    assert night.states(this) == {"a": EntryState.SUBMITTED, "b": EntryState.WAITING}
    assert night.reasons(this) == {"b": NOT_CLAIMED}
    night.jobs.finish(claim, JobStatus.COMPLETED, [])
    assert night.work.close(this)
    assert night.states(this)["a"] is EntryState.MAINTAINED


def test_a_table_whose_worker_was_lost_has_failed_and_does_not_come_first_in_the_next_pass(night: Night) -> None:
    this = night.planned("a", "b")
    night.passes.remember([PlannedTable(table("a"), "m1", "p1", True, passes_waited=2)])
    night.work.submit(this)
    night.claim()
    night.lose_claims()
    assert night.work.close(this)
    assert night.states(this) == {"a": EntryState.FAILED, "b": EntryState.WAITING}
    assert night.reasons(this) == {"a": f"{LOST} {NOT_CLAIMED}", "b": NOT_CLAIMED}
    assert night.waited("a", "b") == [0, 1]


def test_a_postponed_job_is_not_claimed_before_its_time_and_is_named_with_its_reason_when_the_pass_ends(night: Night) -> None:
    this = night.submitted("a", "b")
    first, second = night.work.claimable(this)
    until = night.clock() + timedelta(hours=1)
    night.work.postpone(this, first, "Quiet until 03:00", until)
    assert night.jobs.claim("pod-1", job_id=first.job_id, catalog_id="c0ffee") is None
    assert night.work.claimable(this) == [second]
    assert "Postponed by its pass until 2026-11-23 03:00" in str(explain(night.jobs, night.jobs.get(first.job_id or "")))
    night.clock.move(timedelta(hours=1))
    assert [entry.table.table for entry in night.work.claimable(this)] == ["a", "b"]
    assert night.work.close(this)
    assert night.reasons(this) == {"a": "Quiet until 03:00", "b": NOT_CLAIMED}


def test_a_job_that_a_worker_has_is_not_postponed(night: Night) -> None:
    this = night.submitted("a")
    (entry,) = night.work.claimable(this)
    claim = night.claim()
    night.work.postpone(this, entry, "Quiet until 03:00", night.clock() + timedelta(hours=1))
    assert night.jobs.holds(claim)
    assert night.reasons(this) == {}


@pytest.mark.one_database
@pytest.mark.parametrize("how", ["withdrawn", "ended", "not submitted"])
def test_the_end_of_a_pass_takes_as_many_statements_for_sixty_tables_as_for_ten(night: Night, how: str) -> None:
    def statements(first: int, last: int) -> int:
        this = night.planned(*(f"t{number}" for number in range(first, last)), owner=f"night-{first}")
        if how != "not submitted":
            night.work.submit(this)
        for entry in night.work.claimable(this) if how == "ended" else ():
            night.end(entry)
        night.jobs.flush()
        with counted_reads(night.store.engine) as counted:
            assert night.work.close(this)
        assert not {EntryState.CHOSEN, EntryState.SUBMITTED} & set(night.states(this).values())
        return len(counted.of_store)

    assert statements(0, 10) == statements(10, 70) < 25


def test_a_table_that_was_not_submitted_is_named_when_the_pass_ends(night: Night) -> None:
    this = night.planned("a")
    night.work.close(this)
    assert night.reasons(this) == {"a": "Its job was not submitted before the pass ended."}


@pytest.mark.one_database
def test_a_job_that_a_user_cancels_is_named_and_neither_estimated_nor_done_in_the_report(night: Night) -> None:
    this = night.submitted("a", "b")
    first, second = night.work.claimable(this)
    night.jobs.cancel(first.job_id or "", by="ann")
    night.end(second, rewritten_data_files_count=11)
    assert night.work.close(this)
    assert night.reasons(this) == {"a": "Its job was cancelled by ann."}
    assert night.waited("a", "b") == [1, 0]
    report = night.report(this)
    assert (report.spent.files_removed, report.estimated) == (11, HOUR)


@pytest.mark.one_database
def test_a_table_whose_job_is_submitted_while_the_pass_ends_is_not_left_with_its_job(night: Night) -> None:
    """Nothing would claim or withdraw the job, and the table would stay locked."""
    this = night.planned("a")
    (read_before,) = night.passes.entries(this.pass_id)
    night.work.submit(this)
    assert not night.work.leave(this, read_before, "Its job was not submitted before the pass ended.")
    assert night.work.close(this)
    assert night.jobs.locks.get(table("a")) is None
    assert night.reasons(this) == {"a": NOT_CLAIMED}


@pytest.mark.one_database
def test_a_worker_that_needs_one_table_reads_one_entry(night: Night) -> None:
    this = night.submitted("a", "b", "c")
    assert [entry.table.table for entry in night.work.claimable(this, limit=1)] == ["a"]


@pytest.mark.one_database
def test_failures_are_grouped_by_their_cause(night: Night) -> None:
    this = night.submitted("a", "b", "c", "d")
    for number, entry in enumerate(night.work.claimable(this)[:3]):
        error = "Cannot read lake.demo.c" if number == 2 else f"Disk {number} of {entry.table} is full"
        night.end(entry, error)
    night.work.close(this)
    report = night.report(this)

    assert [(group.cause, group.tables) for group in report.failed] == [
        ("Disk … of … is full", ("demo.a", "demo.b")),
        ("Cannot read …", ("demo.c",)),
    ]
    assert report.lines() == [
        "9 tables: 0 unchanged, 0 healthy, 0 maintained, 3 failed, 1 waiting",
        "0 files removed, 0 B rewritten, 6.00 GB·h in 0 s (estimate: 33 files removed, 2.9 KiB rewritten, 12.00 GB·h)",
        "Failed: 2 tables: demo.a and demo.b: Disk 0 of lake.demo.a is full.",
        "Failed: 1 table: demo.c: Cannot read lake.demo.c.",
        "Waiting: 1 table: demo.d: No worker claimed its job before the pass ended.",
    ]
    as_json: dict[str, Any] = report.to_json()
    assert as_json["counts"]["failed"] == 3
    assert as_json["failed"][0]["count"] == 2
