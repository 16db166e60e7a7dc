"""Real processes at one database at the same moment, and answers of the database that get lost."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
import race_process
import sqlalchemy as sa
from bounded import output_of
from sqlalchemy.exc import OperationalError

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Job, JobAlreadyFinished, JobNotFound, Jobs, JobStatus, TableLocked
from airflow_snowpack.store import Store, open_store
from airflow_snowpack.store.tables.jobs import job_queue

pytestmark = pytest.mark.both_in_soak

TABLE = TableName("lake", "db", "wanted")


@pytest.fixture
def live(store_url: str, store: Store) -> Iterator[Jobs]:
    """Jobs on the machine's clock, which all processes share."""
    with Jobs(open_store(store_url)) as jobs:
        yield jobs


@pytest.fixture
def no_deadlocks(live: Jobs) -> Iterator[None]:
    """Postgres counts the deadlocks of a database; SQLite cannot have one."""
    yield
    if live.store.is_postgres:
        count = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        assert live.store.read(lambda conn: conn.exec_driver_sql(count).scalar_one()) == 0


def at_once(url: str, parts: Sequence[tuple[str, ...]]) -> list[Any]:
    """Run one process for each part; all begin when the last is ready. Returns what they return."""
    answers: list[Any] = json.loads(output_of(sys.executable, race_process.__file__, url, json.dumps(parts)))
    return answers


def queue_is_empty(jobs: Jobs) -> bool:
    return jobs.store.read(lambda conn: conn.execute(sa.select(job_queue)).first()) is None


def many_jobs(jobs: Jobs, count: int) -> list[Job]:
    return [jobs.submit(TableName("lake", "db", f"t{number}"), ["expire_snapshots"]) for number in range(count)]


@pytest.mark.usefixtures("no_deadlocks")
def test_of_two_processes_that_submit_for_a_table_one_wins_and_the_other_is_told_who_has_it(store_url: str, live: Jobs) -> None:
    answers = at_once(store_url, [("submit", "db.wanted")] * 2)

    winner = next(answer["won"] for answer in answers if "won" in answer)
    lock = live.locks.get(TABLE)
    assert [answer for answer in answers if "won" not in answer] == [
        {"holder": winner, "since": lock.acquired_at.isoformat(), "until": lock.expires_at.isoformat()}
    ]
    assert [job.job_id for job in live.list()] == [winner]


@pytest.mark.usefixtures("no_deadlocks")
def test_four_processes_that_drain_the_queue_claim_each_job_exactly_once(store_url: str, live: Jobs) -> None:
    submitted = many_jobs(live, 200)
    claimed = at_once(store_url, [("drain", f"w{number}") for number in range(4)])

    assert sorted(key for mine in claimed for key in mine) == sorted(job.job_id for job in submitted)
    assert {(job.status, job.attempt) for job in live.list(limit=1000)} == {(JobStatus.COMPLETED, 1)}
    assert queue_is_empty(live)
    assert live.locks.list() == []


@pytest.mark.usefixtures("no_deadlocks")
def test_cancel_finish_and_sweep_at_once_end_each_job_exactly_once_and_leave_no_lock(store_url: str, live: Jobs) -> None:
    submitted = many_jobs(live, 60)
    ended = at_once(store_url, [("end", "finish"), ("end", "finish"), ("end", "cancel"), ("end", "sweep")])

    assert sorted(key for mine in ended for key in mine) == sorted(job.job_id for job in submitted)
    assert queue_is_empty(live)
    assert live.locks.list() == []
    for job in submitted:
        events = [entry.event for entry in live.history(job.job_id)]
        assert sum(event in ("completed", "failed", "cancelled") for event in events) == 1


@pytest.mark.usefixtures("no_deadlocks")
def test_claims_heartbeats_take_overs_cancels_and_sweeps_do_not_wait_for_each_other_in_a_ring(live: Jobs) -> None:
    claims = [live.submit_and_claim(TableName("lake", "db", f"t{n}"), ["expire_snapshots"], "w", owner=f"o{n}") for n in range(8)]

    def stir(number: int) -> None:
        for claim in claims[number % 8 :] + claims[: number % 8]:
            try:
                live.renew(claim)
                live.take_over(claim.job.job_id, f"w{number}", owner=claim.job.owner or "")
                live.sweep()
                if number % 4 == 0:
                    live.cancel(claim.job.job_id)
                live.release_lock(claim)
            except JobAlreadyFinished:
                continue

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(stir, range(8)))
    assert {job.status for job in live.list()} == {JobStatus.CANCELLED}
    assert queue_is_empty(live)


