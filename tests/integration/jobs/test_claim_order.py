"""Which job a worker gets: the highest priority first, and within a priority the databases in turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import pytest
import sqlalchemy as sa
from clocks import MovedClock
from effort import rounds
from hypothesis import HealthCheck, given, settings, strategies as st
from query_plans import plan, scans, sent_by

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Claim, InvalidPriority, Job, Jobs, JobStatus, LifecyclePolicy
from airflow_snowpack.jobs.claim_order import RESCAN
from airflow_snowpack.jobs.idempotency import RequestKey
from airflow_snowpack.jobs.withdrawal import postpone, withdraw
from airflow_snowpack.store import Store, open_store
from airflow_snowpack.store.tables.jobs import job_queue, jobs as jobs_table, table_locks

FRESH = count(1)


def submit(jobs: Jobs, database: str = "db", priority: int = 0) -> Job:
    return jobs.submit(TableName("lake", database, f"t{next(FRESH)}"), ["expire_snapshots"], priority=priority)


def claim(jobs: Jobs) -> Claim:
    claimed = jobs.claim("w1")
    assert claimed is not None
    return claimed


def databases(jobs: Jobs, number: int) -> list[str]:
    """The databases of the next claims."""
    return [claim(jobs).job.table.database for _ in range(number)]


def test_the_highest_priority_is_claimed_first_and_within_it_the_oldest_job(jobs: Jobs, clock: MovedClock) -> None:
    made = []
    for priority in (0, -1000, 7, 7, 1000):
        made.append(submit(jobs, priority=priority).job_id)
        clock.move(seconds=1)

    assert [claim(jobs).job.job_id for _ in made] == [made[4], made[2], made[3], made[0], made[1]]
    assert jobs.claim("w1") is None


def test_a_job_of_a_higher_priority_is_next_although_it_comes_last(jobs: Jobs, clock: MovedClock) -> None:
    for _ in range(3):
        submit(jobs)
    claim(jobs)
    for priority in (5, 9):
        urgent = submit(jobs, "another", priority)
        clock.now += RESCAN
        assert claim(jobs).job == jobs.get(urgent.job_id)
        claim(jobs)


@pytest.mark.parametrize("priority", [-1001, 1001, True, 1.0])
def test_a_priority_out_of_range_is_refused_and_nothing_is_written(jobs: Jobs, priority: Any) -> None:
    with pytest.raises(InvalidPriority, match=rf"Priority {priority} is not valid. It must be between -1000 and 1000"):
        submit(jobs, priority=priority)

    assert jobs.list() == []
    assert jobs.locks.list() == []


def test_one_database_with_many_jobs_lets_another_ones_single_job_pass(jobs: Jobs, clock: MovedClock) -> None:
    for _ in range(50):
        submit(jobs, "large")
    clock.move(seconds=1)
    submit(jobs, "small")

    assert databases(jobs, 3) == ["large", "small", "large"]


def test_databases_take_turns_and_the_rest_belongs_to_the_one_that_has_more(jobs: Jobs, clock: MovedClock) -> None:
    for database in ("a", "a", "a", "b", "b", "c"):
        submit(jobs, database)
        clock.move(seconds=1)

    assert databases(jobs, 6) == ["a", "b", "c", "a", "b", "a"]


def test_a_database_that_was_idle_does_not_catch_up_on_the_turns_that_it_missed(jobs: Jobs, clock: MovedClock) -> None:
    for _ in range(10):
        submit(jobs, "busy")
    databases(jobs, 5)
    clock.move(seconds=1)
    for _ in range(4):
        submit(jobs, "idle")

    assert databases(jobs, 6) == ["busy", "idle", "busy", "idle", "busy", "idle"]


def test_databases_that_submit_to_an_empty_queue_at_the_same_time_take_turns(postgres_database: str, clock: MovedClock) -> None:
    """SQLite has one writer at a time, so that each submit sees the one before."""

    class SubmitsMeanwhile(RequestKey):
        def keep(self, conn: sa.Connection, job_id: str, now: datetime) -> None:
            clock.move(milliseconds=20)
            submit(jobs, "small")

    with Jobs(open_store(postgres_database, clock=clock)) as jobs:
        first = TableName("lake", "large", f"t{next(FRESH)}")
        jobs.submit(first, ["expire_snapshots"], key=SubmitsMeanwhile("vera", "k", "f"))
        for _ in range(20):
            submit(jobs, "large")

        assert databases(jobs, 4) == ["large", "large", "small", "large"]


def test_a_busy_worker_finds_a_job_of_a_higher_priority_after_its_clock_was_set_back(jobs: Jobs, clock: MovedClock) -> None:
    for _ in range(3):
        submit(jobs)
    clock.move(hours=2)
    claim(jobs)
    clock.move(hours=-1)
    urgent = submit(jobs, priority=5)

    assert claim(jobs).job.job_id == urgent.job_id


def test_each_priority_has_turns_of_its_own(jobs: Jobs, clock: MovedClock) -> None:
    for database, priority in (("a", 1), ("a", 1), ("a", 0), ("b", 0), ("b", 1)):
        submit(jobs, database, priority)
        clock.move(seconds=1)

    assert databases(jobs, 5) == ["a", "b", "a", "a", "b"]


def test_a_requeued_job_is_the_next_of_its_priority_when_its_back_off_has_elapsed(store: Store, clock: MovedClock) -> None:
    jobs = Jobs(store, LifecyclePolicy(lease=timedelta(minutes=1), retry_base=timedelta(minutes=1)))
    urgent, waiting = [submit(jobs, priority=priority) for priority in (1, 0)]
    clock.move(seconds=1)
    for _ in range(5):
        submit(jobs, "another")
    databases(jobs, 4)
    clock.move(minutes=2)
    jobs.sweep()
    last = submit(jobs, "another")

    assert jobs.ahead_of([last.job_id]) == {last.job_id: 3}, "those in their back-off are not ahead of it"
    assert databases(jobs, 1) == ["another"]
    clock.now += timedelta(minutes=2) + RESCAN
    assert [claim(jobs).job.job_id for _ in range(2)] == [urgent.job_id, waiting.job_id]


def test_a_requeued_job_does_not_let_other_databases_join_before_the_present_turn(store: Store, clock: MovedClock) -> None:
    jobs = Jobs(store, LifecyclePolicy(lease=timedelta(minutes=1), retry_base=timedelta(hours=1)))
    for _ in range(10):
        submit(jobs, "busy")
    databases(jobs, 4)
    clock.move(minutes=2)
    assert len(jobs.sweep().requeued) == 4
    for _ in range(3):
        submit(jobs, "idle")

    assert databases(jobs, 4) == ["busy", "idle", "busy", "idle"]


def test_claims_and_submits_are_as_many_statements_however_long_the_queue_is(jobs: Jobs) -> None:
    def sent(depth: int) -> tuple[int, int]:
        for number in range(depth):
            submit(jobs, f"db{number % 3}", number % 2)
        return statements(lambda: submit(jobs)), statements(lambda: claim(jobs))

    def statements(step: Callable[[], object]) -> int:
        """Without what the thread that writes the history may send meanwhile: an insert in a transaction."""
        sent = [statement for statement, _ in sent_by(jobs.store, step)]
        return sum("job_history" not in statement and not statement.startswith("BEGIN") for statement in sent)

    assert sent(1) == sent(60)
    if jobs.store.is_postgres:
        assert sent(0) == (1, 1)


def test_claims_by_id_in_turn_move_no_other_job_however_long_the_queue_is(jobs: Jobs) -> None:
    def sent(depth: int) -> list[str]:
        made = [submit(jobs, "one") for _ in range(depth)]
        found = sent_by(jobs.store, lambda: jobs.claim("w1", job_id=made[0].job_id))
        while jobs.claim("w1") is not None:
            pass
        return [statement for statement, _ in found if "job_history" not in statement]

    for depth in (1, 60):
        assert not any("row_number" in statement for statement in sent(depth)), "which looks at all jobs of the database"


def test_claims_and_submits_find_their_rows_by_an_index_that_has_the_order(jobs: Jobs) -> None:
    for number in range(20):
        submit(jobs, f"db{number % 3}")
    sent = sent_by(jobs.store, lambda: (submit(jobs), submit(jobs, "new"), claim(jobs)))

    assert scans(jobs.store, sent, ["job_queue", "waiting"]) == []
    plans = "\n".join(
        line for statement, parameters in sent if "job_queue" in statement for line in plan(jobs.store, statement, parameters)
    )
    assert "ix_job_queue_unclaimed" in plans
    assert "ix_job_queue_turns" in plans
    assert "Sort" not in plans
    assert "TEMP B-TREE" not in plans


def test_a_cancel_of_many_jobs_does_not_leave_the_last_one_behind_what_comes_later(jobs: Jobs, clock: MovedClock) -> None:
    large = [submit(jobs, "large") for _ in range(60)]
    submit(jobs, "other")
    for job in large[:59]:
        jobs.cancel(job.job_id)
    for _ in range(50):
        clock.move(milliseconds=1)
        submit(jobs, "new")

    assert "large" in databases(jobs, 2)


def test_a_database_that_cancels_its_next_job_after_each_claim_gets_no_second_turn(jobs: Jobs, clock: MovedClock) -> None:
    large = [submit(jobs, "large") for _ in range(6)]
    clock.move(milliseconds=1)
    submit(jobs, "other")

    claim(jobs)
    jobs.cancel(large[1].job_id)

    assert databases(jobs, 2) == ["other", "large"]


place = st.integers(0, 30)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.sampled_from(["a", "b", "c"]), st.integers(1, 6), st.sampled_from([0, 0, 0, 3])),
        st.tuples(st.just("claim"), st.integers(1, 6)),
        st.tuples(st.just("lose"), st.integers(1, 2)),
        st.tuples(st.sampled_from(["cancel", "cancel", "claim by id", "postpone", "withdraw"]), place),
    ),
    max_size=40,
)


class Waiting:
    """A job that no worker has claimed, and what was claimed before it since it became the n-th of its database."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.queue = job.table.database, job.priority
        self.since: dict[int, Counter[str]] = {}

    def is_now(self, nth: int) -> None:
        self.since.setdefault(nth, Counter())

    def check(self) -> None:
        for nth, passed in self.since.items():
            theirs = [number for database, number in passed.items() if database != self.job.table.database]
            assert max(theirs, default=0) <= nth + 1, f"number {nth} of its database waited for {passed}"


