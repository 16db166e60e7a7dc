"""``airflow snowpack jobs watch`` and ``submit --wait``: what is told while a job runs, and how watching ends.

The world moves in the pauses between two looks, so that nothing here waits.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import timedelta

import pytest
from clocks import MovedClock
from command_line import Run
from pseudo_terminal import PseudoTerminal

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import ActionOutcome, ActionResult, Claim, Job, Jobs, JobStatus
from airflow_snowpack.store import StoreUnreachable

ACTIONS = ["rewrite_data_files", "expire_snapshots"]


def done(action: str, message: str = "Did it") -> ActionResult:
    return ActionResult(action, ActionOutcome.SUCCEEDED, message, 1.5)


class World:
    """What happens to a job, one event between two looks."""

    def __init__(self, jobs: Jobs, job: Job) -> None:
        self.jobs, self.job = jobs, job
        self.claim: Claim | None = None
        self.out = io.StringIO()

    def claimed(self) -> None:
        self.claim = self.jobs.claim("w1", job_id=self.job.job_id, catalog_id=self.job.table.catalog_id)

    def rewritten(self) -> None:
        assert self.claim is not None
        self.jobs.record_progress(self.claim, [done(ACTIONS[0], "Compacted 87 files into 12")])

    def ended(self) -> None:
        assert self.claim is not None
        self.jobs.finish(self.claim, JobStatus.COMPLETED, [done(action) for action in ACTIONS])

    def failed(self) -> None:
        assert self.claim is not None
        self.jobs.finish(self.claim, JobStatus.FAILED, [], error="expire_snapshots failed: no such file")

    def watch(self, *events: Callable[[], object], timeout: timedelta | None = None) -> Job | None:
        """Watch while these come to pass."""
        from airflow_snowpack.cli.commands.watch import Watch
        from airflow_snowpack.cli.progress import LiveLine

        coming = iter(events)

        def pause(_seconds: float) -> None:
            next(coming)()
            self.jobs.flush()

        return Watch(self.jobs, LiveLine(self.out), sleep=pause, timeout=timeout).until_over(self.job.job_id)

    @property
    def lines(self) -> list[str]:
        """What was told, without the time of day."""
        return [line.partition("  ")[2] for line in self.out.getvalue().splitlines()]


@pytest.fixture
def world(jobs: Jobs, flights: TableName) -> World:
    """A job on a clock that stands still."""
    jobs.store.clock = MovedClock()
    job = jobs.submit(flights, ACTIONS, submitted_by="vera")
    jobs.flush()
    return World(jobs, job)


def test_events_are_told_once_each_as_they_come_and_a_job_that_waits_says_what_for(world: World) -> None:
    ended = world.watch(world.claimed, world.rewritten, lambda: None, world.ended)

    assert ended is not None
    assert ended.status is JobStatus.COMPLETED
    assert [line for line in world.lines if not line.startswith(("Waiting for", "Attempt"))] == [
        "submitted by vera",
        "claimed by w1 (attempt 1)",
        "rewrite_data_files succeeded in 1.5 s: Compacted 87 files into 12",
        "expire_snapshots succeeded in 1.5 s: Did it",
        "completed after 0 s",
    ]

    assert world.lines[1].startswith("Waiting for a worker: next in the queue, no worker busy.")


def test_the_error_of_a_failed_job_is_told_at_the_end(world: World) -> None:
    world.watch(world.claimed, world.failed)

    assert world.lines[-1] == "failed after 0 s: expire_snapshots failed: no such file"


def test_what_the_history_lost_is_told_from_the_job_itself(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.jobs, "history", lambda _job_id: [])
    world.watch(world.claimed, world.ended)

    assert world.lines[-3:] == [
        "rewrite_data_files succeeded in 1.5 s: Did it",
        "expire_snapshots succeeded in 1.5 s: Did it",
        "completed after 0 s",
    ]


def test_watching_ends_with_its_time_and_the_job_goes_on(world: World) -> None:
    assert world.watch(timeout=timedelta(0)) is None
    assert world.jobs.get(world.job.job_id).status is JobStatus.PENDING


def test_an_outage_of_the_store_is_told_once_and_outlasted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    real = world.jobs.get

    def away(job_id: str) -> Job:
        raise StoreUnreachable("postgresql://db", RuntimeError("connection refused"))

    def goes() -> None:
        monkeypatch.setattr(world.jobs, "get", away)

    def comes_back() -> None:
        monkeypatch.setattr(world.jobs, "get", real)
        world.claimed()
        world.ended()

    ended = world.watch(goes, lambda: None, comes_back)

    assert ended is not None
    assert sum("cannot be reached" in line for line in world.lines) == 1


def test_a_terminal_has_a_line_that_is_written_anew(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    screen = PseudoTerminal()
    world.out = screen.out
    world.watch(world.claimed, world.ended)

    text = screen.shown()
    assert "\r\x1b[Kpending 0 s  Waiting for a worker" in text
    assert "\r\x1b[Krunning 0 s  Attempt 1 is running on w1: 0 of 2 actions done. Its lease ends in 30 min" in text
    assert text.endswith("completed after 0 s\r\n")


@pytest.mark.parametrize(("status", "code"), [(JobStatus.COMPLETED, 0), (JobStatus.FAILED, 3), (JobStatus.CANCELLED, 3)])
def test_the_exit_code_tells_how_the_job_ended(
    snowpack: Run, jobs: Jobs, flights: TableName, status: JobStatus, code: int
) -> None:
    claim = jobs.submit_and_claim(flights, ACTIONS, "w1")
    if status is JobStatus.CANCELLED:
        jobs.cancel(claim.job.job_id)
    else:
        jobs.finish(claim, status, [done("rewrite_data_files")], error="why" if code else None)
    said = snowpack("jobs", "watch", claim.job.job_id[:12])

    assert said.code == code
    assert str(status) in said.out.splitlines()[-1]


def test_programs_get_the_jobs_json_on_stdout_and_the_progress_on_stderr(snowpack: Run, jobs: Jobs, flights: TableName) -> None:
    claim = jobs.submit_and_claim(flights, ACTIONS, "w1")
    jobs.finish(claim, JobStatus.COMPLETED, [done(action) for action in ACTIONS])
    said = snowpack("jobs", "watch", claim.job.job_id, "-o", "json")

    assert said.json["status"] == "completed"
    assert "expire_snapshots succeeded" in said.err


def test_after_its_time_the_watch_ends_with_124_and_says_which_job_goes_on(snowpack: Run, jobs: Jobs, flights: TableName) -> None:
    said = snowpack("jobs", "submit", "demo.flights", "--wait", "--timeout", "0s", "-o", "json")

    assert said.code == 124
    assert said.json["status"] == "pending"
    assert f"The job {said.json['job_id'][:12]} continues; `airflow snowpack jobs watch" in said.err

    jobs.cancel(said.json["job_id"])
    said = snowpack("jobs", "submit", "demo.flights", "-a", "expire_snapshots", "--wait", "--timeout", "0s")
    job = jobs.list()[0]
    assert said.out.startswith(f"Job {job.job_id[:12]} is pending for demo.flights: expire_snapshots.\n")
    assert "Watch it with" not in said.out


def test_ctrl_c_stops_the_watch_and_not_the_job_and_one_that_does_not_exist_cannot_be_watched(
    snowpack: Run, jobs: Jobs, flights: TableName, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_snowpack.cli.commands.watch import Watch

    def interrupt(*_arguments: object) -> None:
        raise KeyboardInterrupt

    job = jobs.submit(flights, ACTIONS)
    monkeypatch.setattr(Watch, "until_over", interrupt)
    said = snowpack("jobs", "watch", job.job_id)

    assert said.code == 130
    assert said.err.startswith(f"Stopped watching. The job {job.job_id[:12]} continues")
    assert jobs.get(job.job_id).status is JobStatus.PENDING

    assert snowpack("jobs", "watch", "deadbeef").code == 4
