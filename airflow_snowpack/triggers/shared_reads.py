"""Reads once for all triggers of a process that wait for the same kind of thing, such as the ends of jobs.

    reads = shared_reads(("jobs", url), read_statuses)
    status = (await reads.get([job_id]))[job_id]     # one call of read_statuses for all that are requested at the time
    await next_round(poll_seconds)                   # all triggers with this period go on at the same moment

A triggerer runs hundreds of triggers in one event loop. The invariants: **a round of triggers is one read, however many wait**; a
trigger that is cancelled takes nothing from the others; and an outage is one line of the log, and not one for each trigger.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Collection, Hashable, Mapping
from contextvars import Context
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from airflow_snowpack.recurring import Recurring

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

log = logging.getLogger(__name__)

SHORTEST_ROUND_S = 0.01


class SharedReads(Generic[K, V]):
    """Reads in a thread, one batch after the other.

    :param read: reads the values of several keys; a value that is an exception is raised where it was requested.
    :param what: what is read, for the log.
    """

    def __init__(self, read: Callable[[frozenset[K]], Mapping[K, V | Exception]], what: str) -> None:
        self._read = read
        self._what = what
        self._requested: dict[K, asyncio.Future[V]] = {}
        self._reading: asyncio.Task[None] | None = None
        self._failing = Recurring(log)

    async def get(self, keys: Collection[K]) -> dict[K, V]:
        """Read the values of these keys, together with all others that are requested by the time that the read begins.

        :raises Exception: what the read raised, or the first of these values that is an exception.
        """
        futures = {key: self._request(key) for key in keys}
        if self._requested and (self._reading is None or self._reading.done()):
            # In a context of its own: what it logs belongs to no single trigger.
            self._reading = asyncio.get_running_loop().create_task(self._read_batches(), context=Context())
        return {key: await asyncio.shield(future) for key, future in futures.items()}

    def _request(self, key: K) -> asyncio.Future[V]:
        if key not in self._requested:
            future = self._requested[key] = asyncio.get_running_loop().create_future()
            future.add_done_callback(_retrieve)
        return self._requested[key]

    async def _read_batches(self) -> None:
        while self._requested:
            await asyncio.sleep(0)  # the triggers that go on in this round have all requested theirs after it
            batch, self._requested = self._requested, {}
            try:
                read = await asyncio.to_thread(self._read, frozenset(batch))
                found = {key: read[key] for key in batch}
            except Exception as problem:  # noqa: BLE001 - it is raised in every trigger that requested something
                self._failing.failed(problem, "Triggers still wait for %s", self._what)
                for future in batch.values():
                    future.set_exception(problem)
            else:
                self._failing.passed()
                for key, future in batch.items():
                    value = found[key]
                    if isinstance(value, Exception):
                        future.set_exception(value)
                    else:
                        future.set_result(value)


def _retrieve(future: asyncio.Future[Any]) -> None:
    """An exception for a trigger that was cancelled meanwhile is no news."""
    if not future.cancelled():
        future.exception()


_shared: WeakValueDictionary[tuple[asyncio.AbstractEventLoop, Hashable], SharedReads[Any, Any]] = WeakValueDictionary()


def shared_reads(key: Hashable, read: Callable[[frozenset[K]], Mapping[K, V | Exception]], what: str) -> SharedReads[K, V]:
    """Return the reads under this key, the same object for all triggers that hold it at a time.

    :param read: see :class:`SharedReads`; used when there is none yet.
    """
    mine = (asyncio.get_running_loop(), key)
    found = _shared.get(mine)
    if found is None:
        found = _shared[mine] = SharedReads(read, what)
    return found


def _begin(begun: asyncio.Future[None]) -> None:
    if not begun.done():
        begun.set_result(None)


async def next_round(period_s: float, at_most_s: float = math.inf) -> None:
    """Sleep until the next round: all triggers of an event loop with the same period wake up at the same moment.

    :param at_most_s: no longer than this.
    """
    loop, period = asyncio.get_running_loop(), max(SHORTEST_ROUND_S, period_s)
    now = loop.time()
    begun: asyncio.Future[None] = loop.create_future()
    timer = loop.call_at(min((now // period + 1) * period, now + at_most_s), _begin, begun)
    try:
        await begun
    finally:
        timer.cancel()
