"""Keeps what one attempt writes and reads alive: one thread for all of it.

    with Heartbeat(registry, on_lost=lambda held: interrupt()) as heartbeat:
        heartbeat.hold(reading := registry.consume(refs, holder=holder))
        heartbeat.hold(writing := registry.begin(slot, holder=holder, catalog="lake"))
        work()
        heartbeat.check()             # StaleInterimAttempt or InterimReadingLost, if it was in vain

The invariant: only the store's own answer is a loss. One that does not answer is asked again for as long as the work takes, also
beyond the lease: nobody takes anything over from an attempt that Airflow says is running, and if somebody has, the fence keeps
what this one still writes from being handed on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import Self

from airflow_snowpack.interim.errors import InterimReadingLost, StaleInterimAttempt
from airflow_snowpack.interim.model import Reading, Writing
from airflow_snowpack.interim.registry import InterimRegistry
from airflow_snowpack.store.periodic_thread import PeriodicThread

log = logging.getLogger(__name__)

Held = Writing | Reading


class Heartbeat:
    """Renews what is held.

    :param on_lost: called from the heartbeat's thread, once for each thing that is lost.
    """

    def __init__(
        self,
        registry: InterimRegistry,
        *,
        on_lost: Callable[[Held], None] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = registry
        self._on_lost = on_lost
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._held: dict[str, Held] = {}
        self._lost: Held | None = None
        self._silent_since: float | None = None
        every: timedelta = min(registry.policy.heartbeat, registry.policy.lease / 3)
        self._thread = PeriodicThread(self.step, every=every, name="snowpack-interim-heartbeat")

    @property
    def lost(self) -> Held | None:
        """The first thing that is held no more."""
        return self._lost

    def hold(self, held: Held) -> None:
        """Keep this alive from now on. A reading without tables needs none of it."""
        if isinstance(held, Reading) and not held.tables:
            return
        with self._lock:
            self._held[_key(held)] = held

    def let_go(self, held: Held) -> None:
        """It is about to be handed on, given up or released, after which nobody could renew it."""
        with self._lock:
            self._held.pop(_key(held), None)

    def check(self) -> None:
        """:raises StaleInterimAttempt, InterimReadingLost: something is lost, so that the work is in vain."""
        if isinstance(self._lost, Writing):
            raise StaleInterimAttempt(f"the output {self._lost.slot}")
        if isinstance(self._lost, Reading):
            raise InterimReadingLost(str(self._lost.holder), [table.table for table in self._lost.tables])

    def step(self) -> bool:
        """One beat of everything that is held."""
        with self._lock:
            all_held = list(self._held.values())
        for held in all_held:
            self._beat(held)
        return True

    def _beat(self, held: Held) -> None:
        try:
            alive = self._registry.heartbeat(held)
        except Exception as error:  # noqa: BLE001 (whatever it is: a heartbeat that died unheard would let the work go on unrenewed)
            self._missed(held, error)
            return
        self._answered()
        with self._lock:
            if alive or self._held.pop(_key(held), None) is None:
                return  # or it was let go of meanwhile, which is why nothing was found
            self._lost = self._lost or held
        log.warning("fence_moved: %s", _what(held))
        if self._on_lost is not None:
            self._on_lost(held)

    def _missed(self, held: Held, error: Exception) -> None:
        """The first time with all there is to know, then a line a beat: an outage may take hours."""
        now, first = self._monotonic(), self._silent_since is None
        since = self._silent_since = now if self._silent_since is None else self._silent_since
        what = "heartbeat_failed: the store has not answered for %.0f s: %s: %s; the work goes on, and the store is asked again"
        log.warning(what, now - since, _what(held), error, exc_info=first)

    def _answered(self) -> None:
        if self._silent_since is not None:
            log.info("The store answers again, after %.0f s", self._monotonic() - self._silent_since)
            self._silent_since = None

    def __enter__(self) -> Self:
        self._thread.__enter__()
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._thread.__exit__(*exc)


def _key(held: Held) -> str:
    return held.table_id if isinstance(held, Writing) else held.reading_id


def _what(held: Held) -> str:
    if isinstance(held, Writing):
        return f"the output {held.slot}, as {held.table}"
    return f"{', '.join(table.table for table in held.tables)} for {held.holder}"
