"""Keeps the leases of everything alive that one attempt writes and reads, with one thread.

    with Heartbeat(registry, attempt, on_lost=interrupt) as heartbeat:
        heartbeat.add(reading := registry.consume(refs, attempt=attempt))
        heartbeat.add(writing := registry.begin(attempt, catalog="lake"))
        work()
        heartbeat.check()             # StaleInterimAttempt or InterimReadingLost, if the work was in vain

The invariant: only the store's own answer is a loss. While the store does not answer, the heartbeat is retried, also beyond the
lease: no process takes a table from an attempt that Airflow reports as running, and if one has, the fence keeps this attempt from
committing. The first loss ends the heartbeat, since the whole attempt is in vain then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from airflow_snowpack.interim.errors import InterimReadingLost, StaleInterimAttempt
from airflow_snowpack.interim.model import Reading, TaskAttempt, Writing
from airflow_snowpack.interim.registry import InterimRegistry
from airflow_snowpack.store.keep_alive import KeepAlive


class Heartbeat:
    """Renews the leases of one attempt.

    :param on_lost: called once, from the heartbeat's thread, when a lease is lost.
    :ivar lost: the lease that was lost.
    """

    def __init__(self, registry: InterimRegistry, attempt: TaskAttempt, *, on_lost: Callable[[], None] = lambda: None) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._leased: dict[str, Writing | Reading] = {}
        self.lost: Writing | Reading | None = None
        every = min(registry.policy.heartbeat, registry.policy.lease / 3)
        what = f"the interim tables of {attempt}"
        self._keep_alive = KeepAlive(self.renew, every=every, lost_after=None, what=what, on_lost=on_lost)

    def add(self, leased: Writing | Reading) -> None:
        """Keep this alive from now on. A reading without tables has no lease."""
        if isinstance(leased, Writing) or leased.tables:
            with self._lock:
                self._leased[_key(leased)] = leased

    def remove(self, leased: Writing | Reading) -> None:
        """Stop renewing this: it is about to be committed, abandoned or released."""
        with self._lock:
            self._leased.pop(_key(leased), None)

    def check(self) -> None:
        """:raises StaleInterimAttempt, InterimReadingLost: a lease is lost, so that the work is in vain."""
        if isinstance(self.lost, Writing):
            raise StaleInterimAttempt(f"the output {self.lost.producer}")
        if isinstance(self.lost, Reading):
            raise InterimReadingLost(str(self.lost.attempt), [table.table for table in self.lost.tables])

    def renew(self) -> bool:
        """Renew every lease; return ``False`` when one is lost."""
        with self._lock:
            leased = list(self._leased.values())
        for each in leased:
            if self._registry.heartbeat(each):
                continue
            with self._lock:
                if _key(each) in self._leased:  # or it was removed meanwhile, which is why it was not found
                    self.lost = self.lost or each
        return self.lost is None

    def step(self) -> bool:
        """Renew every lease, or note that the store does not answer; return ``False`` when one is lost."""
        return self._keep_alive.step()

    def __enter__(self) -> Self:
        self._keep_alive.__enter__()
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._keep_alive.__exit__(*exc)


def _key(leased: Writing | Reading) -> str:
    return leased.table_id if isinstance(leased, Writing) else leased.reading_id
