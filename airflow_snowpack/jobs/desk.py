"""What people and programs ask for from outside of a DAG, each change with its entry in the audit trail.

    desk = Desk(jobs, Actor("vera", via="api"))
    asked = desk.submit(table, ["expire_snapshots"], key="5f3c…")
    asked.job, asked.again          # again: the same request had come before
    desk.cancel(asked.job.job_id)

The invariant: a change and its entry are one transaction, and so are a job and the idempotency key that it came with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.jobs import idempotency
from airflow_snowpack.jobs.errors import JobNotFound, LockInUse, TableLocked
from airflow_snowpack.jobs.lifecycle import Jobs
from airflow_snowpack.jobs.model import ActionResult, DrainState, Job, JobStatus, SweepReport, TableLock
from airflow_snowpack.store import Actor, storable, write_audit
from airflow_snowpack.store.audit import entry_values

DRAIN, QUEUE = "drain", "queue"


@dataclass(frozen=True, slots=True)
class Asked:
    """The job that a request became.

    :param again: the request had come before, with the same idempotency key, and this is what it became then.
    """

    job: Job
    again: bool = False


class Desk:
    """Takes requests on behalf of one actor."""

    def __init__(self, jobs: Jobs, actor: Actor) -> None:
        self.jobs = jobs
        self.actor = replace(actor, name=storable(actor.name))

    def find(
        self, table: TableName, actions: Sequence[str], *, key: str, options: Mapping[str, Any] | None, dry_run: bool
    ) -> Job | None:
        """The job that the same request became before, if this key came with it.

        :raises InvalidKey, KeyUsedBefore: the key cannot be used for this request.
        """
        request = idempotency.fingerprint(table, actions, options, dry_run=dry_run)
        now, actor = self.jobs.store.clock(), self.actor.name
        idempotency.check_key(key)
        job_id = self.jobs.store.read(lambda conn: idempotency.find_job(conn, actor, key, request, now))
        try:
            return None if job_id is None else self.jobs.get(job_id)
        except JobNotFound:
            return None  # deleted since, and its key forgotten with it

    def submit(
        self, table: TableName, actions: Sequence[str], *, options: Mapping[str, Any] | None = None, key: str | None = None
    ) -> Asked:
        """Lock the table and queue a job for a worker.

        :param key: an idempotency key: the same request again is the same job.
        :raises DrainModeOn, TableLocked: as :meth:`Jobs.submit`; nothing was written.
        :raises InvalidKey, KeyUsedBefore: the key cannot be used for this request.
        """
        if key is None:
            return Asked(
                self.jobs.submit(table, actions, options=options, submitted_by=self.actor.name, entry=self._submit_entry)
            )

        def ask(also: Callable[[sa.Connection, Job], None]) -> Job:
            return self.jobs.submit(table, actions, options=options, submitted_by=self.actor.name, also=also)

        return self._ask(ask, table, actions, options, key, dry_run=False)

    def record_dry_run(
        self,
        table: TableName,
        actions: Sequence[str],
        results: Sequence[ActionResult],
        *,
        options: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Asked:
        """Record what each action would do.

        :raises DrainModeOn: submissions are refused; nothing was written.
        :raises InvalidKey, KeyUsedBefore: the key cannot be used for this request.
        """

        def ask(also: Callable[[sa.Connection, Job], None]) -> Job:
            return self.jobs.record_dry_run(table, actions, results, options=options, submitted_by=self.actor.name, also=also)

        return self._ask(ask, table, actions, options, key, dry_run=True)

    def rerun(self, job_id: str) -> Job:
        """Submit the same request once more.

        :raises JobNotFound: there is no such job.
        :raises DrainModeOn, TableLocked: as :meth:`Jobs.submit`.
        """
        before = self.jobs.get(job_id)
        return self.jobs.submit(
            before.table,
            before.actions,
            options=before.options,
            submitted_by=self.actor.name,
            also=lambda conn, job: self._note(conn, "rerun", job.job_id, **_named(job.table), of=job_id),
        )

    def cancel(self, job_id: str) -> Job:
        """:raises JobNotFound, JobAlreadyFinished: there is nothing to cancel."""
        return self.jobs.cancel(
            job_id, by=self.actor.name, also=lambda conn, job: self._note(conn, "cancel", job_id, **_named(job.table))
        )

    def delete(self, job_id: str) -> None:
        """:raises JobNotFound, JobStillActive: there is nothing that can be deleted."""
        self.jobs.delete(job_id, also=lambda conn, job: self._note(conn, "delete", job_id, **_named(job.table)))

    def set_drain(self, on: bool, *, reason: str | None = None) -> DrainState:
        """Switch drain mode, or change its reason; what changes nothing is not noted."""
        return self.jobs.set_drain(
            on, by=self.actor.name, reason=reason, note=lambda conn, change: self._note(conn, change, DRAIN, reason=reason)
        )

    def release_lock(self, table: TableName, holder: str, *, force: bool = False) -> TableLock | None:
        """Free a table whose holder is gone; ``None`` when this holder does not have it.

        :param holder: who has it, so that nobody else's lock is released by mistake.
        :param force: also while a cancelled job's worker may still be at work.
        :raises LockInUse: the holder may still be writing to the table.
        """
        lock = self.jobs.locks.get(table)
        if lock is None or lock.holder != holder:
            return None
        self._refuse_while_in_use(lock, force)
        released = self.jobs.locks.release(
            table,
            holder,
            also=lambda conn: self._note(conn, "release_lock", str(table), holder=holder, force=force, **_identity(table)),
        )
        return lock if released else None

    def sweep(self) -> SweepReport:
        """As :meth:`Jobs.sweep`; noted when it changed something."""

        def note(conn: sa.Connection, report: SweepReport) -> None:
            detail = {"requeued": list(report.requeued), "failed": list(report.failed), "unlocked": list(report.unlocked)}
            self._note(conn, "sweep", QUEUE, **detail)

        return self.jobs.sweep(also=note)

    def _ask(
        self,
        ask: Callable[[Callable[[sa.Connection, Job], None]], Job],
        table: TableName,
        actions: Sequence[str],
        options: Mapping[str, Any] | None,
        key: str | None,
        *,
        dry_run: bool,
    ) -> Asked:
        def note(conn: sa.Connection, job: Job) -> None:
            self._note(conn, "dry_run" if dry_run else "submit", job.job_id, **_named(table), actions=list(job.actions))

        if key is None:
            return Asked(ask(note))
        request = idempotency.fingerprint(table, actions, options, dry_run=dry_run)

        def note_and_keep(conn: sa.Connection, job: Job) -> None:
            note(conn, job)
            idempotency.keep(conn, self.actor.name, key, request, job.job_id, self.jobs.store.clock())

        before = self.find(table, actions, key=key, options=options, dry_run=dry_run)
        if before is not None:
            return Asked(before, again=True)
        try:
            return Asked(ask(note_and_keep))
        except (TableLocked, idempotency.KeyTaken):
            # The same request may have come twice at once, and the other one was first.
            before = self.find(table, actions, key=key, options=options, dry_run=dry_run)
            if before is None:
                raise
            return Asked(before, again=True)

    def _refuse_while_in_use(self, lock: TableLock, force: bool) -> None:
        job = self.jobs.find(lock.holder)
        if job is None:
            return  # not a job's lock: whoever named its holder knows
        if not job.status.is_terminal:
            raise LockInUse(lock, f"job {job.job_id} is {job.status}", "Cancel the job instead.")
        if job.spark_server is not None and not force:
            why = f"a statement of job {job.job_id} may still run on the Spark Connect server {job.spark_server!r}"
            raise LockInUse(lock, why, "Run `airflow snowpack sweep`, which ends it, or force it when the server is gone.")
        if job.status is JobStatus.CANCELLED and lock.expires_at > self.jobs.store.clock() and not force:
            why = f"job {job.job_id} was cancelled while it ran, and its worker has not left the table yet"
            raise LockInUse(lock, why, f"Wait for it (until {lock.expires_at.isoformat()} at most), or force it when it is dead.")

    def _submit_entry(self, job: Job) -> dict[str, Any]:
        detail = {**_named(job.table), "actions": list(job.actions)}
        return entry_values(self.jobs.store, self.actor, "submit", job.job_id, **detail)

    def _note(self, conn: sa.Connection, change: str, subject: str, **detail: Any) -> None:
        write_audit(conn, self.jobs.store, self.actor, change, subject, **detail)


def _named(table: TableName) -> dict[str, str]:
    return {"table": str(table), **_identity(table)}


def _identity(table: TableName) -> dict[str, str]:
    return {"catalog_id": table.catalog_id} if table.catalog_id else {}
