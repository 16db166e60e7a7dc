"""The whole lifecycle against a model of thirty lines: after every random step, the database holds exactly what the model says.

The model knows nothing of SQL, transactions or fences in WHERE clauses: only who holds what. ``make soak`` walks 10,000 steps on
each database.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
import sqlalchemy as sa
from clocks import MovedClock
from effort import rounds
from hypothesis import HealthCheck, Phase, settings, strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, precondition, rule, run_state_machine_as_test

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import (
    Claim,
    DrainModeOn,
    JobAlreadyFinished,
    JobNotFound,
    Jobs,
    JobStatus,
    JobStillActive,
    LifecyclePolicy,
    NotTheOwner,
    TableLocked,
)
from airflow_snowpack.jobs.model import TRANSITIONS
from airflow_snowpack.store import Store
from airflow_snowpack.store.tables.jobs import job_history, job_queue, jobs as jobs_table, switches, table_locks

pytestmark = pytest.mark.both_in_soak

EXAMPLES, STEPS = rounds(12, soak=250), rounds(30, soak=50)
POLICY = LifecyclePolicy(lease=timedelta(minutes=30), max_attempts=3, retry_base=timedelta(seconds=30))
TABLES = [TableName("lake", "db", name) for name in ("a", "b", "c")]
PERIODS = [timedelta(seconds=1), timedelta(seconds=45), timedelta(minutes=4), timedelta(minutes=29), timedelta(hours=2)]
tables = st.sampled_from(TABLES)
holders = st.sampled_from(["etl", "reload"])
owners = st.sampled_from(["dag/task-1", "dag/task-2"])
endings = st.sampled_from([JobStatus.COMPLETED, JobStatus.FAILED])


@dataclass
class ModelJob:
    table: TableName
    owner: str
    enqueued_at: datetime
    visible_at: datetime
    status: JobStatus = JobStatus.PENDING
    attempt: int = 0
    fence: str | None = None
    inline: bool = False
    deleted: bool = False
    ended_by: list[str | None] = field(default_factory=list)

    @property
    def queued(self) -> bool:
        return not self.status.is_terminal

    def become(self, status: JobStatus) -> None:
        assert status in TRANSITIONS[self.status], f"{self.status} → {status} is not in the table of transitions"
        self.status = status

    def end(self, status: JobStatus, by: str | None) -> None:
        self.become(status)
        self.fence = by
        self.ended_by.append(by)


@dataclass
class ModelLock:
    holder: str
    acquired_at: datetime
    expires_at: datetime


class Lifecycle(RuleBasedStateMachine):
    """One example: the real :class:`Jobs` on emptied tables beside the model."""

    submitted = Bundle("submitted")
    claims = Bundle("claims")

    def __init__(self, store: Store, clock: MovedClock, taken: Counter[str]) -> None:
        super().__init__()
        self.store, self.clock, self.taken = store, clock, taken
        with store.engine.begin() as conn:
            for table in (jobs_table, job_queue, table_locks, job_history, switches):
                conn.execute(sa.delete(table))
        clock.now = datetime(2026, 11, 21, 22, 0, tzinfo=UTC)
        numbers = count(1)
        self.real = Jobs(store, POLICY, make_id=lambda: f"id-{next(numbers)}")
        self.model: dict[str, ModelJob] = {}
        self.locks: dict[TableName, ModelLock] = {}
        self.drain = False

    def teardown(self) -> None:
        self.real.close()

    # -- what the model says -------------------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        return self.clock.now

    def tick(self) -> None:
        """No two jobs of one moment: which of them a claim takes is open, and an example must go the same way twice."""
        self.clock.now += timedelta(microseconds=1)

    def is_free(self, table: TableName) -> bool:
        lock = self.locks.get(table)
        return lock is None or (lock.expires_at <= self.now and not self.is_queued(lock.holder))

    def is_queued(self, holder: str) -> bool:
        return holder in self.model and self.model[holder].queued

    def is_current(self, claim: Claim) -> bool:
        job = self.model[claim.job.job_id]
        return job.status is JobStatus.RUNNING and job.fence == claim.attempt_id

    def visible(self) -> set[str]:
        """The jobs that a worker can claim."""
        if self.drain:
            return set()
        return {key for key, job in self.model.items() if job.status is JobStatus.PENDING and job.visible_at <= self.now}

    def add(self, job_id: str, table: TableName, owner: str) -> None:
        self.model[job_id] = ModelJob(table, owner, self.now, self.now)
        self.locks[table] = ModelLock(job_id, self.now, self.now + POLICY.lease)

    def start(self, claim: Claim) -> None:
        job = self.model[claim.job.job_id]
        assert claim.attempt_id not in {other.fence for other in self.model.values()}
        job.become(JobStatus.RUNNING)
        job.attempt, job.fence = job.attempt + 1, claim.attempt_id
        self.extend(claim)

    def extend(self, claim: Claim) -> None:
        job = self.model[claim.job.job_id]
        job.visible_at = self.now + POLICY.lease
        if self.locks[job.table].holder == claim.job.job_id:
            self.locks[job.table].expires_at = job.visible_at

    def unlock(self, table: TableName, holder: str) -> bool:
        if table in self.locks and self.locks[table].holder == holder:
            del self.locks[table]
            return True
        return False

    # -- submit and claim ----------------------------------------------------------------------------------------------

    @rule(target=submitted, table=tables, owner=owners)
    def submit(self, table: TableName, owner: str) -> Any:
        self.tick()
        if self.drain:
            with pytest.raises(DrainModeOn):
                self.real.submit(table, ["expire_snapshots"])
            return multiple()
        if not self.is_free(table):
            return self.submit_to_a_locked_table(table, owner)
        job = self.real.submit(table, ["expire_snapshots"], owner=owner)
        self.add(job.job_id, table, owner)
        return job.job_id

    @rule(target=claims, table=tables, owner=owners)
    def submit_and_claim(self, table: TableName, owner: str) -> Any:
        self.tick()
        if self.drain:
            with pytest.raises(DrainModeOn):
                self.real.submit_and_claim(table, ["expire_snapshots"], "inline")
            return multiple()
        if not self.is_free(table):
            self.sweep_expired(table)
        if not self.is_free(table):
            with pytest.raises(TableLocked):
                self.real.submit_and_claim(table, ["expire_snapshots"], "inline")
            return multiple()
        claim = self.real.submit_and_claim(table, ["expire_snapshots"], "inline", owner=owner)
        self.add(claim.job.job_id, table, owner)
        self.model[claim.job.job_id].inline = True
        self.start(claim)
        return claim

    def submit_to_a_locked_table(self, table: TableName, owner: str) -> Any:
        """A lock past its time makes a submit sweep first, which may free the table."""
        self.sweep_expired(table)
        if self.is_free(table):
            job = self.real.submit(table, ["expire_snapshots"], owner=owner)
            self.add(job.job_id, table, owner)
            return job.job_id
        with pytest.raises(TableLocked) as refused:
            self.real.submit(table, ["expire_snapshots"])
        assert refused.value.lock.holder == self.locks[table].holder
        return multiple()

    def sweep_expired(self, table: TableName) -> None:
        if self.locks[table].expires_at <= self.now:
            self.swept()

    @rule(target=claims)
    def claim_next(self) -> Any:
        claim = self.real.claim("worker")
        if claim is None:
            assert not self.visible()
            return multiple()
        assert claim.job.job_id in self.visible()
        self.start(claim)
        return claim

    @rule(target=claims, job_id=submitted)
    def claim_given(self, job_id: str) -> Any:
        claim = self.real.claim("worker", job_id=job_id)
        assert (claim is not None) == (job_id in self.visible())
        if claim is None:
            return multiple()
        self.start(claim)
        return claim

    @rule(target=claims, claim=claims, owner=owners)
    def take_over(self, claim: Claim, owner: str) -> Any:
        job_id = claim.job.job_id
        job = self.model[job_id]
        if job.deleted or not job.queued or job.owner != owner:
            error = JobNotFound if job.deleted else JobAlreadyFinished if not job.queued else NotTheOwner
            with pytest.raises(error):
                self.real.take_over(job_id, "retry", owner=owner)
            return multiple()
        assert self.real.find_owned(owner) is not None
        taken = self.real.take_over(job_id, "retry", owner=owner)
        job.inline = True
        self.start(taken)
        return taken

    # -- with a claim, current or stale --------------------------------------------------------------------------------

    @rule(claim=claims)
    def renew(self, claim: Claim) -> None:
        current = self.is_current(claim)
        assert self.real.renew(claim) == current
        if current:
            self.extend(claim)

    @rule(claim=claims)
    def look_at_the_fence(self, claim: Claim) -> None:
        assert self.real.holds(claim) == self.is_current(claim)

    @rule(claim=claims, status=endings)
    def finish(self, claim: Claim, status: JobStatus) -> None:
        current = self.is_current(claim)
        assert self.real.finish(claim, status, [], "why") == current
        if current:
            job = self.model[claim.job.job_id]
            job.end(status, claim.attempt_id)
            self.unlock(job.table, claim.job.job_id)

    @rule(claim=claims)
    def leave_the_table(self, claim: Claim) -> None:
        job = self.model[claim.job.job_id]
        may = not job.queued and job.attempt == claim.attempt
        assert self.real.release_lock(claim) == (may and self.unlock(job.table, claim.job.job_id))

    # -- by people and by the sweep ------------------------------------------------------------------------------------

    def cancel(self, job_id: str) -> None:
        job = self.model[job_id]
        if job.deleted or not job.queued:
            with pytest.raises(JobNotFound if job.deleted else JobAlreadyFinished):
                self.real.cancel(job_id)
            return
        assert self.real.cancel(job_id).status is JobStatus.CANCELLED
        if job.status is JobStatus.PENDING:
            self.unlock(job.table, job_id)
        job.end(JobStatus.CANCELLED, None)

    def delete(self, job_id: str) -> None:
        job = self.model[job_id]
        if job.deleted or job.queued:
            with pytest.raises(JobNotFound if job.deleted else JobStillActive):
                self.real.delete(job_id)
            return
        self.real.delete(job_id)
        job.deleted = True

    @rule(job_id=submitted)
    def cancel_submitted(self, job_id: str) -> None:
        self.cancel(job_id)

    @rule(claim=claims)
    def cancel_claimed(self, claim: Claim) -> None:
        self.cancel(claim.job.job_id)

    @rule(claim=claims)
    def delete_claimed(self, claim: Claim) -> None:
        self.delete(claim.job.job_id)

    @rule(job_id=submitted)
    def delete_submitted(self, job_id: str) -> None:
        self.delete(job_id)

    @precondition(lambda self: self.model)
    @rule()
    def sweep(self) -> None:
        report = self.real.sweep()
        assert report.paused == self.drain
        if self.drain:
            return
        spent, requeued, gone = self.swept()
        assert (set(report.failed), set(report.requeued), set(report.unlocked)) == (spent, requeued, gone)

    def swept(self) -> tuple[set[str], set[str], set[str]]:
        """What a sweep does now: the jobs that fail, the jobs that wait again, the tables that become free otherwise."""
        lost = {key for key, job in self.model.items() if job.status is JobStatus.RUNNING and job.visible_at <= self.now}
        spent = {key for key in lost if self.model[key].inline or self.model[key].attempt >= POLICY.max_attempts}
        for key in spent:
            self.model[key].end(JobStatus.FAILED, None)
            self.unlock(self.model[key].table, key)
        for key in lost - spent:
            job = self.model[key]
            job.become(JobStatus.PENDING)
            job.fence, job.visible_at = None, self.now + POLICY.retry_base * 2**job.attempt
        gone = {str(table) for table, lock in self.locks.items() if self.is_free(table) and lock.expires_at <= self.now}
        self.locks = {table: lock for table, lock in self.locks.items() if str(table) not in gone}
        return spent, lost - spent, gone

    @rule(period=st.sampled_from(PERIODS))
    def time_passes(self, period: timedelta) -> None:
        self.clock.now += period

    @rule(on=st.sampled_from([False, False, True]))
    def switch_drain(self, on: bool) -> None:
        assert self.real.set_drain(on).on == on
        self.drain = on

    @rule(table=tables, holder=holders, ttl=st.sampled_from(PERIODS))
    def acquire(self, table: TableName, holder: str, ttl: timedelta) -> None:
        held = self.locks.get(table)
        if held is not None and held.holder != holder and not self.is_free(table):
            with pytest.raises(TableLocked):
                self.real.locks.acquire(table, holder, ttl=ttl)
            return
        since = held.acquired_at if held is not None and held.holder == holder else self.now
        self.real.locks.acquire(table, holder, ttl=ttl)
        self.locks[table] = ModelLock(holder, since, self.now + ttl)

    @rule(table=tables, holder=holders)
    def release(self, table: TableName, holder: str) -> None:
        assert self.real.locks.release(table, holder) == self.unlock(table, holder)

    # -- after every step ----------------------------------------------------------------------------------------------

    @invariant()
    def the_database_is_what_the_model_says(self) -> None:
        self.taken["steps"] += 1
        with self.store.engine.connect() as conn:
            jobs, queue, locks = (conn.execute(sa.select(table)).all() for table in (jobs_table, job_queue, table_locks))
        assert {row.job_id: (row.status, row.attempt, row.attempt_id, row.deleted_at is not None) for row in jobs} == {
            key: (job.status, job.attempt, job.fence, job.deleted) for key, job in self.model.items()
        }
        assert {row.job_id: (row.attempt_id, row.attempt_count, row.visible_at, row.claimed_at is not None) for row in queue} == {
            key: (job.fence, job.attempt, job.visible_at, job.status is JobStatus.RUNNING)
            for key, job in self.model.items()
            if job.queued
        }
        assert {row.table_key: (row.holder, row.acquired_at, row.expires_at) for row in locks} == {
            str(table): (lock.holder, lock.acquired_at, lock.expires_at) for table, lock in self.locks.items()
        }

    @invariant()
    def every_lock_has_somebody_who_will_release_it(self) -> None:
        for lock in self.locks.values():
            external = lock.holder in ("etl", "reload")
            assert external or self.is_queued(lock.holder) or self.model[lock.holder].status is JobStatus.CANCELLED

    @invariant()
    def every_active_job_holds_its_table(self) -> None:
        for key, job in self.model.items():
            assert not job.queued or self.locks[job.table].holder == key

    @invariant()
    def no_job_ends_twice(self) -> None:
        assert all(len(job.ended_by) <= 1 for job in self.model.values())

    @invariant()
    def the_queue_depth_is_what_is_unclaimed_and_visible(self) -> None:
        assert self.real.queue_depth() == len(self.visible())


def test_every_sequence_of_steps_leaves_what_the_model_says(
    store: Store, clock: MovedClock, record_property: Callable[[str, object], None]
) -> None:
    taken: Counter[str] = Counter()
    bounded = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        phases=[Phase.generate],  # shrinking may take five minutes, and fifty steps can be read
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(lambda: Lifecycle(store, clock, taken), settings=bounded)
    record_property("steps", taken["steps"])
    assert taken["steps"] >= rounds(100, soak=10_000)
