"""Keeps what one attempt writes and reads alive: one thread for all of it.

    with Heartbeat(registry, on_lost=lambda held: interrupt()) as heartbeat:
        heartbeat.hold(reading := registry.consume(refs, holder=holder))
        heartbeat.hold(writing := registry.begin(slot, holder=holder, catalog="lake"))
        work()
        heartbeat.check()             # StaleInterimAttempt or InterimTableGone, if it was in vain

A store that does not answer is survived: something counts as lost only when its lease has run out by this process's own clock,
because from then on somebody else may have it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import Self

from airflow_snowpack.interim.errors import InterimTableGone, StaleInterimAttempt
from airflow_snowpack.interim.model import Reading, Writing
from airflow_snowpack.interim.registry import InterimRegistry
from airflow_snowpack.store.pulse import Pulse

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
        self._lease_s = registry.policy.lease.total_seconds()
        self._lock = threading.Lock()
        self._renewed: dict[str, tuple[Held, float]] = {}
        self._lost: Held | None = None
        every: timedelta = min(registry.policy.heartbeat, registry.policy.lease / 3)
        self._pulse = Pulse(self.step, every=every, name="snowpack-interim-heartbeat")

    @property
    def lost(self) -> Held | None:
        """The first thing that somebody else may have by now."""
        return self._lost

    def hold(self, held: Held) -> None:
        """Keep this alive from now on. A reading without tables needs none of it."""
        if isinstance(held, Reading) and not held.tables:
            return
        with self._lock:
            self._renewed[_key(held)] = held, self._monotonic()

    def let_go(self, held: Held) -> None:
        """It is about to be handed on, given up or released, after which nobody could renew it."""
        with self._lock:
            self._renewed.pop(_key(held), None)

    def check(self) -> None:
        """:raises StaleInterimAttempt, InterimTableGone: something is lost, so that the work is in vain."""
        if isinstance(self._lost, Writing):
            raise StaleInterimAttempt(f"the output {self._lost.slot}")
        if isinstance(self._lost, Reading):
            first = self._lost.tables[0]
            raise InterimTableGone(first.table, first.producer)

    def step(self) -> bool:
        """One beat of everything that is held."""
        with self._lock:
            all_held = list(self._renewed.values())
        for held, renewed_at in all_held:
            self._beat(held, renewed_at)
        return True

    def _beat(self, held: Held, renewed_at: float) -> None:
        asked_at = self._monotonic()
        try:
            alive = self._registry.heartbeat(held)
        except Exception:  # whatever it is: a heartbeat that died unheard would let the work go on without a lease
            log.warning("heartbeat_failed: %s; trying on until the lease runs out", _what(held), exc_info=True)
            alive, asked_at = asked_at - renewed_at < self._lease_s, renewed_at
        with self._lock:
            if _key(held) not in self._renewed:
                return  # let go of meanwhile, which is why nothing was found
            if alive:
                self._renewed[_key(held)] = held, asked_at
                return
            del self._renewed[_key(held)]
            self._lost = self._lost or held
        log.warning("fence_moved: %s", _what(held))
        if self._on_lost is not None:
            self._on_lost(held)

    def __enter__(self) -> Self:
        self._pulse.__enter__()
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._pulse.__exit__(*exc)


def _key(held: Held) -> str:
    return held.table_id if isinstance(held, Writing) else held.reading_id


def _what(held: Held) -> str:
    if isinstance(held, Writing):
        return f"the output {held.slot}, as {held.table}"
    return f"{', '.join(table.table for table in held.tables)} for {held.holder}"
