"""One attempt at a job: runs the actions in order, keeps the lease alive, and makes one terminal write.

    attempt = Attempt(jobs, claim, engine)
    job = attempt.run()            # raises StaleAttempt when the fence moved
    attempt.abandon("killed")      # from a signal handler or another thread

The invariant: the attempt either makes the terminal write, or changes nothing that its successor or a cancel wrote. When the
fence moves, the engine is interrupted at once, so that the *work* ends too. Work that earlier attempts left on a Spark server has
ended before an action starts; work that this attempt left has ended when the attempt is over, or the table stays locked.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from sqlalchemy.exc import SQLAlchemyError

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.jobs.action_history import skipped_by_plan
from airflow_snowpack.jobs.errors import JobNotFound, LeaseRanOut, StaleAttempt
from airflow_snowpack.jobs.history import record_change
from airflow_snowpack.jobs.manager import Jobs
from airflow_snowpack.jobs.model import ActionOutcome, ActionResult, Claim, Engine, Job, JobStatus
from airflow_snowpack.recurring import Recurring
from airflow_snowpack.redaction import redacted
from airflow_snowpack.store import StoreError
from airflow_snowpack.store.keep_alive import KeepAlive
from airflow_snowpack.store.signs_of_life import SignOfLife
from airflow_snowpack.tracing import record_past, span

log = logging.getLogger(__name__)
Limit = Callable[[Job, float | None], str | None]
"""Returns why a running job must stop now, from its GB·h so far (``None`` if unknown); ``None`` to continue."""

INTERRUPT_GRACE_S = 1.0
ABANDON_LIMIT_S = 4.0
ORPHAN_LIMIT_S = 600.0
"""How long an attempt waits for earlier attempts to end; a Connect server ends a detached statement after five minutes."""


class Attempt:
    """Runs the actions of a claimed job.

    :param engine: does the work; a new one for each attempt, because an interrupted engine starts nothing more.
    :param continue_on_error: run the remaining actions after a failed one; the job fails in any case.
    :param sign: the worker's sign of life, reported while the attempt runs.
    :param limit: called at each ``fence_check``. A job that it stops ends as cancelled, with the reason as its error.
    """

    def __init__(
        self,
        jobs: Jobs,
        claim: Claim,
        engine: Engine,
        *,
        continue_on_error: bool = False,
        sign: SignOfLife | None = None,
        limit: Limit | None = None,
    ) -> None:
        self._jobs = jobs
        self._claim = claim
        self._engine = engine
        self._continue_on_error = continue_on_error
        self._lease = keep_claim(jobs, claim, on_lost=self._lose, sign=sign, watch=self._watch)
        self._limit = limit
        self._limit_reason: str | None = None  # why the work was stopped early
        self._results: list[ActionResult] = []
        self._stop = threading.Event()  # start nothing more
        self._idle = threading.Event()  # no action is running
        self._has_orphans = claim.job.spark_server is not None  # on a Spark server, by this attempt or those before it
        self._orphan_server: str | None = None  # the server that continues this attempt's work without it
        self._used_server = False  # an action of this attempt was not skipped, or did not return
        self._problem = Recurring(log)
        self._finished = False
        self._abandoned: str | None = None
        # Locks instead of events for abandon: a signal handler may have interrupted its own thread inside an event.
        self._first_to_abandon = threading.Lock()  # acquired once and never released
        self._abandoning = threading.Lock()  # locked until the job is abandoned
        self._abandoning.acquire()

    def run(self) -> Job:
        """Run all actions and write the terminal state.

        :returns: the ended job; ``FAILED`` is a result, not an error.
        :raises StaleAttempt: the fence moved. The work was stopped and nothing was written.
        :raises LeaseRanOut: the store did not answer until the lease expired. The work was stopped.
        """
        job, claim = self._claim.job, self._claim
        if claim.attempt == 1 and job.started_at is not None:
            record_past("snowpack.wait", job.traceparent, job.submitted_at, job.started_at)
        with span("snowpack.attempt", job.traceparent, table=str(job.table), job_id=job.job_id, attempt=claim.attempt) as attempt:
            ended = self._run()
            attempt.note(status=ended.status.value)
            if ended.error is not None:
                attempt.failed(ended.error)
            return ended

    def _run(self) -> Job:
        try:
            with self._lease:
                try:
                    error = self._end_orphans() or self._run_actions()
                finally:
                    self._end_own_work()
                    self._idle.set()
                if self._abandoned is None and (self._limit_reason is not None or not self._stop.is_set()):
                    self._finished = self._finish(error)
        except LeaseRanOut:
            raise  # this attempt may no longer write: the job is left to its successor
        except BaseException as failure:
            self.abandon(f"The attempt was ended by {type(failure).__name__}: {failure}".rstrip(": "))
            raise
        finally:
            self._jobs.flush()
        if self._abandoned is not None:
            self._await_abandon()
        elif not self._finished:
            self._raise_unless_ended()
        return self._jobs.get(self._claim.job.job_id)

    def abandon(self, reason: str) -> bool:
        """Stop the work and fail the job with this reason, for a process that must exit now.

        Takes about a second, at most :data:`ABANDON_LIMIT_S`. Safe in signal handlers, from any thread, and when called again:
        the first reason counts, and every caller waits for the one write.

        :returns: ``False`` if the attempt had already ended.
        """
        if self._finished:
            return False
        if self._first_to_abandon.acquire(blocking=False):
            self._abandoned = reason
            # In another thread: a signal handler may have interrupted this one while it holds the locks needed here.
            threading.Thread(target=self._abandon, name="snowpack-abandon", daemon=True).start()
        self._await_abandon()
        return True

    def _await_abandon(self) -> None:
        if self._abandoning.acquire(timeout=ABANDON_LIMIT_S):
            self._abandoning.release()
        else:
            log.error("abandon_unfinished: job %s; the sweep will find it when its lease runs out", self._claim.job.job_id)

    def _abandon(self) -> None:
        try:
            self._stop_work()
            self._idle.wait(INTERRUPT_GRACE_S)
            left = self._has_orphans
            if not self._jobs.finish(self._claim, JobStatus.FAILED, self._results, error=self._abandoned, left_work=left):
                # Already cancelled: no other process releases the lock for this attempt.
                self._jobs.release_lock(self._claim, left_work=left)
        except (StoreError, SQLAlchemyError):
            log.exception("abandon_failed: job %s; the sweep will find it when its lease runs out", self._claim.job.job_id)
        finally:
            self._jobs.flush()
            self._abandoning.release()

    def _stop_work(self) -> None:
        self._stop.set()
        threading.Thread(target=self._engine.interrupt, name="snowpack-interrupt", daemon=True).start()

    def _lose(self) -> None:
        """Stop the work because the fence has moved; if no action is running, our terminal write may have moved it."""
        if self._idle.is_set():
            self._stop.set()
        else:
            self._stop_work()

    def _watch(self) -> None:
        """Stop the work at its limit, keeping the lease so that this attempt can end the job."""
        if self._limit is None or self._limit_reason is not None or self._idle.is_set():
            return
        running = self._engine.gb_hours
        used = None if running is None else running + sum(result.gb_hours or 0.0 for result in self._results)
        if (reason := self._limit(self._claim.job, used)) is not None:
            log.warning("job_stopped: job %s: %s", self._claim.job.job_id, reason)
            self._limit_reason = reason
            self._stop_work()

    def _may_continue(self) -> bool:
        """Renew or check the lease, and check the limit; return ``False`` if nothing more may start."""
        if self._stop.is_set() or not self._lease.step():
            self._stop.set()
        return not self._stop.is_set()

    def _end_orphans(self) -> str | None:
        """End what earlier attempts left running on a Spark server, and record this attempt's server; return any error."""
        job, server = self._claim.job, self._engine.server
        give_up_at = time.monotonic() + ORPHAN_LIMIT_S
        while self._has_orphans:
            if not self._may_continue():
                return None
            try:
                self._jobs.end_work(job, range(1, self._claim.attempt))
                self._has_orphans = False
            except SnowpackError as problem:
                if time.monotonic() >= give_up_at:
                    return f"{type(problem).__name__}: {problem}"
                self._problem.failed(problem, "orphan_still_running: job %s waits for its earlier attempts", job.job_id)
                self._stop.wait(self._jobs.policy.fence_check.total_seconds())
        if server == job.spark_server or self._outlasting_outages(lambda: self._jobs.note_server(self._claim, server)):
            self._orphan_server, self._has_orphans = server, server is not None
        else:
            self._stop.set()
        return None

    def _end_own_work(self) -> None:
        """End what this attempt left running on a Spark server, where work may continue after a lost connection."""
        if self._orphan_server is None:
            return
        if not self._used_server:
            self._has_orphans = False  # skipped actions open no session there, so the server need not be up
            return
        try:
            self._jobs.end_work(replace(self._claim.job, spark_server=self._orphan_server), [self._claim.attempt])
            self._has_orphans = False
        except SnowpackError as problem:
            log.warning("work_left_running: job %s keeps its table locked: %s", self._claim.job.job_id, problem)

    def _run_actions(self) -> str | None:
        """Run the actions in order; return the job's error, if any."""
        error: str | None = None
        actions = self._claim.job.actions
        for place, action in enumerate(actions):
            if not self._may_continue():
                return error
            result = self._run_action(action)
            self._results.append(result)
            record_change(self._jobs.store, self._claim, result)
            if not result.success:
                error = error or f"{action} {result.outcome}: {result.error or result.message}"
                if not self._continue_on_error:
                    return error
            if place + 1 < len(actions):
                self._record_progress()
        return error

    def _record_progress(self) -> None:
        try:
            with self._lease.within_lease():
                self._jobs.record_progress(self._claim, self._results)
        except StoreError as away:  # the terminal write has all results again
            self._problem.failed(away, "progress_not_written: job %s", self._claim.job.job_id)

    def _run_action(self, action: str) -> ActionResult:
        skipped = skipped_by_plan(self._claim.job, action)
        if skipped is not None:
            return skipped
        with span("snowpack.action", action=action) as traced:
            result = self._run_on_engine(action)
            traced.note(outcome=result.outcome.value)
            if not result.success:
                traced.failed(result.error or result.message)
            return result

    def _run_on_engine(self, action: str) -> ActionResult:
        started, used_before = time.monotonic(), self._used_server
        self._used_server = True
        try:
            result = self._engine.run(self._claim.job, action)
            self._used_server = used_before or result.outcome is not ActionOutcome.SKIPPED
            return result
        except Exception as failure:  # noqa: BLE001 - whatever it is, the job ends with it
            trace = redacted(traceback.format_exc())  # the traceback of chained errors has all their messages
            log.error("action_crashed: job %s, %s\n%s", self._claim.job.job_id, action, trace)
            cause = f"{type(failure).__name__}: {failure}"
            return ActionResult(action, ActionOutcome.FAILED, "Ended by an error", time.monotonic() - started, error=cause)

    def _finish(self, error: str | None) -> bool:
        """Make the terminal write, repeating it while the store does not answer until the lease expires."""
        status, left = JobStatus.COMPLETED if error is None else JobStatus.FAILED, self._has_orphans
        all_ran = error is not None or len(self._results) == len(self._claim.job.actions)
        interrupted = any(result.outcome is ActionOutcome.INTERRUPTED for result in self._results)
        if self._limit_reason is not None and (interrupted or not all_ran):
            status, error = JobStatus.CANCELLED, self._limit_reason

        def finish() -> bool:
            return self._jobs.finish(self._claim, status, self._results, error, left_work=left)

        with span("snowpack.finish", status=status.value):
            return self._outlasting_outages(finish)

    def _outlasting_outages(self, write: Callable[[], bool]) -> bool:
        while True:
            try:
                with self._lease.within_lease():
                    return write()
            except StoreError as away:
                if self._lease.ran_out:
                    raise self._lease_ran_out() from away
                if self._stop.is_set():
                    raise
                self._problem.failed(away, "write_failed: job %s, repeated until the lease runs out", self._claim.job.job_id)
                self._stop.wait(self._jobs.policy.fence_check.total_seconds())

    def _has_ended(self) -> bool:
        """Return whether our terminal write was committed although its answer was lost."""
        try:
            job = self._jobs.get(self._claim.job.job_id)
        except JobNotFound:
            return False
        return job.status.is_terminal and job.attempt_id == self._claim.attempt_id

    def _raise_unless_ended(self) -> None:
        try:
            with self._lease.within_lease():
                if not self._has_ended():
                    self._raise_stale()
        except StoreError as away:
            if self._lease.ran_out:
                raise self._lease_ran_out() from away
            raise

    def _lease_ran_out(self) -> LeaseRanOut:
        log.warning("lease_ran_out: job %s, attempt %s", self._claim.job.job_id, self._claim.attempt_id)
        assert self._lease.lease_until is not None, "the lease of a claim has an end"
        return LeaseRanOut(self._claim.job.job_id, self._claim.attempt_id, datetime.fromtimestamp(self._lease.lease_until, UTC))

    def _raise_stale(self) -> None:
        """Unlock the table if the job was cancelled, and change nothing else: the fence has moved."""
        job_id, attempt_id = self._claim.job.job_id, self._claim.attempt_id
        if self._jobs.holds(self._claim):
            raise self._lease_ran_out()
        log.warning("writeback_stale_attempt: job %s, attempt %s leaves its results unwritten", job_id, attempt_id)
        self._jobs.release_lock(self._claim, left_work=self._has_orphans)
        self._jobs.flush()
        try:
            status = self._jobs.get(job_id).status
        except JobNotFound:
            status = JobStatus.CANCELLED  # cancelled and deleted since
        raise StaleAttempt(job_id, attempt_id, status)


def keep_claim(
    jobs: Jobs,
    claim: Claim,
    on_lost: Callable[[], None],
    sign: SignOfLife | None = None,
    watch: Callable[[], None] = lambda: None,
) -> KeepAlive:
    """Keep a claim alive: check the fence at each ``fence_check``, and renew lease and table lock at each ``heartbeat``.

    :param sign: the worker's sign of life, reported with each renewal.
    """
    policy = jobs.policy

    def renew() -> bool:
        renewed = jobs.renew(claim)
        if renewed and sign is not None:
            sign.beat()
        return renewed

    def holds() -> bool:
        watch()
        return jobs.holds(claim)

    return KeepAlive(
        renew,
        every=policy.heartbeat,
        lost_after=policy.lease,
        what=f"job {claim.job.job_id}, attempt {claim.attempt_id}",
        on_lost=on_lost,
        check=holds,
        check_every=policy.fence_check,
        lease_until=claim.lease_until.timestamp(),
        clock=lambda: jobs.store.clock().timestamp(),
    )
