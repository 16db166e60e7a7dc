"""Keeps all that one attempt holds from running out: a thread that renews it, and notices when something is held no more.

    with LeaseKeeper(registry, on_lost=work.interrupt) as keeper:
        keeper.hold(registry.consume(refs, holder=holder))
        keeper.hold(registry.begin(slot, holder=holder, catalog="lake"))
        work()
    keeper.lost                        # what another attempt has by now, or None

A store that does not answer is survived: what is held counts as lost only when its lease has run out by this process's own clock,
because from then on it may be taken for dead.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from airflow_snowpack.interim.model import Reading, Writing
    from airflow_snowpack.interim.registry import InterimRegistry

log = logging.getLogger(__name__)


class LeaseKeeper:
    """Renews what is held.

    :param on_lost: called once, from the keeper's thread, when something is lost.
    """

    def __init__(
        self,
        registry: InterimRegistry,
        *,
        on_lost: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = registry
        self._on_lost = on_lost
        self._monotonic = monotonic
        policy = registry.policy
        self._every_s = min(policy.heartbeat, policy.lease / 3).total_seconds()
        self._lease_s = policy.lease.total_seconds()
        self._held: dict[Writing | Reading, float] = {}  # and when it was renewed
        self._guard = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="snowpack-interim-leases", daemon=True)
        self.lost: Writing | Reading | None = None

    def hold(self, held: Writing | Reading) -> None:
        """Renew this too, which was taken a moment ago."""
        with self._guard:
            self._held[held] = self._monotonic()

    def let_go(self, held: Writing | Reading) -> None:
        """It needs no renewal any more."""
        with self._guard:
            self._held.pop(held, None)

    def step(self) -> bool:
        """Renew everything once; ``False`` when something is lost."""
        with self._guard:
            held = list(self._held)
        for each in held:
            if not self._renewed(each):
                self.lost = each
                return False
        return True

    def _renewed(self, each: Writing | Reading) -> bool:
        asked_at = self._monotonic()
        try:
            alive = self._registry.heartbeat(each)
        except Exception:  # whatever it is: a thread that died unheard would let the work go on without a lease
            log.warning("heartbeat_failed: %s; trying on until the lease runs out", each.holder, exc_info=True)
            with self._guard:
                return asked_at - self._held.get(each, asked_at) < self._lease_s
        with self._guard:
            if each not in self._held:
                return True  # let go of meanwhile: no longer there because its holder is through with it
            self._held[each] = asked_at
        return alive

    def _keep(self) -> None:
        while not self._stopped.wait(self._every_s):
            if not self.step() and not self._stopped.is_set():
                log.warning("fence_moved: %s", self.lost)
                self._on_lost()
                return

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._stopped.set()
        self._thread.join(timeout=self._every_s)
