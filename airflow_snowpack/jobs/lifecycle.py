"""The life of a maintenance job, from submit to its terminal state.

    jobs = Jobs(store)
    job = jobs.submit(table, ["rewrite_data_files"])
    claim = jobs.claim("worker-1")
    jobs.finish(claim, JobStatus.COMPLETED, results)

The invariant: **for one job at most one attempt ever writes a terminal state**, see ``claims.py``. Lock, job and queue row are
written in one transaction and go in one transaction, so that no crash can leave one without the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import sqlalchemy as sa

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.jobs import statements as do
from airflow_snowpack.jobs.claims import Claims
from airflow_snowpack.jobs.errors import DrainModeOn, JobAlreadyFinished, JobStillActive, TableLocked
from airflow_snowpack.jobs.model import (
    ActionResult,
    Claim,
    DrainState,
    Job,
    JobStatus,
    SweepReport,
    TableLock,
)
from airflow_snowpack.jobs.orphans import end_orphans
from airflow_snowpack.jobs.rows import job_from, job_values, lock_values
from airflow_snowpack.jobs.sweep import sweep_once
from airflow_snowpack.jobs.switches import read_drain, write_drain
from airflow_snowpack.store import repeatable, storable
from airflow_snowpack.store.schema import job_queue, jobs

CANCELLED = "Cancelled by user"
"""The error of a cancelled job, in the specification's words; who cancelled it is ``Job.cancelled_by``."""

Also = Callable[[sa.Connection, Job], None]
"""What a caller writes with a change of a job, in the same transaction."""


class Jobs(Claims):
    """Every step of the lifecycle; what only looks is in :class:`JobReader`, and what a worker does in :class:`Claims`."""

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
        submit, claim = (
            self._submit_values(job),
            self._claim_values(worker_id, job.submitted_at, key=job.job_id, catalog_id=table.catalog_id),
        )

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
            ended = {"status": "cancelled", "attempt_id": None, "completed_at": now}
            values = {**ended, "error": CANCELLED, "cancelled_by": by}
            conn.execute(sa.update(jobs).where(jobs.c.job_id == job_id).values(**values))
            conn.execute(sa.delete(job_queue).where(job_queue.c.job_id == job_id))
            if job.status is JobStatus.PENDING:
                # The work of a lost attempt may still run on a Spark server; the sweep ends that, and then frees the table.
                unlock = do.unlock_table() if job.spark_server is None else do.expire_lock()
                conn.execute(unlock, {"b_key": job_id, "b_table": job.table.lock_key, "b_now": now})
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

        Does nothing in drain mode. What a dead worker left running on a Spark server is ended first, outside of the
        transaction: until it has ended, its job does not fail here and its table stays locked.

        :param also: written in the same transaction, when that changes anything.
        """
        ended = frozenset() if self.drain().on else end_orphans(self.store, self.policy, self.orphans)
        report = sweep_once(self.store, self.policy, also, ended)
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
        note: Callable[[sa.Connection, str], None] | None = None,
    ) -> DrainState:
        """Switch drain mode. While it is on, switching it on again changes its reason, if one is given, and nothing else.

        :param note: called in the same transaction with what was changed: ``drain_on``, ``drain_off`` or ``drain_reason``.
        """
        return write_drain(self.store, on=on, by=by, reason=reason, note=note)

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
        lock = {**lock_values(job.table), "holder": job.job_id, "acquired_at": job.submitted_at, "expires_at": until}
        return {
            "b_now": job.submitted_at,
            **{f"b_{name}": value for name, value in lock.items()},
            **{f"j_{name}": value for name, value in job_values(job).items()},
        }

    def _was_submitted(self, conn: sa.Connection, job: Job) -> bool:
        """The same for a submit, whose job id is ours alone."""
        return conn.execute(sa.select(jobs.c.job_id).where(jobs.c.job_id == job.job_id)).first() is not None

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
            raise TableLocked(lock, waiting=lock.expires_at <= self.store.clock(), left_on=self._left_on(lock))

    def _left_on(self, lock: TableLock) -> str | None:
        """The Spark server that may still work for the ended job that holds the table."""
        job = self.find(lock.holder)
        return job.spark_server if job is not None and job.status.is_terminal else None

    def _submitted(self, job: Job) -> None:
        self._events.record(job.job_id, "submitted", by=job.submitted_by, table=str(job.table), actions=list(job.actions))


def _first_job(conn: sa.Connection, where: sa.ColumnElement[bool]) -> Job | None:
    row = conn.execute(sa.select(jobs).where(where)).first()
    return None if row is None else job_from(row)
