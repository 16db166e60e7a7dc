"""A worker process: claims jobs, runs them one at a time, and stops cleanly on SIGTERM.

    JobWorker(jobs, make_engine, worker_id="pod-7").run_forever()

On SIGTERM the running job fails with "Worker received SIGTERM", its queue row and lock are removed, and the process exits with
code 1, all within about two seconds. A worker without a job exits with code 0.

A thread handles SIGTERM even while the main thread is in a long call. Python runs signal handlers in the main thread between two
bytecode instructions, which a call into C may delay for hours. The C-level handler, however, writes the signal's number to the
*wake-up descriptor* at once, and the thread reads the other end.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timedelta
from types import FrameType, MappingProxyType, TracebackType
from typing import Self

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.jobs.attempt import Attempt, Limit
from airflow_snowpack.jobs.errors import LeaseRanOut, StaleAttempt
from airflow_snowpack.jobs.manager import Jobs
from airflow_snowpack.jobs.model import Claim, Engine, JobStatus
from airflow_snowpack.store import StoreError
from airflow_snowpack.store.leases import EVER
from airflow_snowpack.store.signs_of_life import JOBS_ENDED, Role, SignOfLife
from airflow_snowpack.store.worker import Worker

log = logging.getLogger(__name__)

WATCHED = (signal.SIGTERM, signal.SIGINT)


class ShutdownWatcher:
    """Watches for SIGTERM and SIGINT; must be entered in the main thread.

    :param on_signal: called in the watcher's thread with the signal's name; returns whether the process must exit with code 1.
    """

    def __init__(self, on_signal: Callable[[str], bool], end_process: Callable[[int], None] = os._exit) -> None:
        self._on_signal = on_signal
        self._end_process = end_process
        self.requested = threading.Event()

    def __enter__(self) -> Self:
        self._read, self._write = socket.socketpair()
        self._write.setblocking(False)
        self._old_descriptor = signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        self._old_handlers = {number: signal.signal(number, self._handle) for number in WATCHED}
        self._thread = threading.Thread(target=self._watch, name="snowpack-shutdown", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_descriptor)
        self._write.close()  # the thread reads end-of-file and stops
        self._thread.join()
        self._read.close()

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self.requested.set()

    def _watch(self) -> None:
        watched = {int(number) for number in WATCHED}
        while numbers := self._read.recv(16):
            for number in watched.intersection(numbers):
                self.requested.set()
                name = signal.Signals(number).name
                log.warning("shutdown_requested: %s", name)
                if self._on_signal(name):
                    self._end_process(1)


LEFT_CHECK_INTERVAL = timedelta(minutes=1)
"""How often an idle worker counts the jobs that wait for workers of other catalogs."""
SKIP_INTERVAL = timedelta(minutes=1)
"""How long a worker of several catalogs leaves one alone that cannot be used, at least."""
SKIP_FACTOR = 10
"""And how many times as long as the catalog let it wait, so that most of its time is left for the others."""
RECENT_JOBS = 1_000


class JobWorker:
    """Drains the queue.

    :param make_engine: makes an engine for each attempt, before the claim, so that a machine that cannot make one claims nothing.
    :param worker_id: the worker's name in its claims.
    :param catalog_id: the catalog of the engines; jobs of other catalogs are left, and logged.
    :param more_catalogs: makes the engines of further catalogs, by their ids. Catalogs take turns, whatever the number and the
        priority of their jobs.
    :param poll: the wait while the queue is empty.
    :param continue_on_error: see :class:`Attempt`.
    :param sign: reported at each poll, and while a job runs; ``None`` for a sign of this worker's name.
    :param resumes: the prefix of the names of this worker's earlier tries; a job that one of them has claimed comes first.
    :param claiming: the block in which a job is claimed. A signal handler in the thread of :meth:`run_once` must wait for its end
        before it abandons the job, because :meth:`abandon` waits for the claim.
    :param claim_next: claims the next of this worker's jobs; ``None`` for the head of the queue.
    """

    recent: deque[str]
    """The ids of the jobs claimed last, oldest first."""

    def __init__(
        self,
        jobs: Jobs,
        make_engine: Callable[[], Engine],
        worker_id: str,
        *,
        catalog_id: str = "",
        more_catalogs: Mapping[str, Callable[[], Engine]] = MappingProxyType({}),
        poll: timedelta = timedelta(seconds=5),
        continue_on_error: bool = False,
        sign: SignOfLife | None = None,
        resumes: str | None = None,
        claiming: Callable[[], AbstractContextManager[None]] = nullcontext,
        claim_next: Callable[[], Claim | None] | None = None,
    ) -> None:
        self.recent = deque(maxlen=RECENT_JOBS)
        self._jobs = jobs
        self._makers = {catalog_id: make_engine, **more_catalogs}
        self._turns = deque(self._makers)
        self._resumes = resumes
        self._resuming = set(self._makers if resumes else ())
        self._claiming = claiming
        self._claim_next = claim_next
        self._worker_id = worker_id
        self._waiting_elsewhere: dict[str, int] = {}
        self._count_elsewhere_at = EVER
        self._poll = poll
        self._continue_on_error = continue_on_error
        self._sign = sign or SignOfLife(jobs.store, Role.WORKER, worker_id)
        self._ended = 0
        self._sign.note(JOBS_ENDED, "0")
        self._engines: dict[str, Engine] = {}  # made, but not used yet
        self._skipped_until: dict[str, datetime] = {}
        self._attempt: Attempt | None = None
        self._stopping = False
        self._guard = threading.Lock()  # makes a claim and its attempt one step for the shutdown watcher

    def run_once(self, limit: Limit | None = None) -> JobStatus | None:
        """Claim one job and run it to its end; return ``None`` if there was nothing to claim.

        :returns: how the job ended; for an attempt that was replaced or lost its lease, the job's current status.
        """
        attempt = self._next_attempt(limit)
        if attempt is None:
            return None
        try:
            job = attempt.run()
            log.info("Job %s on %s ended as %s%s", job.job_id, job.table, job.status, f": {job.error}" if job.error else "")
            self._ended += 1
            self._sign.note(JOBS_ENDED, str(self._ended))
            return job.status
        except StaleAttempt as stale:
            log.info("%s", stale)
            return stale.status
        except LeaseRanOut as outage:
            log.warning("%s", outage)
            return JobStatus.RUNNING  # until a sweep requeues it
        finally:
            self._attempt = None

    def run_forever(self, *, max_jobs: int | None = None, until_idle: bool = False) -> int:
        """Work until SIGTERM or SIGINT; return the exit code 0 if the signal came between two jobs. Call it in the main thread.

        :param max_jobs: return after this many jobs, successful or not.
        :param until_idle: return as soon as no job can be claimed; a store that does not answer is then an error.
        """
        left = max_jobs
        with ShutdownWatcher(on_signal=lambda name: self.abandon(f"Worker received {name}")) as watcher:

            def work() -> bool:
                nonlocal left
                busy = self.run_once() is not None
                if not busy:
                    self._report_elsewhere()
                elif left is not None:
                    left -= 1
                if left == 0 or (until_idle and not busy):
                    watcher.requested.set()
                return busy

            failure = f"store_unreachable: worker {self._worker_id} waits"
            survives = () if until_idle else (StoreError,)
            rounds = Worker(work, name=self._worker_id, failure=failure, every=self._poll, sign=self._sign, survives=survives)
            log.info("Worker %s takes jobs from the store at %s", self._worker_id, self._jobs.store.where)
            if left != 0:
                rounds.run(watcher.requested)
        self._jobs.flush()
        return 0

    def abandon(self, reason: str) -> bool:
        """Fail the running job and claim no other; called in another thread. Return whether a job was running."""
        with self._guard:
            self._stopping = True
            attempt = self._attempt
        return attempt is not None and attempt.abandon(reason)

    def _next_attempt(self, limit: Limit | None) -> Attempt | None:
        for catalog_id in tuple(self._turns):
            if attempt := self._attempt_on(catalog_id, limit):
                self._turns.remove(catalog_id)
                self._turns.append(catalog_id)
                return attempt
        return None

    def _attempt_on(self, catalog_id: str, limit: Limit | None) -> Attempt | None:
        engine = self._engines.get(catalog_id) or self._made(catalog_id)
        if engine is None:
            return None
        self._engines[catalog_id] = engine
        with self._claiming(), self._guard:
            claim = None if self._stopping else self._claim(catalog_id)
            if claim is None:
                return None
            goes_on, sign = self._continue_on_error, self._sign
            self._attempt = Attempt(self._jobs, claim, engine, continue_on_error=goes_on, sign=sign, limit=limit)
            del self._engines[catalog_id]
        job = claim.job
        self.recent.append(job.job_id)
        log.info("Job %s, attempt %d, on %s: %s", job.job_id, claim.attempt, job.table, job.work)
        return self._attempt

    def _made(self, catalog_id: str) -> Engine | None:
        """Return an engine; ``None`` if the catalog cannot be used for now, and another one can.

        :raises SnowpackError: no catalog can be used.
        """
        now = self._jobs.store.clock()
        if now < self._skipped_until.get(catalog_id, EVER):
            return None
        try:
            engine = self._makers[catalog_id]()
        except SnowpackError as problem:
            failed_at = self._jobs.store.clock()
            self._skipped_until[catalog_id] = failed_at + max(SKIP_INTERVAL, SKIP_FACTOR * (failed_at - now))
            if self._skipped_until.keys() == self._makers.keys():
                raise
            log.warning("catalog_skipped: jobs of the catalog %s wait: %s", catalog_id, problem)
            return None
        self._skipped_until.pop(catalog_id, None)
        return engine

    def _claim(self, catalog_id: str) -> Claim | None:
        if self._resumes is not None and catalog_id in self._resuming:
            if claim := self._jobs.reclaim(self._resumes, self._worker_id, catalog_id=catalog_id):
                return claim
            self._resuming.remove(catalog_id)
        if self._claim_next is not None:
            return self._claim_next()
        return self._jobs.claim(self._worker_id, catalog_id=catalog_id)

    def _report_elsewhere(self) -> None:
        """Log how many jobs wait for workers of other catalogs, if that has changed."""
        now = self._jobs.store.clock()
        if now < self._count_elsewhere_at:
            return
        self._count_elsewhere_at = now + LEFT_CHECK_INTERVAL
        before, self._waiting_elsewhere = self._waiting_elsewhere, self._jobs.waiting_elsewhere(*self._makers)
        for catalog_id, number in self._waiting_elsewhere.items():
            if before.get(catalog_id) != number:
                log.warning(
                    "jobs_left: %d waiting %s to catalog %s, and this worker reaches %s %s. Start a worker with the catalog "
                    "connection that they were submitted with.",
                    number,
                    "job belongs" if number == 1 else "jobs belong",
                    catalog_id or "(not recorded)",
                    "catalog" if len(self._makers) == 1 else "catalogs",
                    ", ".join(each or "(not recorded)" for each in self._makers),
                )
