"""What the end of a job leaves behind for the next plan of its table."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from clocks import MovedClock

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import ActionHistory, ActionOutcome, ActionRecord, ActionResult, Attempt, Job, Jobs, JobStatus
from airflow_snowpack.store.tables.jobs import action_records

DATA, SNAPSHOTS = "rewrite_data_files", "expire_snapshots"
ESTIMATE = {"gb_hours": 0.1, "seconds": 60.0, "files_removed": 100}


def plan(**verdicts: str) -> dict[str, Any]:
    """A plan as a job has it: ``run`` or ``skip`` by action."""
    decisions = [
        {
            "action": action,
            "verdict": verdict,
            "evidence": f"numbers of {action}",
            "estimate": ESTIMATE if verdict == "run" else None,
        }
        for action, verdict in verdicts.items()
    ]
    return {"decisions": decisions}


def result(
    outcome: ActionOutcome = ActionOutcome.SUCCEEDED, action: str = DATA, *, files: int = 100, gb_hours: float = 0.1
) -> Any:
    return ActionResult(action, outcome, "done", 120.0, metrics={"rewritten_data_files_count": files}, gb_hours=gb_hours)


def ended(jobs: Jobs, table: TableName, *results: ActionResult, planned: bool = True) -> Job:
    """Run a job to its end with these results."""
    verdicts = plan(**{each.action: "run" for each in results}) if planned else None
    claim = jobs.submit_and_claim(table, [each.action for each in results], "w1", plan=verdicts)
    failed = not all(each.success for each in results)
    assert jobs.finish(claim, JobStatus.FAILED if failed else JobStatus.COMPLETED, results, "no" if failed else None)
    return jobs.get(claim.job.job_id)


def history(jobs: Jobs, table: TableName) -> ActionHistory:
    return jobs.action_histories([table])[table]


def test_a_factor_is_the_first_outcome_and_then_moves_halfway_to_each_other(jobs: Jobs, table: TableName) -> None:
    assert history(jobs, table).of(DATA) == ActionRecord()

    ended(jobs, table, result(gb_hours=0.3))
    first = history(jobs, table).of(DATA)
    ended(jobs, table, result(gb_hours=0.1))  # of an estimate that the factor is a part of: the action took what was expected
    second = history(jobs, table).of(DATA)
    ended(jobs, table, result(gb_hours=0.2, files=90))
    third = history(jobs, table).of(DATA)

    assert (first.runs, first.cost_factor, first.seconds_factor, first.files_factor) == (1, pytest.approx(3), 2, 1)
    assert (second.runs, second.cost_factor) == (2, pytest.approx(3))
    assert (third.runs, third.cost_factor, third.files_factor) == (3, pytest.approx(4.5), pytest.approx(0.95))


def test_a_rerun_has_the_plan_of_the_job_where_estimate_and_outcome_are_side_by_side(jobs: Jobs, table: TableName) -> None:
    job = ended(jobs, table, result(gb_hours=0.3))

    assert job.plan is not None
    assert job.plan["decisions"][0]["estimate"] == ESTIMATE
    assert job.results[0].gb_hours == 0.3

    assert jobs.rerun(job.job_id).plan == job.plan


def test_what_did_not_run_to_its_end_moves_no_factor(jobs: Jobs, table: TableName, clock: MovedClock) -> None:
    ended(jobs, table, result())
    succeeded = clock()
    clock.move(hours=1)
    ended(jobs, table, result(ActionOutcome.PARTIAL, files=1))
    clock.move(hours=1)
    for _ in range(2):
        ended(jobs, table, result(ActionOutcome.FAILED, files=1, gb_hours=9.0))
    waits = {"planned_snapshots_count": 7, "planned_bytes_count": 0, "expired_snapshots_count": 0}
    ended(jobs, table, replace(result(action=SNAPSHOTS), metrics=waits))

    assert history(jobs, table).of(SNAPSHOTS).runs == 0, "its list awaits an approval"
    record = history(jobs, table).of(DATA)
    assert (record.runs, record.cost_factor, record.files_factor) == (1, pytest.approx(1), 1)
    assert (record.last_run_at, record.last_success_at, record.failures) == (clock(), succeeded + timedelta(hours=1), 2)


def test_neither_a_shutdown_nor_the_commit_of_a_writer_is_a_failure_and_neither_ends_a_row_of_them(
    jobs: Jobs, table: TableName, clock: MovedClock
) -> None:
    ended(jobs, table, result(ActionOutcome.FAILED))
    failed = clock()
    clock.move(hours=1)
    ended(jobs, table, result(ActionOutcome.INTERRUPTED))
    assert history(jobs, table).of(DATA) == ActionRecord(last_run_at=failed, failures=1)

    ended(jobs, table, result(ActionOutcome.CONFLICT))
    assert history(jobs, table).of(DATA) == ActionRecord(last_run_at=clock(), failures=1), "the cadence counts from it"

    ended(jobs, table, result(ActionOutcome.CONFLICT, SNAPSHOTS))
    assert history(jobs, table).of(SNAPSHOTS).failures == 0
    ended(jobs, table, result())
    assert history(jobs, table).of(DATA).failures == 0


def test_work_that_is_stopped_at_a_limit_has_failed(jobs: Jobs, table: TableName) -> None:
    claim = jobs.submit_and_claim(table, [DATA], "w1", plan=plan(**{DATA: "run"}))
    assert jobs.finish(claim, JobStatus.CANCELLED, [result(ActionOutcome.INTERRUPTED)], "Stopped after 4 h.")

    assert history(jobs, table).of(DATA).failures == 1


def test_a_job_without_a_plan_is_remembered_too(jobs: Jobs, table: TableName, clock: MovedClock) -> None:
    ended(jobs, table, result(gb_hours=0.3), planned=False)

    assert history(jobs, table).of(DATA) == ActionRecord(last_run_at=clock(), last_success_at=clock())


def test_a_factor_that_no_estimate_follows_or_a_number_that_is_none_keeps_no_job_from_ending(
    jobs: Jobs, table: TableName
) -> None:
    ended(jobs, table, result(files=float("nan"), gb_hours=float("inf")))

    assert history(jobs, table).of(DATA).runs == 1

    ended(jobs, table, result())
    for far, files, bound in ((1e300, 10_000, 1e4), (1e-300, 1, 1e-3)):
        jobs.store.execute(sa.update(action_records).values(files_factor=far))
        ended(jobs, table, result(files=files))

        assert history(jobs, table).of(DATA).files_factor == bound


def test_only_the_attempt_that_ends_a_job_leaves_a_record_and_only_once(jobs: Jobs, table: TableName) -> None:
    claim = jobs.submit_and_claim(table, [DATA], "w1", plan=plan(**{DATA: "run"}))
    stale = replace(claim, attempt_id=f"{claim.attempt_id[:-1]}~")

    assert not jobs.finish(stale, JobStatus.COMPLETED, [result(gb_hours=9.0)])
    assert history(jobs, table).of(DATA) == ActionRecord()
    for _ in range(2):
        jobs.finish(claim, JobStatus.COMPLETED, [result()])
    assert history(jobs, table).of(DATA).runs == 1


def test_a_cancelled_job_leaves_no_record(jobs: Jobs, table: TableName) -> None:
    claim = jobs.submit_and_claim(table, [DATA], "w1", plan=plan(**{DATA: "run"}))
    jobs.cancel(claim.job.job_id)

    assert not jobs.finish(claim, JobStatus.COMPLETED, [result()])
    assert history(jobs, table).of(DATA) == ActionRecord()


def test_an_action_that_the_plan_skips_reaches_no_engine_and_leaves_no_record(jobs: Jobs, table: TableName) -> None:
    claim = jobs.submit_and_claim(table, [DATA, SNAPSHOTS], "w1", plan=plan(rewrite_data_files="skip", expire_snapshots="run"))
    ran: list[str] = []

    class Recording:
        server = None
        gb_hours: float | None = None

        def run(self, job: Job, action: str) -> ActionResult:
            ran.append(action)
            return result(action=action)

        def interrupt(self) -> None: ...

    job = Attempt(jobs, claim, Recording()).run()

    assert ran == [SNAPSHOTS]
    assert (job.results[0].outcome, job.results[0].message) == ("skipped", "Skipped by the plan: numbers of rewrite_data_files")
    assert set(history(jobs, table).records) == {SNAPSHOTS}


def test_the_histories_of_a_thousand_tables_are_one_statement(jobs: Jobs, table: TableName, other_table: TableName) -> None:
    ended(jobs, table, result())
    tables = [table, other_table, *(TableName("lake", "db", f"t{number}") for number in range(3000))]

    jobs.flush()  # the events of the job, which are written in the background
    statements: list[str] = []
    sa.event.listen(jobs.store.engine, "before_cursor_execute", lambda *heard: statements.append(heard[2]))
    found = jobs.action_histories(tables)

    assert len(statements) == 4
    assert len(found) == len(tables)
    assert found[table].of(DATA).runs == 1
