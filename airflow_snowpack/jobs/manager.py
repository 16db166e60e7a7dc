"""The life of a maintenance job, from submit to its terminal state.

    jobs = Jobs(store)
    job = jobs.submit(table, ["rewrite_data_files"])
    claim = jobs.claim("worker-1")
    jobs.finish(claim, JobStatus.COMPLETED, results)

The invariant: **at most one attempt ever writes a job's terminal state**, see ``claims.py``. Lock, job and queue row are written
in one transaction and removed in one transaction, so no crash leaves one without the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import sqlalchemy as sa

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.jobs import statements as do
from airflow_snowpack.jobs.claim_order import close_gaps, turn_of
from airflow_snowpack.jobs.claims import Claims
from airflow_snowpack.jobs.drain import read_drain, write_drain
from airflow_snowpack.jobs.errors import DrainModeOn, JobNotFound, JobRunsInTask, JobStillActive, LockInUse, TableLocked
from airflow_snowpack.jobs.idempotency import KeepsJob, KeyTaken, RequestKey, Submission
from airflow_snowpack.jobs.model import (
    CANCELLED,
    ActionResult,
    Claim,
    DrainState,
    Job,
    JobStatus,
    SweepReport,
    TableLock,
)
from airflow_snowpack.jobs.priority import DEFAULT_PRIORITY, check_priority
from airflow_snowpack.jobs.rescuer import end_orphans, rescue
from airflow_snowpack.jobs.rows import catalog_detail, job_from, job_parameters, queue_of
from airflow_snowpack.store import Actor, repeatable, storable, write_audit
from airflow_snowpack.store.audit import entry_values
from airflow_snowpack.store.tables.jobs import job_queue, jobs


class Jobs(Claims):
    """Every step of the lifecycle; :class:`JobReader` has the reads, and :class:`Claims` the worker's steps.

    Each change takes the ``actor`` that requests it, and writes its audit entry in the same transaction; without an actor, as for
    tasks of Airflow, there is no entry.
    """

    def submit(
        self,
        table: TableName,
        actions: Sequence[str],
        *,
        options: Mapping[str, Any] | None = None,
        submitted_by: str | None = None,
        owner: str | None = None,
        priority: int = DEFAULT_PRIORITY,
        plan: Mapping[str, Any] | None = None,
        actor: Actor | None = None,
        rerun_of: str | None = None,
        key: KeepsJob | None = None,
        awaited: bool = False,
        table_uuid: str | None = None,
    ) -> Job:
        """Lock the table, record the job and queue it, in one transaction.

        :param options: per action, as JSON values.
        :param submitted_by: if there is no actor.
        :param owner: who may take the job over later, see :meth:`take_over`.
        :param priority: from -1000 to 1000; higher priorities are claimed first.
        :param plan: what decided about the actions, see :class:`~airflow_snowpack.jobs.model.Job`.
        :param rerun_of: the job that this one repeats, for the audit trail.
        :param key: written with the job, see :meth:`submit_once`.
        :param awaited: the owner is a task that waits for the job, see :class:`~airflow_snowpack.jobs.model.Job`.
        :param table_uuid: of the current table; the job runs on no other one.
        :raises DrainModeOn: submissions are refused; nothing was written.
        :raises TableLocked: another job or holder has the table; nothing was written.
        :raises InvalidPriority: the priority is out of range.
        """
        job = self._new_job(table, actions, options, actor.name if actor else submitted_by, owner, priority, plan)
        job = replace(job, awaited=awaited, table_uuid=table_uuid)
        values = self._submit_values(job)
        if actor is not None:
            change, detail = ("submit", {"actions": list(job.actions)}) if rerun_of is None else ("rerun", {"of": rerun_of})
            values |= entry_values(self.store, actor, change, job.job_id, **_named(table), **detail)

        def write(conn: sa.Connection) -> bool:
            free = self._steps.submit(conn, values)
            if free and key is not None:
                key.keep(conn, job.job_id, job.submitted_at)
            return free

        submit = repeatable(write, lambda conn: self._was_submitted(conn, job))
        step = self._step if key is None else self.store.transact
        while not step(submit):
            self._refuse(table)  # returns if the table has become free since
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
        priority: int = DEFAULT_PRIORITY,
        plan: Mapping[str, Any] | None = None,
        table_uuid: str | None = None,
    ) -> Claim:
        """Submit a job and claim it at once, for a process that runs it itself.

        No other worker ever gets this job, not even when its lease expires. Then the sweep fails it, and a retry submits another.

        :raises DrainModeOn, TableLocked: as :meth:`submit`.
        """
        job = self._new_job(table, actions, options, submitted_by, owner, priority, plan)
        job = replace(job, inline=True, table_uuid=table_uuid)
        submit = self._submit_values(job)
        claim = self._claim_values(worker_id, job.submitted_at, key=job.job_id)

        def both(conn: sa.Connection) -> sa.Row[Any] | None:
            return self._steps.take_over(conn, claim) if self._steps.submit(conn, submit) else None

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
        priority: int = DEFAULT_PRIORITY,
        plan: Mapping[str, Any] | None = None,
        actor: Actor | None = None,
        key: RequestKey | None = None,
    ) -> Job:
        """Record a completed dry run, without a lock or a queue row.

        :raises DrainModeOn: submissions are refused; nothing was written.
        """
        job = self._new_job(table, actions, options, actor.name if actor else submitted_by, None, priority, plan)
        at = job.submitted_at
        done = replace(job, dry_run=True, status=JobStatus.COMPLETED, started_at=at, completed_at=at, results=tuple(results))

        def write(conn: sa.Connection) -> bool:
            state = read_drain(conn)
            if state.on:
                raise DrainModeOn(state)
            conn.execute(do.record_job(), job_parameters(done))
            write_audit(conn, self.store, actor, "dry_run", done.job_id, **_named(table), actions=list(done.actions))
            if key is not None:
                key.keep(conn, done.job_id, done.submitted_at)
            return True

        self.store.transact(repeatable(write, lambda conn: self._was_submitted(conn, done)))
        self._events.record(done.job_id, "dry_run", actions=list(done.actions), by=done.submitted_by)
        return done

    def submit_once(
        self,
        table: TableName,
        actions: Sequence[str],
        *,
        key: str | None,
        actor: Actor,
        options: Mapping[str, Any] | None = None,
        priority: int = DEFAULT_PRIORITY,
        plan: Mapping[str, Any] | None = None,
        results: Sequence[ActionResult] | None = None,
        table_uuid: str | None = None,
    ) -> Submission:
        """Submit a job or, with ``results``, record a dry run; the same request with the same key returns the same job.

        :param key: the actor's idempotency key; with ``None`` each request is new.
        :param table_uuid: as in :meth:`submit`; not part of the request.
        :raises DrainModeOn, TableLocked: as :meth:`submit`; nothing was written.
        :raises InvalidKey, KeyUsedBefore: the key cannot be used for this request.
        """
        wanted, dry, planned = (table, actions, options, priority), results is not None, plan is not None
        request = None if key is None else RequestKey.of(actor, key, *wanted, dry_run=dry, planned=planned)
        if request is not None and (before := self.submitted_before(request)) is not None:
            return Submission(before, again=True)
        try:
            asked: dict[str, Any] = {"options": options, "priority": priority, "plan": plan, "actor": actor, "key": request}
            if results is None:
                return Submission(self.submit(table, actions, **asked, table_uuid=table_uuid))
            return Submission(self.record_dry_run(table, actions, results, **asked))
        except (TableLocked, KeyTaken):
            # The same request may have arrived twice at once, and the other one was first.
            if request is None or (before := self.submitted_before(request)) is None:
                raise
            return Submission(before, again=True)

    def submitted_before(self, request: RequestKey) -> Job | None:
        """Return the job that the same request with the same key created before.

        :raises KeyUsedBefore: the key was used with another request.
        """
        now = self.store.clock()
        job_id = self.store.read(lambda conn: request.find_job(conn, now))
        try:
            return None if job_id is None else self.get(job_id)
        except JobNotFound:
            return None  # deleted since, and its key expired with it

    def rerun(self, job_id: str, *, actor: Actor | None = None, table_uuid: str | None = None) -> Job:
        """Submit the request of a job again.

        :param table_uuid: as in :meth:`submit`; ignored for a plan, which stays bound to its table.
        :raises JobNotFound: there is no such job.
        :raises DrainModeOn, TableLocked: as :meth:`submit`.
        """
        before = self.get(job_id)
        asked: dict[str, Any] = {"options": before.options, "priority": before.priority, "plan": before.plan}
        asked["table_uuid"] = None if before.plan is not None else table_uuid
        return self.submit(before.table, before.actions, **asked, actor=actor, rerun_of=job_id)

    def cancel(
        self,
        job_id: str,
        *,
        by: str | None = None,
        actor: Actor | None = None,
        unless_inline: bool = False,
        reason: str = CANCELLED,
    ) -> Job:
        """Cancel a pending or running job for good.

        The fence is revoked and the queue row removed. The table of a pending job is unlocked at once; that of a running job
        stays locked until its worker has left it, or until its lease has expired and a sweep unlocks the table.

        :param by: who cancels, if there is no actor.
        :param reason: becomes the job's error.
        :raises JobNotFound, JobAlreadyFinished: there is nothing to cancel.
        :raises JobRunsInTask: a task runs the job inline, and ``unless_inline`` is set.
        """
        now, job_id, by = self.store.clock(), storable(job_id), actor.name if actor else by and storable(by)

        def write(conn: sa.Connection) -> Job:
            job = self._locked_active(conn, job_id)
            if unless_inline and job.inline:
                raise JobRunsInTask(job_id)
            ended = {"status": "cancelled", "attempt_id": None, "completed_at": now}
            values = {**ended, "error": storable(reason), "cancelled_by": by}
            conn.execute(sa.update(jobs).where(jobs.c.job_id == job_id).values(**values))
            turn = conn.execute(sa.delete(job_queue).where(job_queue.c.job_id == job_id).returning(job_queue.c.turn)).scalar_one()
            if job.status is JobStatus.PENDING:
                close_gaps(conn, [(*queue_of(job), turn)])
                # The work of a lost attempt may still run on a Spark server; the sweep ends it and then unlocks the table.
                unlock = do.unlock_table() if job.spark_server is None else do.expire_lock()
                conn.execute(unlock, {"b_key": job_id, "b_table": job.table.lock_key, "b_now": now})
            write_audit(conn, self.store, actor, "cancel", job_id, **_named(job.table))
            return self._locked_job(conn, job_id)

        ours = sa.and_(jobs.c.job_id == job_id, jobs.c.status == JobStatus.CANCELLED.value, jobs.c.completed_at == now)
        job = self.store.transact(repeatable(write, lambda conn: _first_job(conn, ours)))
        self._events.record(job_id, "cancelled", by=by)
        return job

    def delete(self, job_id: str, *, actor: Actor | None = None) -> None:
        """Hide a finished job; its row stays for the audit.

        :raises JobNotFound: there is no such job, or it was already deleted.
        :raises JobStillActive: it is pending or running.
        """
        now, job_id = self.store.clock(), storable(job_id)

        def write(conn: sa.Connection) -> Job:
            job = self._locked_job(conn, job_id)
            if not job.status.is_terminal:
                raise JobStillActive(job_id, job.status)
            conn.execute(sa.update(jobs).where(jobs.c.job_id == job_id).values(deleted_at=now))
            write_audit(conn, self.store, actor, "delete", job_id, **_named(job.table))
            return job

        ours = sa.and_(jobs.c.job_id == job_id, jobs.c.deleted_at == now)
        self.store.transact(repeatable(write, lambda conn: _first_job(conn, ours)))
        self._events.record(job_id, "deleted")

    def sweep(self, *, actor: Actor | None = None) -> SweepReport:
        """Requeue jobs whose lease has expired, fail those without attempts left, and unlock the tables of lost holders.

        Does nothing in drain mode. Work of a dead worker on a Spark server is ended first, outside the transaction: until it has
        ended, its job does not fail and its table stays locked.
        """
        ended = frozenset() if self.drain().on else end_orphans(self.store, self.policy, self.orphans)
        report = rescue(self.store, self.policy, ended, actor)
        for job_id in report.requeued:
            self._events.record(job_id, "requeued")
        for job_id in report.failed:
            self._events.record(job_id, "failed", reason="no attempts left")
        return report

    def set_drain(self, on: bool, *, by: str | None = None, reason: str | None = None, actor: Actor | None = None) -> DrainState:
        """Switch drain mode. Switching it on while it is on only changes the reason, if one is given."""
        return write_drain(self.store, on=on, by=actor.name if actor else by, reason=reason, actor=actor)

    def break_lock(self, table: TableName, holder: str, *, actor: Actor, force: bool = False) -> TableLock | None:
        """Release the lock of a lost holder; return ``None`` if this holder does not have it.

        :param holder: the expected holder, so that no other lock is released by mistake.
        :param force: also while the worker of a cancelled job may still write to the table.
        :raises LockInUse: the holder may still write to the table.
        """
        lock = self.locks.get(table)
        if lock is None or lock.holder != holder:
            return None
        self._refuse_while_in_use(lock, force)
        return lock if self.locks.release(table, holder, actor=actor, force=force) else None

    def flush(self) -> None:
        """Write the history that is still in memory; call it before a process ends."""
        self._events.flush()

    def close(self) -> None:
        """Write the pending history and close the store."""
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
        priority: int,
        plan: Mapping[str, Any] | None,
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
            priority=check_priority(priority),
            plan=plan,
        )

    def _submit_values(self, job: Job) -> dict[str, Any]:
        now, until = job.submitted_at, job.submitted_at + self.policy.lease
        more = {"b_now": now, "b_table_key": job.table.lock_key, "b_expires_at": until}
        return job_parameters(job) | more | {"b_rank": -job.priority, "b_turn": turn_of(now)}

    def _was_submitted(self, conn: sa.Connection, job: Job) -> bool:
        """Return whether a submit whose answer was lost went through: no other submit has our job id."""
        return conn.execute(sa.select(jobs.c.job_id).where(jobs.c.job_id == job.job_id)).first() is not None

    def _refuse(self, table: TableName) -> None:
        state = self.drain()
        if state.on:
            raise DrainModeOn(state)
        lock = self.locks.get(table)
        if lock is None:
            return
        if lock.expires_at <= self.store.clock():
            # Its job may have lost its worker, and the installation may have no scheduled sweep.
            self.sweep()
            lock = self.locks.blocking(table)
        if lock is not None:
            job = self.find(lock.holder)
            left_on = job.spark_server if job is not None and job.status.is_terminal else None
            raise TableLocked(lock, waiting=lock.expires_at <= self.store.clock(), left_on=left_on)

    def _refuse_while_in_use(self, lock: TableLock, force: bool) -> None:
        job = self.find(lock.holder)
        if job is None:
            return  # not a job's lock: the holder is a name that a user chose
        if not job.status.is_terminal:
            raise LockInUse(lock, f"job {job.job_id} is {job.status}", "Cancel the job instead.")
        if job.spark_server is not None and not force:
            why = f"a statement of job {job.job_id} may still run on the Spark Connect server {job.spark_server!r}"
            raise LockInUse(lock, why, "Run `airflow snowpack sweep`, which ends it, or force it when the server is gone.")
        if job.status is JobStatus.CANCELLED and lock.expires_at > self.store.clock() and not force:
            why = f"job {job.job_id} was cancelled while it ran, and its worker has not left the table yet"
            raise LockInUse(lock, why, f"Wait for it (until {lock.expires_at.isoformat()} at most), or force it when it is dead.")

    def _submitted(self, job: Job) -> None:
        self._events.record(job.job_id, "submitted", by=job.submitted_by, table=str(job.table), actions=list(job.actions))


def _first_job(conn: sa.Connection, where: sa.ColumnElement[bool]) -> Job | None:
    row = conn.execute(sa.select(jobs).where(where)).first()
    return None if row is None else job_from(row)


def _named(table: TableName) -> dict[str, str]:
    return {"table": str(table), **catalog_detail(table)}
