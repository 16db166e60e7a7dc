"""The heartbeat of one claim: a thread that renews the lease and notices when the fence has moved.

    with Heartbeat(jobs, claim, on_lost=engine.interrupt):
        work()

It looks at the fence every ``policy.fence_check`` (one indexed read) and renews lease and lock every
``policy.heartbeat``. A database that does not answer is survived: the claim counts as lost only when its lease has run
out by this process's own clock, because from then on somebody else may hold it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from airflow_snowpack.jobs.lifecycle import Jobs
from airflow_snowpack.jobs.model import Claim
from airflow_snowpack.recurring import Recurring
from airflow_snowpack.store.patience import answer_by
from airflow_snowpack.store.pulse import Pulse
from airflow_snowpack.store.signs_of_life import SignOfLife

log = logging.getLogger(__name__)


class Heartbeat:
    """Keeps a claim alive while the work goes on.

    :param on_lost: called once, from the heartbeat's thread, when the attempt no longer counts.
    :param sign: the sign of life of the worker, reported with each renewal.
    :ivar lease_until: the end of the lease as renewed last.
    """

    def __init__(self, jobs: Jobs, claim: Claim, on_lost: Callable[[], None], sign: SignOfLife | None = None) -> None:
        self._jobs = jobs
        self._claim = claim
        self.lease_until = claim.lease_until
        self._renewed_at = time.monotonic()
        # Three beats to a lease at least, also for somebody who shortened the lease and nothing else.
        beat = min(jobs.policy.heartbeat, jobs.policy.lease / 3)
        self._beat_seconds = beat.total_seconds()
        look, name = min(jobs.policy.fence_check, beat), f"snowpack-heartbeat-{claim.job.job_id[:8]}"
        self._on_lost = on_lost
        self._sign = sign
        self._problem = Recurring(log)
        self._pulse = Pulse(self.step, every=look, name=name, on_last=self._tell)

    @property
    def lease_ran_out(self) -> bool:
        """Whether, by this process's clock, somebody else may hold the claim by now."""
        return self._jobs.store.clock() >= self.lease_until

    def within_lease(self) -> AbstractContextManager[None]:
        """Inside of it, the store neither waits nor repeats anything beyond the end of the lease."""
        left = self.lease_until - self._jobs.store.clock()
        return answer_by(time.monotonic() + max(left.total_seconds(), 0.0))

    def step(self) -> bool:
        """One look, and one renewal when it is due; ``False`` when the attempt no longer counts."""
        with self.within_lease():
            return self._step()

    def _step(self) -> bool:
        try:
            if time.monotonic() - self._renewed_at < self._beat_seconds:
                holds = self._jobs.holds(self._claim)
                self._problem.passed()
                return holds
            now = self._jobs.store.clock()
            if not self._jobs.renew(self._claim):
                return False
        except Exception as error:  # noqa: BLE001 - a heartbeat that ended here would let the work go on without a lease
            self._problem.failed(error, "heartbeat_failed: job %s, repeated until the lease runs out", self._claim.job.job_id)
            return not self.lease_ran_out
        self._problem.passed()
        self._renewed_at = time.monotonic()
        self.lease_until = now + self._jobs.policy.lease
        if self._sign is not None:
            self._sign.beat()
        return True

    def _tell(self) -> None:
        log.warning("fence_moved: job %s, attempt %s", self._claim.job.job_id, self._claim.attempt_id)
        self._on_lost()

    def __enter__(self) -> Self:
        self._pulse.__enter__()
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._pulse.__exit__(*exc)