@settings(max_examples=rounds(30, soak=1000), deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(steps=steps)
def test_no_job_waits_longer_than_its_fair_share(store: Store, clock: MovedClock, steps: list[tuple[Any, ...]]) -> None:
    """The n-th job of its database waits for at most n + 1 of each other one, whatever else leaves the queue meanwhile.

    A job that is claimed by its id, or again after its worker was lost, has no turn, and does not count.
    """
    for table in (jobs_table, job_queue, table_locks):
        store.transact(lambda conn, table=table: conn.execute(sa.delete(table)))
    jobs = Jobs(store, LifecyclePolicy(lease=timedelta(minutes=1), retry_base=timedelta(seconds=1), max_attempts=1000))
    waiting: dict[str, Waiting] = {}
    at_front: set[str] = set()

    def count_places() -> None:
        places: Counter[tuple[str, int]] = Counter()
        for each in waiting.values():
            places[each.queue] += 1
            each.is_now(places[each.queue])

    def claim_next() -> Claim | None:
        claimed = jobs.claim("w1")
        if claimed is None:
            assert not waiting
            return None
        if claimed.job.job_id in at_front:
            at_front.remove(claimed.job.job_id)
            return claimed
        one = waiting.pop(claimed.job.job_id)
        assert one.job.priority == max([one.job.priority, *(other.job.priority for other in waiting.values())])
        one.check()
        older = [each for each in waiting.values() if each.queue == one.queue and each.job.submitted_at < one.job.submitted_at]
        assert older == [], "within a database, the oldest is first"
        for other in waiting.values():
            for passed in other.since.values():
                passed[one.job.table.database] += other.job.priority == one.job.priority
        return claimed

    def leave(how: str, job_id: str) -> None:
        waiting.pop(job_id)
        match how:
            case "cancel":
                jobs.cancel(job_id)
            case "withdraw":
                store.transact(lambda conn: withdraw(conn, [job_id], "The pass is over.", clock.now))
            case "postpone":
                store.transact(lambda conn: postpone(conn, job_id, clock.now + timedelta(minutes=5)))
                at_front.add(job_id)
            case _:
                claimed = jobs.claim("w2", job_id=job_id)
                assert jobs.finish(claimed, JobStatus.COMPLETED, [])

    for name, *given_ in steps:
        clock.now += RESCAN
        match name:
            case "submit":
                database, number, priority = given_
                for _ in range(number):
                    clock.move(microseconds=1)
                    job = submit(jobs, database, priority)
                    waiting[job.job_id] = Waiting(job)
            case "claim":
                for _ in range(given_[0]):
                    if (claimed := claim_next()) is not None:
                        assert jobs.finish(claimed, JobStatus.COMPLETED, [])
                    count_places()
            case "lose":
                lost = [claimed.job.job_id for _ in range(given_[0]) if (claimed := claim_next()) is not None]
                clock.move(minutes=2)
                assert set(jobs.sweep().requeued) == set(lost)
                at_front |= set(lost)
            case _ if waiting:
                leave(name, list(waiting)[given_[0] % len(waiting)])
        count_places()
    clock.move(days=2)  # all back-offs have elapsed
    ahead = jobs.ahead_of([*waiting, *at_front])
    for expected in range(len(ahead)):
        assert ahead[claim_next().job.job_id] == expected, "the explanation counts what is claimed before it"
