"""Keeps a lease alive while the work goes on: a thread that renews it, and notices when the fence has moved.

    renew = partial(registry.heartbeat, handle)
    with Heartbeat(renew, every=policy.heartbeat, lease=policy.run_lease, what="the run 20260101T000000Z of flights") as beat:
        work()
        beat.check()  # StaleBuild, if somebody else has it by now

A store that does not answer is survived: the lease counts as lost only when it has run out by this process's own clock, because
from then on somebody else may have it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import Self

from airflow_snowpack.builds.errors import BuildLeaseRanOut, StaleBuild
from airflow_snowpack.recurring import Recurring
from airflow_snowpack.store.periodic_thread import PeriodicThread

log = logging.getLogger(__name__)


class Heartbeat:
    """Renews one lease.

    :param renew: moves the end of the lease; ``False``: the fence has moved.
    :param every: between two beats; at least three go into a lease.
    :param what: what is held, for messages: ``the run 20260101T000000Z of flights``.
    :param on_lost: called once, from the heartbeat's thread, when the lease is lost.
    """

    def __init__(
        self,
        renew: Callable[[], bool],
        *,
        every: timedelta,
        lease: timedelta,
        what: str,
        on_lost: Callable[[], None] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._renew = renew
        self._lease_s = lease.total_seconds()
        self._what = what
        self._on_lost = on_lost
        self._problem = Recurring(log)
        self._monotonic = monotonic
        self._renewed_at = monotonic()
        self._ran_out = False
        self._lost = threading.Event()
        self._thread = PeriodicThread(self.step, every=min(every, lease / 3), name="snowpack-build-heartbeat", on_last=self._tell)

    @property
    def lost(self) -> bool:
        """Whether somebody else may have it."""
        return self._lost.is_set()

    def check(self) -> None:
        """Raise if the lease is lost.

        :raises BuildLeaseRanOut: it ran out while the store did not answer.
        :raises StaleBuild: another attempt has taken over.
        """
        if self.lost and self._ran_out:
            raise BuildLeaseRanOut(self._what)
        if self.lost:
            raise StaleBuild(self._what)

    def step(self) -> bool:
        """One beat; ``False`` when the lease is lost."""
        asked_at = self._monotonic()
        try:
            alive = self._renew()
        except Exception as error:  # noqa: BLE001 - a heartbeat that ended here would let the work go on without a lease
            self._problem.failed(error, "heartbeat_failed: %s, repeated until the lease runs out", self._what)
            alive = asked_at - self._renewed_at < self._lease_s
            self._ran_out = not alive
        else:
            self._problem.passed()
            self._renewed_at = asked_at
        if not alive:
            self._lost.set()
        return alive

    def _tell(self) -> None:
        log.warning("fence_moved: %s", self._what)
        if self._on_lost is not None:
            self._on_lost()

    def __enter__(self) -> Self:
        self._renewed_at = self._monotonic()
        self._thread.__enter__()
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._thread.__exit__(*exc)
