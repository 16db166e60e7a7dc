"""Keeps a lease alive while its work runs: a thread renews it and detects its loss.

    renew = partial(registry.heartbeat, handle)
    with KeepAlive(renew, every=policy.heartbeat, lost_after=policy.run_lease, what="the run 20260101T000000Z") as lease:
        work()
        if lease.lost is Loss.FENCE_MOVED: ...

The invariant: the work survives a store that does not answer for ``lost_after`` and no longer, because then another process may
have the lease. A timer that never uses the store enforces this, even while the store accepts a connection and stays silent.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from enum import Enum, auto
from types import TracebackType
from typing import Self

from airflow_snowpack.recurring import Recurring
from airflow_snowpack.store.deadlines import answer_by
from airflow_snowpack.store.errors import StoreFileReplaced

log = logging.getLogger(__name__)

SHORTEST_WAIT_S = 0.01


class Loss(Enum):
    """How a lease was lost: another attempt has it, or it expired while the store did not answer."""

    FENCE_MOVED = auto()
    RAN_OUT = auto()


class KeepAlive:
    """Renews one lease from its own thread until the block ends.

    :param beat: extends the lease; returns ``False`` if the fence has moved.
    :param every: the time between two beats, at most a third of ``lost_after``.
    :param lost_after: how long after the last beat the lease counts as lost while the store does not answer; ``None`` for never:
        then only the store's answer reports a loss.
    :param what: what is leased, for messages: ``job 5f3c, attempt 9a1e``.
    :param on_lost: called once, from a thread, when the lease is lost. It must not wait for the store.
    :param check: a cheaper check of the fence, run ``check_every`` between two beats.
    :param lease_until: the end of the lease by ``clock``; ``None`` for a lease that starts with the block.
    :param clock: seconds.
    :ivar lease_until: the end of the lease by ``clock``; ``None`` if silence never ends it.
    :ivar lost: how the lease was lost; ``None`` while it is held.
    """

    def __init__(
        self,
        beat: Callable[[], bool],
        *,
        every: timedelta,
        lost_after: timedelta | None,
        what: str,
        on_lost: Callable[[], None] = lambda: None,
        check: Callable[[], bool] | None = None,
        check_every: timedelta | None = None,
        lease_until: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        every = every if lost_after is None else min(every, lost_after / 3)
        self._beat, self._check, self._every_s = beat, check, every.total_seconds()
        self._lost_after_s = None if lost_after is None else lost_after.total_seconds()
        self._what = what
        self._on_lost = on_lost
        self._clock = clock
        self._starts_with_block = lease_until is None
        self._beat_at = 0.0
        self.lease_until: float | None = None
        self._renewed(clock())
        self.lease_until = self.lease_until if lease_until is None else lease_until
        self.lost: Loss | None = None
        self._problem = Recurring(log)
        self._period_s = self._every_s if check_every is None else min(every, check_every).total_seconds()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="snowpack-heartbeat", daemon=True)
        self._first_to_lose = threading.Lock()  # acquired once and never released

    @property
    def ran_out(self) -> bool:
        """Whether another process may have the lease by now."""
        return self.lease_until is not None and self._clock() >= self.lease_until

    def within_lease(self) -> AbstractContextManager[None]:
        """Within the block, the store neither waits nor retries beyond the end of the lease."""
        if self.lease_until is None:
            return nullcontext()
        return answer_by(time.monotonic() + max(self.lease_until - self._clock(), 0.0))

    def step(self) -> bool:
        """Beat, or check if the next beat is not due yet; return ``False`` if the lease is lost."""
        if self.lost is not None:
            return False
        began_at, is_beat = self._clock(), self._check is None or time.monotonic() >= self._beat_at
        try:
            with self.within_lease():
                alive = self._beat() if is_beat or self._check is None else self._check()
        except StoreFileReplaced:
            log.exception("heartbeat_failed: %s", self._what)
            self.lost, self.lease_until = self.lost or Loss.RAN_OUT, self._clock()
            return False
        except Exception as error:  # noqa: BLE001 - a heartbeat that ended here would let the work go on without a lease
            self._problem.failed(error, "heartbeat_failed: %s, retried at the next beat", self._what)
            ran_out = self.ran_out  # read once: a lease that expires between two reads would be lost without a reason
            if ran_out:
                self.lost = self.lost or Loss.RAN_OUT
            return not ran_out
        self._problem.passed()
        if not alive:
            self.lost = self.lost or Loss.FENCE_MOVED
        elif self.lost is not None:
            return False  # the answer came too late: the work was stopped when the lease expired
        elif is_beat:
            self._renewed(began_at)
        return alive

    def _renewed(self, at: float) -> None:
        self.lease_until = None if self._lost_after_s is None else at + self._lost_after_s
        self._beat_at = time.monotonic() + self._every_s

    def _run(self) -> None:
        while not self._stopped.wait(self._period_s):
            if not self.step() and not self._stopped.is_set():
                self._lose()
                return

    def _end_in_time(self) -> None:
        """End the lease on time, whatever hangs: this thread only reads the clock."""
        while not self._stopped.wait(self._left_s()):
            if self.ran_out:
                self.lost = self.lost or Loss.RAN_OUT
                self._lose()
                return

    def _left_s(self) -> float:
        assert self.lease_until is not None, "it starts only for a lease that has an end"
        return max(self.lease_until - self._clock(), SHORTEST_WAIT_S)

    def _lose(self) -> None:
        if self._first_to_lose.acquire(blocking=False):
            log.warning("%s: %s", "lease_ran_out" if self.lost is Loss.RAN_OUT else "fence_moved", self._what)
            self._on_lost()

    def __enter__(self) -> Self:
        if self._starts_with_block:
            self._renewed(self._clock())
        self._thread.start()
        if self.lease_until is not None:
            threading.Thread(target=self._end_in_time, name="snowpack-lease-end", daemon=True).start()
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._stopped.set()
        self._thread.join(timeout=self._period_s)