def test_processes_that_open_a_new_embedded_store_at_once_all_find_it_ready(empty_sqlite_url: str) -> None:
    answers = at_once(empty_sqlite_url, [("submit", f"db.t{number}") for number in range(4)])

    assert all("won" in answer for answer in answers)


def test_connections_that_the_server_cut_are_made_anew(postgres_database: str, table: TableName) -> None:
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with Jobs(open_store(postgres_database)) as jobs, open_store(postgres_database) as other:

        def interrupted() -> None:
            other.read(lambda conn: conn.exec_driver_sql(cut).all())

        jobs.submit(table, ["expire_snapshots"])
        interrupted()
        claim = jobs.claim("w1")
        interrupted()
        assert jobs.renew(claim)
        interrupted()
        assert jobs.finish(claim, JobStatus.COMPLETED, [])
        interrupted()
        assert jobs.sweep().requeued == ()


# -- answers that get lost ---------------------------------------------------------------------------------------------


class Forgetful(Store):
    """Each transaction commits, and the answer to the first commit never arrives: the store has to repeat it."""

    def _retried(self, once: Callable[[], Any]) -> Any:
        forgotten = False

        def forget_first() -> Any:
            nonlocal forgotten
            answer = once()
            if not forgotten:
                forgotten = True
                lost = sqlite3.OperationalError("the connection was lost after the commit")
                raise OperationalError("COMMIT", {}, lost, connection_invalidated=True)
            return answer

        return super()._retried(forget_first)


@pytest.fixture
def forgetful(store: Store) -> Iterator[Jobs]:
    with Jobs(Forgetful(store.engine, store.clock, sleep=lambda _seconds: None)) as jobs:
        yield jobs


def test_a_submit_or_a_dry_run_whose_answer_was_lost_is_one_job(forgetful: Jobs, jobs: Jobs, table: TableName) -> None:
    job = forgetful.submit(table, ["expire_snapshots"])

    assert jobs.list() == [job]
    assert jobs.queue_depth() == 1
    with pytest.raises(TableLocked, match=job.job_id):
        forgetful.submit(table, ["expire_snapshots"])
    dry_run = forgetful.record_dry_run(table, ["expire_snapshots"], [])
    assert {each.job_id for each in jobs.list()} == {job.job_id, dry_run.job_id}


def test_a_submit_with_claim_whose_answer_was_lost_is_one_claim(forgetful: Jobs, jobs: Jobs, table: TableName) -> None:
    claim = forgetful.submit_and_claim(table, ["expire_snapshots"], "w1")

    assert jobs.list() == [claim.job]
    assert (claim.attempt, jobs.holds(claim)) == (1, True)


@pytest.mark.parametrize("named", [False, True])
def test_a_claim_whose_answer_was_lost_is_one_claim(
    forgetful: Jobs, jobs: Jobs, table: TableName, other_table: TableName, named: bool
) -> None:
    first = jobs.submit(table, ["expire_snapshots"])
    jobs.submit(other_table, ["expire_snapshots"])
    claim = forgetful.claim("w1", job_id=first.job_id if named else None)

    assert (claim.attempt, jobs.holds(claim), jobs.queue_depth()) == (1, True, 1)


def test_a_take_over_whose_answer_was_lost_is_one_attempt(forgetful: Jobs, jobs: Jobs, table: TableName) -> None:
    job = jobs.submit(table, ["expire_snapshots"], owner="me")
    claims = [forgetful.take_over(job.job_id, f"w{number}", owner="me") for number in range(3)]

    assert [claim.attempt for claim in claims] == [1, 2, 3]
    assert all(one.attempt_id != other.attempt_id for one, other in pairwise(claims))
    assert [jobs.holds(claim) for claim in claims] == [False, False, True]


def test_an_end_whose_answer_was_lost_counts_for_the_attempt_that_wrote_it(forgetful: Jobs, jobs: Jobs, table: TableName) -> None:
    claim = jobs.submit_and_claim(table, ["expire_snapshots"], "w1")

    assert forgetful.renew(claim)
    assert forgetful.finish(claim, JobStatus.COMPLETED, [])
    assert not forgetful.finish(claim, JobStatus.FAILED, [], "again")
    assert jobs.get(claim.job.job_id).status is JobStatus.COMPLETED
    assert jobs.locks.list() == []


def test_a_cancel_and_a_delete_whose_answers_were_lost_happen_once(forgetful: Jobs, jobs: Jobs, table: TableName) -> None:
    job = jobs.submit(table, ["expire_snapshots"])

    assert forgetful.cancel(job.job_id, by="ann").cancelled_by == "ann"
    forgetful.delete(job.job_id)
    with pytest.raises(JobNotFound):
        jobs.get(job.job_id)
    assert [entry.event for entry in forgetful.history(job.job_id)].count("cancelled") == 1
