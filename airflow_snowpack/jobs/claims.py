"""What a worker does with a job: claim it, renew the claim during the work, and finish it.

    claim = jobs.claim("worker-1")
    jobs.renew(claim)
    jobs.finish(claim, JobStatus.COMPLETED, results)

The invariant: every write after a claim carries the claim's ``attempt_id``. Cancel, take-over and sweep move this fence; the
attempt that lost it writes nothing and gets ``False``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_snowpack.jobs import statements as do
from airflow_snowpack.jobs.action_history import records_of, skipped_by_plan
from airflow_snowpack.jobs.claim_order import ORDER, ClaimCursor, QueuePosition, close_gaps, is_in_turn
from airflow_snowpack.jobs.errors import JobAlreadyFinished, JobNotFound, NotTheOwner, WorkStillRunning
from airflow_snowpack.jobs.listing import IS_LIVE
from airflow_snowpack.jobs.locks import TableLocks
from airflow_snowpack.jobs.model import ActionResult, Claim, Job, JobStatus, LifecyclePolicy
from airflow_snowpack.jobs.queries import JobReader
from airflow_snowpack.jobs.rescuer import Orphans
from airflow_snowpack.jobs.rows import job_from, queue_of, results_to_json
from airflow_snowpack.jobs.steps_sqlite import keep_records
from airflow_snowpack.store import IdMaker, Store, new_id, repeatable, storable_error
from airflow_snowpack.store.tables.jobs import job_queue, jobs, table_locks

if TYPE_CHECKING:
    from airflow_snowpack.jobs.steps_postgres import PostgresSteps
    from airflow_snowpack.jobs.steps_sqlite import SqliteSteps
    from airflow_snowpack.store.store import Work

log = logging.getLogger(__name__)
Take = Callable[[sa.Connection, Mapping[str, Any]], "sa.Row[Any] | None"]


class Claims(JobReader):
    """The worker's part of the lifecycle; ``orphans`` ends what a killed worker left on a Spark server, or its table stays
    locked.
    """

    def __init__(
        self,
        store: Store,
        policy: LifecyclePolicy | None = None,
        make_id: IdMaker = new_id,
        *,
        orphans: Orphans | None = None,
    ) -> None:
        super().__init__(store)
        self.orphans = orphans
        self.policy = policy or LifecyclePolicy()
        self.locks = TableLocks(store)
        self._make_id = make_id
        self._steps = _steps_of(store)
        self._step = store.single if store.is_postgres else store.transact
        self._cursor = ClaimCursor()

    def claim(self, worker_id: str, *, job_id: str | None = None, catalog_id: str = "") -> Claim | None:
        """Claim the next visible job, or the job of this id; return ``None`` if there is none, or in drain mode.

        :param worker_id: displayed as the holder of the claim.
        :param catalog_id: the worker's catalog: jobs of other catalogs are never claimed.
        """
        now = self.store.clock()
        if job_id is not None:
            values = self._claim_values(worker_id, now, key=job_id, catalog_id=catalog_id)
            row = self.store.transact(self._taking(self._claim_key, values))
            return None if row is None else self._claimed(row, worker_id, values)
        while True:
            values = self._claim_values(worker_id, now, catalog_id=catalog_id)
            row = self._step(self._taking(self._steps.claim_next, values))
            if row is not None:
                self._cursor.found(QueuePosition.of(row))
                return self._claimed(row, worker_id, values)
            if not self._cursor.exhausted(now):
                return None

    def take_over(
        self,
        job_id: str,
        worker_id: str,
        *,
        owner: str,
        actions: Sequence[str] | None = None,
        options: Mapping[str, Any] | None = None,
        plan: Mapping[str, Any] | None = None,
    ) -> Claim:
        """Claim a job of this owner from its current attempt: the fence moves, and that attempt no longer counts.

        An Airflow retry uses this instead of waiting for the lease of a process that may still be alive. From then on the job is
        inline, even if it was queued before: no worker gets it, and it fails when the lease of its task expires.

        :param actions: replace the job's actions, as ``options`` and ``plan`` do.
        :raises NotTheOwner: the job has another owner.
        :raises JobNotFound, JobAlreadyFinished: there is nothing to take over.
        """
        values = self._claim_values(worker_id, self.store.clock(), key=job_id)

        def take(conn: sa.Connection) -> sa.Row[Any] | None:
            job = self._locked_active(conn, job_id)
            if job.owner is None or job.owner != owner:
                raise NotTheOwner(job_id, owner, job.owner)
            changes: dict[str, Any] = {"inline": True}
            changes |= {} if actions is None else {"actions": list(actions), "plan": plan}
            changes |= {} if options is None else {"options": dict(options)}
            conn.execute(sa.update(jobs).where(jobs.c.job_id == job_id).values(**changes))
            taken = self._steps.take_over(conn, values)
            if taken is not None and job.status is JobStatus.PENDING:
                _close_gap(conn, taken)
            return taken

        row = self.store.transact(repeatable(take, lambda conn: self._claimed_before(conn, values)))
        assert row is not None, "an active job has its queue row"
        return self._claimed(row, worker_id, values, event="taken_over")

    def reclaim(self, claimant: str, worker_id: str, *, job_id: str | None = None, catalog_id: str = "") -> Claim | None:
        """Take over a job that an earlier try of the same task has claimed; return ``None`` if there is none.

        The retry of a task that runs any job of the queue then need not wait for the lease.

        :param claimant: the prefix of the worker ids of all tries.
        """
        values = self._claim_values(worker_id, self.store.clock())
        # Not LIKE, which ignores case on SQLite.
        begins = sa.func.substr(job_queue.c.claimed_by, 1, len(claimant)) == claimant
        held = sa.select(job_queue.c.job_id).where(begins, job_queue.c.catalog_id == catalog_id)
        held = held.where(job_queue.c.job_id == job_id) if job_id is not None else held

        def take(conn: sa.Connection) -> sa.Row[Any] | None:
            key = conn.execute(held.limit(1).with_for_update()).scalar()
            return None if key is None else self._steps.take_over(conn, {**values, "b_key": key})

        row = self.store.transact(repeatable(take, lambda conn: self._claimed_before(conn, values)))
        return None if row is None else self._claimed(row, worker_id, values, event="taken_over")

    def renew(self, claim: Claim) -> bool:
        """Extend the lease and the table lock; ``False``: the fence has moved, stop the work."""
        until = self.store.clock() + self.policy.lease
        lock = {"b_key": claim.job.job_id, "b_table": claim.job.table.lock_key, "b_until": until}

        def beat(conn: sa.Connection) -> bool:
            if not do.LEASES.renew(conn, claim.job.job_id, claim.attempt_id, until):
                return False
            conn.execute(do.renew_lock(), lock)
            return True

        renewed = self.store.transact(beat)
        if renewed:
            self._events.record(claim.job.job_id, "heartbeat", claim.attempt_id)
        return renewed

    def holds(self, claim: Claim) -> bool:
        """Return whether this attempt still counts, from a single row."""
        return self.store.read(lambda conn: do.LEASES.holds(conn, claim.job.job_id, claim.attempt_id))

    def end_work(self, job: Job, attempts: Sequence[int]) -> None:
        """End what attempts at a job left running on its Spark server, and return when all of it has ended.

        :raises WorkStillRunning: this process cannot reach Spark servers.
        :raises SnowpackError: the server does not answer, or something still runs; call again.
        """
        if job.spark_server is None:
            return
        if self.orphans is None:
            raise WorkStillRunning(job.job_id, job.spark_server)
        self.orphans.end(job.spark_server, job.job_id, attempts)

    def note_server(self, claim: Claim, server: str | None) -> bool:
        """Record, before the work starts, the server that continues it if this process is killed; ``None`` for none.

        :returns: ``False`` without a write if the fence has moved.
        """
        return self._update_running(claim, spark_server=server)

    def record_progress(self, claim: Claim, results: Sequence[ActionResult]) -> bool:
        """Store the results so far, fenced, to show them while the job runs and to keep them if its worker is lost."""
        written = self._update_running(claim, results=results_to_json(results))
        if written:
            self._record_action(claim, results[-1])
        return written

    def _update_running(self, claim: Claim, **values: Any) -> bool:
        mine = sa.and_(jobs.c.job_id == claim.job.job_id, jobs.c.attempt_id == claim.attempt_id)
        write = sa.update(jobs).where(mine, jobs.c.status == JobStatus.RUNNING.value).values(**values)
        return self._step(lambda conn: conn.execute(write).rowcount) == 1

    def finish(
        self,
        claim: Claim,
        status: JobStatus,
        results: Sequence[ActionResult],
        error: str | None = None,
        *,
        left_work: bool = False,
    ) -> bool:
        """Write the terminal state, remove the queue row and unlock the table, fenced and in one transaction.

        :param status: ``COMPLETED``, ``FAILED``, or ``CANCELLED`` for a job that its worker stopped at a limit.
        :param error: why it failed. A failed job always has an error, by which lists find it.
        :param left_work: a Spark server may still work for this attempt: the table stays locked until a sweep has ended that.
        :returns: ``False`` if the fence has moved; then nothing was written, and ``writeback_stale_attempt`` is logged.
        """
        if not status.is_terminal:
            raise ValueError(f"An attempt ends as completed, failed or cancelled, not as {status}.")
        if status is JobStatus.FAILED and error is None:
            error = "The worker reported no reason."
        now = self.store.clock()
        values = {
            "b_key": claim.job.job_id,
            "b_attempt": claim.attempt_id,
            "b_now": now,
            "b_status": status.value,
            "b_error": None if error is None else storable_error(error),
            "b_results": results_to_json(results) or None,
            "b_records": records_of(claim.job, status, results),
        }
        write = partial(_finish_locked, lock_key=claim.job.table.lock_key) if left_work else self._steps.finish
        end = repeatable(lambda conn: write(conn, values), lambda conn: self._ended_before(conn, values))
        if not (self.store.transact if left_work else self._step)(end):
            log.warning("writeback_stale_attempt: job %s, attempt %s, wanted %s", claim.job.job_id, claim.attempt_id, status)
            self._events.record(claim.job.job_id, "writeback_stale_attempt", claim.attempt_id, wanted=status)
            return False
        if results and results[-1].action not in {result.action for result in claim.job.results}:
            self._record_action(claim, results[-1])
        self._events.record(claim.job.job_id, status, claim.attempt_id, error=error)
        return True

    def release_lock(self, claim: Claim, *, left_work: bool = False) -> bool:
        """Unlock the table of a job that was cancelled while it ran; called by its worker once it has left the table.

        Does nothing while the job is active, or if another attempt came later: then the lock belongs to that attempt.

        :param left_work: a Spark server may still work for this attempt: a sweep ends that, and then unlocks the table.
        """
        queued = sa.exists().where(job_queue.c.job_id == claim.job.job_id)
        last = sa.exists().where(jobs.c.job_id == claim.job.job_id, jobs.c.attempt == claim.attempt)
        held = sa.and_(table_locks.c.table_key == claim.job.table.lock_key, table_locks.c.holder == claim.job.job_id)
        if left_work:
            write = sa.update(table_locks).where(held, last, ~queued).values(expires_at=self.store.clock())
            self._step(lambda conn: conn.execute(write))
            return False
        ended = sa.update(jobs).where(jobs.c.job_id == claim.job.job_id, jobs.c.attempt == claim.attempt)
        ended = ended.where(jobs.c.status == JobStatus.CANCELLED.value, jobs.c.spark_server.is_not(None))

        def free(conn: sa.Connection) -> bool:
            conn.execute(ended.values(spark_server=None))
            return conn.execute(sa.delete(table_locks).where(held, last, ~queued)).rowcount == 1

        released = self.store.transact(free)
        if released:
            self._events.record(claim.job.job_id, "unlocked", claim.attempt_id)
        return released

    def _claim_values(self, worker_id: str, now: datetime, key: str | None = None, catalog_id: str = "") -> Mapping[str, Any]:
        values = do.LEASES.claim_values(worker_id, self._make_id(), now, now + self.policy.lease, key=key, group=catalog_id)
        return values if key is not None else {**values, **self._cursor.start(now).parameters}

    def _claim_key(self, conn: sa.Connection, values: Mapping[str, Any]) -> sa.Row[Any] | None:
        row = self._steps.claim_key(conn, values)
        if row is not None:
            _close_gap(conn, row)
        return row

    def _taking(self, step: Take, values: Mapping[str, Any]) -> Work[sa.Row[Any] | None]:
        return repeatable(lambda conn: step(conn, values), lambda conn: self._claimed_before(conn, values))

    def _claimed_before(self, conn: sa.Connection, values: Mapping[str, Any]) -> sa.Row[Any] | None:
        """Return the claim whose answer was lost: no other claim has our fence."""
        query = sa.select(jobs, *ORDER)
        query = query.join_from(jobs, job_queue, jobs.c.job_id == job_queue.c.job_id)
        return conn.execute(query.where(job_queue.c.attempt_id == values["b_attempt"])).first()

    def _ended_before(self, conn: sa.Connection, values: Mapping[str, Any]) -> bool:
        """Return whether the terminal write whose answer was lost went through: then the job has our fence, status and time."""
        ours = sa.and_(jobs.c.job_id == values["b_key"], jobs.c.attempt_id == values["b_attempt"])
        ended = sa.and_(jobs.c.status == values["b_status"], jobs.c.completed_at == values["b_now"])
        return conn.execute(sa.select(jobs.c.job_id).where(ours, ended)).first() is not None

    def _locked_active(self, conn: sa.Connection, job_id: str) -> Job:
        """Lock an active job: its queue row first, as every step does."""
        conn.execute(sa.select(job_queue.c.job_id).where(job_queue.c.job_id == job_id).with_for_update())
        job = self._locked_job(conn, job_id)
        if job.status.is_terminal:
            raise JobAlreadyFinished(job_id, job.status)
        return job

    def _locked_job(self, conn: sa.Connection, job_id: str) -> Job:
        row = conn.execute(sa.select(jobs).where(jobs.c.job_id == job_id, IS_LIVE).with_for_update()).first()
        if row is None:
            raise JobNotFound(job_id)
        return job_from(row)

    def _claimed(self, row: sa.Row[Any], worker_id: str, values: Mapping[str, Any], event: str = "claimed") -> Claim:
        job = job_from(row)
        assert job.attempt_id is not None, "a claimed job has a fence"
        claim = Claim(job, job.attempt_id, worker_id, job.attempt, lease_until=values["b_until"])
        self._events.record(claim.job.job_id, event, claim.attempt_id, worker=worker_id, attempt=claim.attempt)
        return claim

    def _record_action(self, claim: Claim, result: ActionResult) -> None:
        if skipped_by_plan(claim.job, result.action) is not None:
            return  # the plan has the reason
        detail = {"outcome": result.outcome.value, "message": result.message, "elapsed_seconds": result.elapsed_seconds}
        self._events.record(claim.job.job_id, "action", claim.attempt_id, action=result.action, **detail)


def _finish_locked(conn: sa.Connection, values: Mapping[str, Any], *, lock_key: str) -> bool:
    """Finish a job, but leave its lock to the sweep, because a Spark server may still write to the table."""
    if conn.execute(do.LEASES.release, values).rowcount != 1:
        return False
    if conn.execute(do.end_job(left_work=True), values).first() is None:
        return False
    conn.execute(do.expire_lock(), {**values, "b_table": lock_key})
    keep_records(conn, values, lock_key)
    return True


def _steps_of(store: Store) -> PostgresSteps | SqliteSteps:
    # Imported here: importing psycopg and its statements would cost a short task on SQLite more than the rest of its work.
    if store.is_postgres:
        from airflow_snowpack.jobs.steps_postgres import PostgresSteps

        return PostgresSteps()
    from airflow_snowpack.jobs.steps_sqlite import SqliteSteps

    return SqliteSteps()


def _close_gap(conn: sa.Connection, row: sa.Row[Any]) -> None:
    """Move up the jobs behind one that was claimed by its id, unless it was due."""
    if not is_in_turn(conn, queue := queue_of(job_from(row)), row.turn):
        close_gaps(conn, [(*queue, row.turn)])
