"""Maintenance jobs, from submit to their terminal state, and what is known about them.

    jobs = Jobs(store)
    job = jobs.submit(table, ["rewrite_data_files"])
    claim = jobs.claim("worker-1")
    jobs.finish(claim, JobStatus.COMPLETED, results)
    jobs.page(JobFilter(table=table, statuses=frozenset({JobStatus.FAILED})))

The invariant: **at most one attempt ever writes a job's terminal state**. Every write after a claim carries the claim's
``attempt_id``. Cancel, take-over and sweep move this fence; the attempt that lost it writes nothing and gets ``False``. Lock, job
and queue row are written in one transaction and removed in one transaction, so no crash leaves one without the others.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import sqlalchemy as sa

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.jobs import statements as do
from airflow_snowpack.jobs.action_history import ActionHistory, records_of, skipped_by_plan
from airflow_snowpack.jobs.claim_order import ORDER, ClaimCursor, QueuePosition, check_priority, close_gaps, is_in_turn, turn_of
from airflow_snowpack.jobs.counts import count_end, counts_of_cancelled
from airflow_snowpack.jobs.errors import (
    DrainModeOn,
    JobAlreadyFinished,
    JobNotFound,
    JobRunsInTask,
    JobStillActive,
    LockInUse,
    NotTheOwner,
    TableLocked,
    WorkStillRunning,
)
from airflow_snowpack.jobs.history import History
from airflow_snowpack.jobs.idempotency import KeepsJob, KeyTaken, RequestKey, Submission
from airflow_snowpack.jobs.listing import (
    IS_LIVE,
    JobCounts,
    JobFilter,
    JobPage,
    count,
    count_by_status,
    read_latest,
    read_page,
    read_recent,
)
from airflow_snowpack.jobs.locks import TableLocks
from airflow_snowpack.jobs.model import (
    CANCELLED,
    DEFAULT_PRIORITY,
    ActionResult,
    Claim,
    DrainState,
    HistoryEntry,
    Job,
    JobStatus,
    LifecyclePolicy,
    QueuePlace,
    QueueSample,
    QueueState,
    RecentJob,
    SweepReport,
    TableLock,
)
from airflow_snowpack.jobs.queue_samples import read_samples
from airflow_snowpack.jobs.rescuer import Orphans, end_orphans, rescue
from airflow_snowpack.jobs.rows import catalog_detail, job_from, job_parameters, queue_of, read_drain, results_to_json
from airflow_snowpack.jobs.steps_sqlite import SqliteSteps, keep_records
from airflow_snowpack.jobs.stored_histories import read_histories
from airflow_snowpack.store import (
    Actor,
    IdMaker,
    Store,
    new_id,
    repeatable,
    row_mapper,
    storable,
    storable_error,
    upsert,
    write_audit,
)
from airflow_snowpack.store.audit import entry_values
from airflow_snowpack.store.counters import RECORD_COUNTS, Counts, add_counts
from airflow_snowpack.store.tables.jobs import job_queue, jobs, switches, table_locks
from airflow_snowpack.tracing import span, traceparent

if TYPE_CHECKING:
    from airflow_snowpack.jobs.steps_postgres import PostgresSteps
    from airflow_snowpack.store.store import Work

log = logging.getLogger(__name__)
Take = Callable[[sa.Connection, Mapping[str, Any]], "sa.Row[Any] | None"]

EVERYTHING = JobFilter()
unclaimed = job_queue.c.claimed_at.is_(None)
place_from = row_mapper(QueuePlace, attempt="attempt_count")
state_from = row_mapper(
    QueueState,
    depth=lambda row: 0 if row.draining else row.visible,
    held=lambda row: row.visible if row.draining else 0,
)


class Jobs:
    """Every step of the lifecycle, and every read of jobs and the queue.

    Each change takes the ``actor`` that requests it, and writes its audit entry in the same transaction; without an actor, as for
    tasks of Airflow, there is no entry.

    :param orphans: ends what a killed worker left on a Spark server; without it, its table stays locked.
    """

    def __init__(
        self,
        store: Store,
        policy: LifecyclePolicy | None = None,
        make_id: IdMaker = new_id,
        *,
        orphans: Orphans | None = None,
    ) -> None:
        self.store = store
        self.orphans = orphans
        self.policy = policy or LifecyclePolicy()
        self.locks = TableLocks(store)
        self._events = History(store)
        self._make_id = make_id
        self._steps = _steps_of(store)
        self._step = store.single if store.is_postgres else store.transact
        self._cursors: defaultdict[str, ClaimCursor] = defaultdict(ClaimCursor)  # by catalog

    @span("snowpack.submit")
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
        about = {"submitted_by": actor.name if actor else submitted_by, "owner": owner, "awaited": awaited}
        job = self._new_job(table, actions, options, priority, **about, plan=plan, table_uuid=table_uuid)
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

    @span("snowpack.submit")
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
        about = {"submitted_by": submitted_by, "owner": owner, "inline": True}
        job = self._new_job(table, actions, options, priority, **about, plan=plan, table_uuid=table_uuid)
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
        job = self._new_job(table, actions, options, priority, submitted_by=actor.name if actor else submitted_by, plan=plan)
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
            add_counts(conn, counts_of_cancelled(1))
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

        In drain mode, it only sums counters. Work of a dead worker on a Spark server is ended first, outside the transaction:
        until it has ended, its job does not fail and its table stays locked.
        """
        ended = frozenset() if self.drain().on else end_orphans(self.store, self.policy, self.orphans)
        report = rescue(self.store, self.policy, ended, actor)
        for job_id in report.requeued:
            self._events.record(job_id, "requeued")
        for job_id in report.failed:
            self._events.record(job_id, "failed", reason="no attempts left")
        return report

    def set_drain(self, on: bool, *, by: str | None = None, reason: str | None = None, actor: Actor | None = None) -> DrainState:
        """Switch drain mode, in which new maintenance is refused, running jobs finish and pending jobs wait.

        Switching it on while it is on only changes the reason, if one is given.
        """
        reason, by = reason and storable(reason), actor.name if actor else by
        values = {"enabled": on, "changed_at": self.store.clock(), "changed_by": by and storable(by), "reason": reason}
        switched = upsert(switches, values, where=switches.c.enabled != on).values(name=do.DRAIN, **values)
        renewed = sa.update(switches).values(reason=reason)
        renewed = renewed.where(switches.c.name == do.DRAIN, switches.c.enabled, switches.c.reason.is_distinct_from(reason))

        def write(conn: sa.Connection) -> DrainState:
            # Another process may set it in between: only a returned row was changed here.
            change = None
            if read_drain(conn).on != on and conn.execute(switched.returning(switches.c.name)).first() is not None:
                change = "drain_on" if on else "drain_off"
            elif on and reason and conn.execute(renewed.returning(switches.c.name)).first() is not None:
                change = "drain_reason"
            if change is not None:
                write_audit(conn, self.store, actor, change, do.DRAIN, reason=reason)
            return read_drain(conn)

        return self.store.transact(write)

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
                self._cursors[catalog_id].found(QueuePosition.of(row))
                return self._claimed(row, worker_id, values)
            if not self._cursors[catalog_id].exhausted(now):
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
            "b_counts": count_end(Counts(), claim.job, status, results, now).row(),
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

    def action_histories(self, tables: Collection[TableName]) -> dict[TableName, ActionHistory]:
        """Return what past jobs did to each table, per action, in one statement per thousand tables."""
        return read_histories(self.store, tables)

    def find_owned(self, owner: str) -> Job | None:
        """Return the pending or running job of this owner, if any."""
        # An owner has few jobs, but the queue may be long: unlike EXISTS, a scalar subquery never becomes a join from the queue.
        active = sa.select(job_queue.c.job_id).where(job_queue.c.job_id == jobs.c.job_id).scalar_subquery().is_not(None)
        return self._last_owned(owner, active)

    def last_owned(self, owner: str) -> Job | None:
        """Return the newest job of this owner in any state, or ``None``."""
        return self._last_owned(owner, IS_LIVE)

    def awaited(self) -> list[Job]:
        """Return the pending and running jobs whose tasks wait for them."""
        # From the queue, which is short, to its jobs by key.
        query = sa.select(jobs).join(job_queue, job_queue.c.job_id == jobs.c.job_id)
        return [job_from(row) for row in self.store.all(query.where(jobs.c.awaited, ~jobs.c.inline))]

    def get(self, job_id: str) -> Job:
        """:raises JobNotFound: there is no such job, or it was deleted."""
        job = self._first(jobs.c.job_id == storable(job_id), IS_LIVE)
        if job is None:
            raise JobNotFound(job_id)
        return job

    def statuses(self, job_ids: Collection[str]) -> dict[str, JobStatus | JobNotFound]:
        """Return the status of several jobs in one statement; ``JobNotFound`` for a missing or deleted job."""
        query = sa.select(jobs.c.job_id, jobs.c.status).where(IS_LIVE)
        found = {row.job_id: JobStatus(row.status) for row in self.store.all_by_key(query, jobs.c.job_id, job_ids)}
        return {job_id: found.get(storable(job_id)) or JobNotFound(job_id) for job_id in job_ids}

    def find(self, job_id: str) -> Job | None:
        """Return the job, even if deleted; ``None`` if it never existed."""
        return self._first(jobs.c.job_id == storable(job_id))

    def find_all(self, job_ids: Collection[str]) -> dict[str, Job]:
        """Return these jobs by id, in one statement; deleted and missing ones are left out."""
        rows = self.store.all_by_key(sa.select(jobs).where(IS_LIVE), jobs.c.job_id, job_ids)
        return {row.job_id: job_from(row) for row in rows}

    def ids_beginning(self, beginning: str, *, limit: int = 10) -> list[str]:
        """Return the ids that start with a short id, without deleted jobs."""
        return self.store.ids_beginning(jobs.c.job_id, beginning, limit, IS_LIVE)

    def queue_depth(self, catalog_id: str | None = None) -> int:
        """Count the jobs that a worker could claim now (default: of all catalogs); pools of workers scale by it."""
        query = sa.select(sa.func.count()).select_from(job_queue).where(self._claimable())
        query = query if catalog_id is None else query.where(job_queue.c.catalog_id == catalog_id)
        return int(self.store.scalar(query))

    def queue_depths(self, catalog_ids: Collection[str]) -> dict[str, int]:
        """Count the jobs that a worker could claim now, for each of these catalogs."""
        counted = self._count_by_catalog(self._claimable(), job_queue.c.catalog_id.in_(catalog_ids))
        return dict.fromkeys(catalog_ids, 0) | counted

    def waiting_elsewhere(self, *catalog_ids: str) -> dict[str, int]:
        """Count the claimable jobs of every catalog but these, by ``catalog_id``."""
        return self._count_by_catalog(self._claimable(), job_queue.c.catalog_id.not_in(catalog_ids))

    def running_in_workers(self) -> dict[str, int]:
        """Count the jobs that queue workers run, by ``catalog_id``, without those that tasks run inline."""
        # A look-up for each row of the queue: for a join, Postgres without statistics would scan all jobs.
        inline = sa.select(jobs.c.inline).where(jobs.c.job_id == job_queue.c.job_id).scalar_subquery()
        return self._count_by_catalog(~unclaimed, ~inline)

    def history(self, job_id: str) -> list[HistoryEntry]:
        """Return the events of a job, oldest first; best-effort, see ``history.py``."""
        return self._events.of(job_id)

    def page(self, which: JobFilter = EVERYTHING, *, after: str | None = None, limit: int = 100) -> JobPage:
        """Return a page of the jobs that match the filter, newest first.

        :param after: ``next`` of the previous page.
        :raises InvalidCursor: ``after`` is not the cursor of a page.
        """
        return self.store.read(lambda conn: read_page(conn, which, after, limit))

    def count(self, which: JobFilter = EVERYTHING, *, at_most: int = 10_000) -> JobCounts:
        """Count the jobs of each status that match the rest of the filter, up to ``at_most`` of each; see ``listing.py``."""
        return self.store.read(lambda conn: count(conn, which, at_most))

    def count_open(self) -> dict[JobStatus, int]:
        # From the queue, a look-up for each row: for a join, Postgres without statistics would scan all jobs.
        status = sa.select(jobs.c.status).where(jobs.c.job_id == job_queue.c.job_id).scalar_subquery()
        queued = sa.select(status.label("status")).select_from(job_queue).subquery()
        found = self.store.read(lambda conn: count_by_status(conn, queued))
        return {status: found[status] for status in (JobStatus.PENDING, JobStatus.RUNNING)}

    def recent(self, since: datetime, *, at_most: int) -> list[RecentJob]:
        """Return the jobs that are active or ended since this time, newest first, without dry runs, in one statement.

        :param at_most: of the ended jobs, and again of the active ones.
        """
        return read_recent(self.store, since, at_most)

    def latest(self, tables: Iterable[TableName], *, dry_run: bool = False) -> dict[TableName, Job]:
        """Return the newest job, or the newest dry run, of each table that has one."""
        keys: dict[str, list[str]] = {}
        for table in tables:
            keys.setdefault(table.catalog_id, []).append(str(table))

        def read(conn: sa.Connection) -> dict[TableName, Job]:
            found = (job for each, names in keys.items() for job in read_latest(conn, names, each, dry_run=dry_run))
            return {job.table: job for job in found}

        return self.store.read(read) if keys else {}

    def queue(self) -> QueueState:
        """Return depth, age and occupation of the queue."""
        ready = self._visible()

        def how_many(which: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
            return sa.func.coalesce(sa.func.sum(sa.case((which, 1), else_=0)), 0)

        query = sa.select(
            how_many(ready).label("visible"),
            sa.func.min(sa.case((ready, job_queue.c.enqueued_at))).label("oldest"),
            how_many(sa.and_(unclaimed, ~ready)).label("delayed"),
            how_many(~unclaimed).label("running"),
            do.draining.label("draining"),
        )
        return state_from(self.store.first(query))

    def places(self, job_ids: Iterable[str]) -> dict[str, QueuePlace]:
        """Return the places of these jobs in the queue; finished jobs have none."""
        ids = [*job_ids]
        rows = self.store.all(sa.select(job_queue).where(job_queue.c.job_id.in_(ids))) if ids else ()
        return {row.job_id: place_from(row) for row in rows}

    def ahead_of(self, job_ids: Collection[str]) -> dict[str, int]:
        """Count the visible jobs of the same catalog that workers claim before each of these queued jobs, in one statement."""
        before, names = job_queue.alias("before"), [column.name for column in ORDER]
        first, here = (sa.tuple_(*(table.c[name] for name in names)) for table in (before, job_queue))
        due = sa.and_(before.c.claimed_at.is_(None), before.c.visible_at <= self.store.clock())
        ahead = sa.select(sa.func.count()).where(due, before.c.catalog_id == job_queue.c.catalog_id, first < here)
        query = sa.select(job_queue.c.job_id, ahead.scalar_subquery().label("ahead"))
        return {row.job_id: row.ahead for row in self.store.all_by_key(query, job_queue.c.job_id, job_ids)}

    def queue_over_time(self, period: timedelta = timedelta(days=1), steps: int = 96) -> list[QueueSample]:
        """Count the waiting and the running jobs at evenly spaced times up to now, and the jobs that ended between them.

        See :mod:`airflow_snowpack.jobs.queue_samples` for what is counted.
        """
        return read_samples(self.store, period, steps)

    def drain(self) -> DrainState:
        """Return whether drain mode is on."""
        return self.store.read(read_drain)

    def list(self, table: TableName | None = None, status: JobStatus | None = None, limit: int = 100) -> list[Job]:
        """Return the newest jobs that were not deleted."""
        which = JobFilter(table=table, statuses=frozenset({status} if status is not None else ()))
        return [*self.page(which, limit=limit).items]

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

    def _new_job(
        self, table: TableName, actions: Sequence[str], options: Mapping[str, Any] | None, priority: int, **fields: Any
    ) -> Job:
        """Return a pending job; ``fields`` are its other fields."""
        return Job(
            job_id=self._make_id(),
            table=table,
            actions=tuple(str(action) for action in actions),
            options=dict(options or {}),
            dry_run=False,
            status=JobStatus.PENDING,
            submitted_at=self.store.clock(),
            priority=check_priority(priority),
            traceparent=traceparent(),
            **fields,
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
            why = f"a statement of job {job.job_id} may still run on the Spark server {job.spark_server!r}"
            raise LockInUse(lock, why, "Run `airflow snowpack sweep`, which ends it, or force it when the server is gone.")
        if job.status is JobStatus.CANCELLED and lock.expires_at > self.store.clock() and not force:
            why = f"job {job.job_id} was cancelled while it ran, and its worker has not left the table yet"
            raise LockInUse(lock, why, f"Wait for it (until {lock.expires_at.isoformat()} at most), or force it when it is dead.")

    def _submitted(self, job: Job) -> None:
        self._events.record(job.job_id, "submitted", by=job.submitted_by, table=str(job.table), actions=list(job.actions))

    def _update_running(self, claim: Claim, **values: Any) -> bool:
        mine = sa.and_(jobs.c.job_id == claim.job.job_id, jobs.c.attempt_id == claim.attempt_id)
        write = sa.update(jobs).where(mine, jobs.c.status == JobStatus.RUNNING.value).values(**values)
        return self._step(lambda conn: conn.execute(write).rowcount) == 1

    def _claim_values(self, worker_id: str, now: datetime, key: str | None = None, catalog_id: str = "") -> Mapping[str, Any]:
        values = do.LEASES.claim_values(worker_id, self._make_id(), now, now + self.policy.lease, key=key, group=catalog_id)
        return values if key is not None else {**values, **self._cursors[catalog_id].start(now).parameters}

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

    def _last_owned(self, owner: str, which: sa.ColumnElement[bool]) -> Job | None:
        query = sa.select(jobs).where(jobs.c.owner == storable(owner), which).order_by(jobs.c.submitted_at.desc()).limit(1)
        row = self.store.first(query)
        return None if row is None else job_from(row)

    def _first(self, *where: sa.ColumnElement[bool]) -> Job | None:
        row = self.store.first(sa.select(jobs).where(*where))
        return None if row is None else job_from(row)

    def _count_by_catalog(self, *where: sa.ColumnElement[bool]) -> dict[str, int]:
        counted = sa.select(job_queue.c.catalog_id, sa.func.count().label("jobs")).where(*where)
        return {row.catalog_id: row.jobs for row in self.store.all(counted.group_by(job_queue.c.catalog_id))}

    def _visible(self) -> sa.ColumnElement[bool]:
        return sa.and_(unclaimed, job_queue.c.visible_at <= self.store.clock())

    def _claimable(self) -> sa.ColumnElement[bool]:
        return sa.and_(self._visible(), ~do.draining)


def _first_job(conn: sa.Connection, where: sa.ColumnElement[bool]) -> Job | None:
    row = conn.execute(sa.select(jobs).where(where)).first()
    return None if row is None else job_from(row)


def _named(table: TableName) -> dict[str, str]:
    return {"table": str(table), **catalog_detail(table)}


def _finish_locked(conn: sa.Connection, values: Mapping[str, Any], *, lock_key: str) -> bool:
    """Finish a job, but leave its lock to the sweep, because a Spark server may still write to the table."""
    if conn.execute(do.LEASES.release, values).rowcount != 1:
        return False
    if conn.execute(do.end_job(left_work=True), values).first() is None:
        return False
    conn.execute(do.expire_lock(), {**values, "b_table": lock_key})
    keep_records(conn, values, lock_key)
    conn.execute(RECORD_COUNTS, values)
    return True


def _steps_of(store: Store) -> PostgresSteps | SqliteSteps:
    if not store.is_postgres:
        return SqliteSteps()
    # Imported here: importing psycopg and its statements would cost a short task on SQLite more than the rest of its work.
    from airflow_snowpack.jobs.steps_postgres import PostgresSteps

    return PostgresSteps()


def _close_gap(conn: sa.Connection, row: sa.Row[Any]) -> None:
    """Move up the jobs behind one that was claimed by its id, unless it was due."""
    if not is_in_turn(conn, queue := queue_of(job_from(row)), row.turn):
        close_gaps(conn, [(*queue, row.turn)])
