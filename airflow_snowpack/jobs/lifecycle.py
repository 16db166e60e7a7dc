"""The life of a maintenance job, from submit to its terminal state.

    jobs = Jobs(store)
    job = jobs.submit(table, ["rewrite_data_files"])
    claim = jobs.claim("worker-1")
    jobs.renew(claim)
    jobs.finish(claim, JobStatus.COMPLETED, results)

The invariant: **for one job at most one attempt ever writes a terminal state**. Every write after a claim carries the
claim's ``attempt_id``; cancel, take-over and sweep move that fence, and whoever lost it gets ``False``. Lock, job and
queue row are written in one transaction and go in one transaction, so that no crash can leave one without the others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import sqlalchemy as sa

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.jobs import statements as do
from airflow_snowpack.jobs.errors import DrainModeOn, JobAlreadyFinished, JobNotFound, JobStillActive, NotTheOwner, TableLocked
from airflow_snowpack.jobs.listing import IS_LIVE
from airflow_snowpack.jobs.locks import TableLocks
from airflow_snowpack.jobs.model import (
    ActionResult,
    Claim,
    DrainState,
    Job,
    JobStatus,
    LifecyclePolicy,
    SweepReport,
)
from airflow_snowpack.jobs.reading import JobReader
from airflow_snowpack.jobs.rows import claim_from, job_from, job_values, results_to_json, table_values
from airflow_snowpack.jobs.sweep import sweep_once
from airflow_snowpack.jobs.switches import read_drain, write_drain
from airflow_snowpack.store import ClaimCursor, IdMaker, Store, new_id, repeatable, storable
from airflow_snowpack.store.schema import job_queue, jobs, table_locks

if TYPE_CHECKING:
    from airflow_snowpack.jobs.postgres import PostgresSteps
    from airflow_snowpack.jobs.sqlite import SqliteSteps

log = logging.getLogger(__name__)
Take = Callable[[sa.Connection, Mapping[str, Any]], "sa.Row[Any] | None"]
Also = Callable[[sa.Connection, Job], None]
"""What a caller writes with a change of a job, in the same transaction."""


def _steps_of(store: Store) -> PostgresSteps | SqliteSteps:
    # Imported here: psycopg and the statements for it cost a short task on SQLite more than all the rest of its work.
    if store.is_postgres:
        from airflow_snowpack.jobs.postgres import PostgresSteps

        return PostgresSteps()
    from airflow_snowpack.jobs.sqlite import SqliteSteps

    return SqliteSteps()


class Jobs(JobReader):
    """Every step of the lifecycle; what only looks is in :class:`JobReader`.

    :param policy: lease, limits and back-off.
    :param make_id: draws job ids and attempt ids.
    """

    def __init__(self, store: Store, policy: LifecyclePolicy | None = None, make_id: IdMaker = new_id) -> None:
        super().__init__(store)
        self.policy = policy or LifecyclePolicy()
        self.locks = TableLocks(store)
        self._make_id = make_id
        self._steps = _steps_of(store)
        self._step = store.single if store.is_postgres else store.transact
        self._cursor = ClaimCursor()

    # -- submit --------------------------------------------------------------------------------------------------------

    def submit(
        self,
        table: TableName,
        actions: Sequence[str],
        *,
        options: Mapping[str, Any] | None = None,
        submitted_by: str | None = None,
        owner: str | None = None,
        also: Also | None = None,
        entry: Callable[[Job], Mapping[str, Any]] | None = None,
    ) -> Job:
        """Lock the table, record the job and queue it, in one transaction.

        :param options: per action, as JSON values.
        :param owner: who may take the job over later, see :meth:`take_over`.
        :param also: written in the same transaction; when it raises, nothing is.
        :param entry: the values of an entry in the audit trail, written with the job; cheaper than ``also``.
        :raises DrainModeOn: submissions are refused; nothing was written.
        :raises TableLocked: another job or holder has the table; nothing was written.
        """
        job = self._new_job(table, actions, options, submitted_by, owner)
        values = self._submit_values(job) | (dict(entry(job)) if entry is not None else {})

        def write(conn: sa.Connection) -> bool:
            free = self._steps.submit(conn, values)
            if free and also is not None:
                also(conn, job)
            return free

        submit = repeatable(write, lambda conn: self._was_submitted(conn, job))
        step = self._step if also is None else self.store.transact
        while not step(submit):
            self._refuse(table)  # returns when the table has become free since
        self._submitted(job)
        return job

    def submit_and_claim(
        self,
        table: TableName,
        actions: Sequence[str],
        worker_id: str,
        *,
        options: Mapping[str, Any] | None = None,
        submitted_by: str | None = None,
        owner: str | None = None,
    ) -> Claim:
        """Submit a job and hold it from the start, for a process that runs it itself.

        No other worker ever gets this job: not in between, and not when its lease runs out. Then the sweep fails it, and whoever
        asked for it (an Airflow retry, the next run) asks again.

        :raises DrainModeOn, TableLocked: as :meth:`submit`.
        """
        job = replace(self._new_job(table, actions, options, submitted_by, owner), inline=True)
        submit, claim = self._submit_values(job), self._claim_values(worker_id, job.submitted_at, key=job.job_id)

        def both(conn: sa.Connection) -> sa.Row[Any] | None:
            return self._steps.claim_key(conn, claim) if self._steps.submit(conn, submit) else None

        step = repeatable(both, lambda conn: self._claimed_before(conn, claim))
        while (row := self.store.transact(step)) is None:
            self._refuse(table)
        self._submitted(job)
        return self._claimed(row, worker_id, claim)

    def record_dry_run(
        self,
        table: TableName,
        actions: Sequence[str],
        results: Sequence[ActionResult],
        *,
        options: Mapping[str, Any] | None = None,
        submitted_by: str | None = None,
        also: Also | None = None,
    ) -> Job:
        """Record a dry run: completed at once, with no lock and no queue row.

        :param also: as for :meth:`submit`.
        :raises DrainModeOn: submissions are refused; nothing was written.
        """
        job = self._new_job(table, actions, options, submitted_by, None)
        done = replace(
            job,
            dry_run=True,
            status=JobStatus.COMPLETED,
            started_at=job.submitted_at,
            completed_at=job.submitted_at,
            results=tuple(results),
        )

        def write(conn: sa.Connection) -> bool:
            state = read_drain(conn)
            if state.on:
                raise DrainModeOn(state)
            conn.execute(do.insert_job(), {f"j_{name}": value for name, value in job_values(done).items()})
            if also is not None:
                also(conn, done)
            return True

        self.store.transact(repeatable(write, lambda conn: self._was_submitted(conn, done)))
        self._events.record(done.job_id, "dry_run", actions=list(done.actions), by=submitted_by)
        return done

    # -- claim ---------------------------------------------------------------------------------------------------------

    def claim(self, worker_id: str, *, job_id: str | None = None) -> Claim | None:
        """Claim the next visible job, or the one that is named; ``None`` when there is nothing to claim.

        :param worker_id: who claims, for people who look.
        """
        now = self.store.clock()
        if job_id is not None:
            values = self._claim_values(worker_id, now, key=job_id)
            row = self._take(self._steps.claim_key, values)
            return None if row is None else self._claimed(row, worker_id, values)
        while True:
            values = self._claim_values(worker_id, now)
            row = self._take(self._steps.claim_next, values)
            if row is not None:
                self._cursor.found(row.place)
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
    ) -> Claim:
        """Claim one's own job whoever holds it: the fence moves, and the attempt before counts no longer.

        An Airflow retry uses this instead of waiting for the lease of a process that may still be alive.

        :param actions: run these from now on instead of the job's; likewise ``options``.
        :raises NotTheOwner: the job belongs to somebody else.
        :raises JobNotFound, JobAlreadyFinished: there is nothing to take over.
        """
        values = self._claim_values(worker_id, self.store.clock(), key=job_id)

        def take(conn: sa.Connection) -> sa.Row[Any] | None:
            conn.execute(sa.select(job_queue.c.job_id).where(job_queue.c.job_id == job_id).with_for_update())
            job = self._locked_job(conn, job_id)
            if job.status.is_terminal:
                raise JobAlreadyFinished(job_id, job.status)
            if job.owner is None or job.owner != owner:
                raise NotTheOwner(job_id, owner, job.owner)
            changes: dict[str, Any] = {} if actions is None else {"actions": list(actions)}
            changes |= {} if options is None else {"options": dict(options)}
            if changes:
                conn.execute(sa.update(jobs).where(jobs.c.job_id == job_id).values(**changes))
            return self._steps.take_over(conn, values)

        row = self.store.transact(repeatable(take, lambda conn: self._claimed_before(conn, values)))
        assert row is not None, "an active job has its queue row"
        return self._claimed(row, worker_id, values, event="taken_over")

    def reclaim(self, claimant: str, worker_id: str, *, job_id: str | None = None) -> Claim | None:
        """Take over what an earlier try of the same claimant still holds; ``None`` when it holds nothing.

        For a task that claimed somebody else's job: its retry need not wait for the lease.

        :param claimant: what the worker ids of all its tries begin with.
        :param job_id: only this job; ``None`` for any.
        """
        values = self._claim_values(worker_id, self.store.clock())
        # Not LIKE, which takes upper and lower case for the same on SQLite.
        begins = sa.func.substr(job_queue.c.claimed_by, 1, len(claimant)) == claimant
        held = sa.select(job_queue.c.job_id).where(begins)
        held = held.where(job_queue.c.job_id == job_id) if job_id is not None else held

        def take(conn: sa.Connection) -> sa.Row[Any] | None:
            key = conn.execute(held.limit(1).with_for_update()).scalar()
            return None if key is None else self._steps.take_over(conn, {**values, "b_key": key})

        row = self.store.transact(repeatable(take, lambda conn: self._claimed_before(conn, values)))
        return None if row is None else self._claimed(row, worker_id, values, event="taken_over")

    # -- while it runs -------------------------------------------------------------------------------------------------

    def renew(self, claim: Claim) -> bool:
        """The heartbeat: move the end of the lease and of the table lock. ``False``: the fence has moved, stop the work."""
        until = self.store.clock() + self.policy.lease
        lock = {"b_key": claim.job.job_id, "b_table": str(claim.job.table), "b_until": until}

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
        """Whether this attempt still counts; reads one row."""
        return self.store.read(lambda conn: do.LEASES.holds(conn, claim.job.job_id, claim.attempt_id))

    def record_progress(self, claim: Claim, results: Sequence[ActionResult]) -> bool:
        """Keep the results so far, fenced, so that they can be seen while the job runs and survive its worker."""
        mine = sa.and_(jobs.c.job_id == claim.job.job_id, jobs.c.attempt_id == claim.attempt_id)
        running = jobs.c.status == JobStatus.RUNNING.value
        write = sa.update(jobs).where(mine, running).values(results=results_to_json(results))
        kept = self._step(lambda conn: conn.execute(write).rowcount) == 1
        if kept:
            self._tell_action(claim, results[-1])
        return kept

    # -- the end -------------------------------------------------------------------------------------------------------

    def finish(self, claim: Claim, status: JobStatus, results: Sequence[ActionResult], error: str | None = None) -> bool:
        """Write the terminal state, take the job out of the queue and free the table, all fenced and in one transaction.

        :param status: ``COMPLETED`` or ``FAILED``.
        :param error: why it failed. A failed job always has an error, by which lists find it.
        :returns: ``False`` when the fence has moved; then nothing was written, and ``writeback_stale_attempt`` is logged.
        """
        if status not in (JobStatus.COMPLETED, JobStatus.FAILED):
            raise ValueError(f"An attempt ends as completed or failed, not as {status}.")
        if status is JobStatus.FAILED and error is None:
            error = "It failed, and its worker did not say why."
        now = self.store.clock()
        values = {
            "b_key": claim.job.job_id,
            "b_attempt": claim.attempt_id,
            "b_now": now,
            "b_status": status.value,
            "b_error": None if error is None else storable(error),
            "b_results": results_to_json(results) or None,
        }
        end = repeatable(lambda conn: self._steps.finish(conn, values), lambda conn: self._ended_before(conn, values))
        if not self._step(end):
            log.warning("writeback_stale_attempt: job %s, attempt %s, wanted %s", claim.job.job_id, claim.attempt_id, status)
            self._events.record(claim.job.job_id, "writeback_stale_attempt", claim.attempt_id, wanted=status)
            return False
        if results and results[-1].action not in {result.action for result in claim.job.results}:
            self._tell_action(claim, results[-1])
        self._events.record(claim.job.job_id, status, claim.attempt_id, error=error)
        return True

    def release_lock(self, claim: Claim) -> bool:
        """Free the table after a running job was cancelled; what its worker does when it has left the table alone.

        Does nothing while the job is active, or when another attempt was the last: then the lock is that attempt's.
        """
        queued = sa.exists().where(job_queue.c.job_id == claim.job.job_id)
        last = sa.exists().where(jobs.c.job_id == claim.job.job_id, jobs.c.attempt == claim.attempt)
        held = sa.and_(table_locks.c.table_key == str(claim.job.table), table_locks.c.holder == claim.job.job_id)
        released = self._step(lambda conn: conn.execute(sa.delete(table_locks).where(held, last, ~queued)).rowcount) == 1
        if released:
            self._events.record(claim.job.job_id, "unlocked", claim.attempt_id)
        return released

    def cancel(self, job_id: str, *, by: str | None = None, also: Also | None = None) -> Job:
        """Cancel a pending or running job, for good.

        The fence is revoked and the queue row removed. A pending job frees its table at once; that of a running job
        stays locked until its worker has left it, or until the lease has run out and the sweep frees it.

        :param by: who cancels, for the record.
        :param also: as for :meth:`submit`.
        :raises JobNotFound, JobAlreadyFinished: there is nothing to cancel.
        """
        now, job_id, by = self.store.clock(), storable(job_id), by and storable(by)

        def write(conn: sa.Connection) -> Job:
            conn.execute(sa.select(job_queue.c.job_id).where(job_queue.c.job_id == job_id).with_for_update())
            job = self._locked_job(conn, job_id)
            if job.status.is_terminal:
                raise JobAlreadyFinished(job_id, job.status)
            values = {"status": "cancelled", "attempt_id": None, "completed_at": now, "error": f"Cancelled by {by or 'user'}"}
            conn.execute(sa.update(jobs).where(jobs.c.job_id == job_id).values(**values))
            conn.execute(sa.delete(job_queue).where(job_queue.c.job_id == job_id))
            if job.status is JobStatus.PENDING:
                conn.execute(do.unlock_table(), {"b_key": job_id, "b_table": str(job.table)})
            if also is not None:
                also(conn, job)
            return self._locked_job(conn, job_id)

        ours = sa.and_(jobs.c.job_id == job_id, jobs.c.status == JobStatus.CANCELLED.value, jobs.c.completed_at == now)
        job = self.store.transact(repeatable(write, lambda conn: _first_job(conn, ours)))
        self._events.record(job_id, "cancelled", by=by)
        return job

    def delete(self, job_id: str, *, also: Also | None = None) -> None:
        """Hide a finished job; its row stays for the audit.

        :param also: as for :meth:`submit`.
        :raises JobNotFound: no such job, or deleted before.
        :raises JobStillActive: it is pending or running.
        """
        now, job_id = self.store.clock(), storable(job_id)

        def write(conn: sa.Connection) -> Job:
            job = self._locked_job(conn, job_id)
            if not job.status.is_terminal:
                raise JobStillActive(job_id, job.status)
            conn.execute(sa.update(jobs).where(jobs.c.job_id == job_id).values(deleted_at=now))
            if also is not None:
                also(conn, job)
            return job

        ours = sa.and_(jobs.c.job_id == job_id, jobs.c.deleted_at == now)
        self.store.transact(repeatable(write, lambda conn: _first_job(conn, ours)))
        self._events.record(job_id, "deleted")

    def sweep(self, *, also: Callable[[sa.Connection, SweepReport], None] | None = None) -> SweepReport:
        """Return jobs whose lease ran out to the queue, fail those without attempts left, free locks whose holder is gone.

        Does nothing in drain mode.

        :param also: written in the same transaction, when that changes anything.
        """
        report = sweep_once(self.store, self.policy, also)
        for job_id in report.requeued:
            self._events.record(job_id, "requeued")
        for job_id in report.failed:
            self._events.record(job_id, "failed", reason="no attempts left")
        return report

    def set_drain(
        self,
        on: bool,
        *,
        by: str | None = None,
        reason: str | None = None,
        also: Callable[[sa.Connection], None] | None = None,
    ) -> DrainState:
        """Switch drain mode.

        :param also: written in the same transaction, when that changes anything.
        """
        return write_drain(self.store, on=on, by=by, reason=reason, also=also)

    def flush(self) -> None:
        """Write the history that is still in memory; call it before a process ends."""
        self._events.flush()

    def close(self) -> None:
        """Write what is pending and close the store."""
        self._events.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _new_job(
        self,
        table: TableName,
        actions: Sequence[str],
        options: Mapping[str, Any] | None,
        submitted_by: str | None,
        owner: str | None,
    ) -> Job:
        return Job(
            job_id=self._make_id(),
            table=table,
            actions=tuple(str(action) for action in actions),
            options=dict(options or {}),
            dry_run=False,
            status=JobStatus.PENDING,
            submitted_at=self.store.clock(),
            submitted_by=submitted_by,
            owner=owner,
        )

    def _submit_values(self, job: Job) -> dict[str, Any]:
        until = job.submitted_at + self.policy.lease
        lock = {**table_values(job.table), "holder": job.job_id, "acquired_at": job.submitted_at, "expires_at": until}
        return {
            "b_now": job.submitted_at,
            **{f"b_{name}": value for name, value in lock.items()},
            **{f"j_{name}": value for name, value in job_values(job).items()},
        }

    def _claim_values(self, worker_id: str, now: datetime, key: str | None = None) -> Mapping[str, Any]:
        start = self._cursor.start(now)
        return do.LEASES.claim_values(worker_id, self._make_id(), now, now + self.policy.lease, key=key, start=start)

    def _take(self, step: Take, values: Mapping[str, Any]) -> sa.Row[Any] | None:
        take = repeatable(lambda conn: step(conn, values), lambda conn: self._claimed_before(conn, values))
        row: sa.Row[Any] | None = self._step(take)
        return row

    def _claimed_before(self, conn: sa.Connection, values: Mapping[str, Any]) -> sa.Row[Any] | None:
        """The claim that a lost answer hid: the fence is ours alone, so a job that carries it is ours."""
        query = sa.select(jobs, job_queue.c.enqueued_at.label("place")).join_from(
            jobs, job_queue, jobs.c.job_id == job_queue.c.job_id
        )
        return conn.execute(query.where(job_queue.c.attempt_id == values["b_attempt"])).first()

    def _ended_before(self, conn: sa.Connection, values: Mapping[str, Any]) -> bool:
        """The same for a terminal write: a job that carries our fence, our status and our moment was ended by us."""
        ours = sa.and_(jobs.c.job_id == values["b_key"], jobs.c.attempt_id == values["b_attempt"])
        ended = sa.and_(jobs.c.status == values["b_status"], jobs.c.completed_at == values["b_now"])
        return conn.execute(sa.select(jobs.c.job_id).where(ours, ended)).first() is not None

    def _was_submitted(self, conn: sa.Connection, job: Job) -> bool:
        """The same for a submit, whose job id is ours alone."""
        return conn.execute(sa.select(jobs.c.job_id).where(jobs.c.job_id == job.job_id)).first() is not None

    def _locked_job(self, conn: sa.Connection, job_id: str) -> Job:
        row = conn.execute(sa.select(jobs).where(jobs.c.job_id == job_id, IS_LIVE).with_for_update()).first()
        if row is None:
            raise JobNotFound(job_id)
        return job_from(row)

    def _refuse(self, table: TableName) -> None:
        state = self.drain()
        if state.on:
            raise DrainModeOn(state)
        lock = self.locks.get(table)
        if lock is None:
            return
        if lock.expires_at <= self.store.clock():
            # Its job may be one that nobody will go on with; the installation may have no sweep on a schedule.
            self.sweep()
            lock = self.locks.blocking(table)
        if lock is not None:
            raise TableLocked(lock, waiting=lock.expires_at <= self.store.clock())

    def _submitted(self, job: Job) -> None:
        self._events.record(job.job_id, "submitted", by=job.submitted_by, table=str(job.table), actions=list(job.actions))

    def _claimed(self, row: sa.Row[Any], worker_id: str, values: Mapping[str, Any], event: str = "claimed") -> Claim:
        claim = claim_from(row, worker_id, values["b_until"])
        self._events.record(claim.job.job_id, event, claim.attempt_id, worker=worker_id, attempt=claim.attempt)
        return claim

    def _tell_action(self, claim: Claim, result: ActionResult) -> None:
        detail = {"outcome": result.outcome.value, "message": result.message, "elapsed_seconds": result.elapsed_seconds}
        self._events.record(claim.job.job_id, "action", claim.attempt_id, action=result.action, **detail)


def _first_job(conn: sa.Connection, where: sa.ColumnElement[bool]) -> Job | None:
    row = conn.execute(sa.select(jobs).where(where)).first()
    return None if row is None else job_from(row)
