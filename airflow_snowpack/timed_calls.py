"""Calls of code that may hang, such as a storage or code of the installation: each has a time limit, and none delays the others.

    reads = TimedCalls(limit=timedelta(seconds=30))
    for name, result in reads.run({name: partial(read, name) for name in names}):    # each as soon as it returns
        ...

A call cannot be ended from outside. One that exceeds its limit stays behind in its thread, and :meth:`TimedCalls.run` returns
:class:`NoAnswer` for its key at once until its back-off is over. The invariants: **a call that hangs delays no other result**, it
takes no place from calls that are still to begin, and the number of hanging threads is bounded.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from airflow_snowpack.backoff import backoff
from airflow_snowpack.errors import Kind, SnowpackError, error_text
from airflow_snowpack.humanize import duration

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

CONCURRENT_CALLS = 8
SLOW_AFTER_S = 1.0
"""A call that takes longer leaves its place to the next one."""
MAX_HANGING = 256
"""How many slow calls may leave their place, and how many calls may hang before none is tried again."""
FIRST_PAUSE, LONGEST_PAUSE = timedelta(minutes=1), timedelta(hours=1)
FORGET_AFTER_S = 3600.0
"""How long a result is kept that no request has received."""


class NoAnswer(SnowpackError, kind=Kind.UNAVAILABLE):
    """No answer in time.

    :param retry_after: the pause before the next attempt; ``None`` where the caller decides it.
    """

    def __init__(self, what: str, limit: timedelta, retry_after: timedelta | None = None) -> None:
        then = "Check the address and the network."
        if retry_after is not None:
            then = f"It is set aside, and tried again after {duration(retry_after)}."
        super().__init__(f"{what} did not answer within {duration(limit)}. {then}")


def call_with_timeout(call: Callable[[], V], what: str, timeout: timedelta, monotonic: Callable[[], float] = time.monotonic) -> V:
    """Make one call; on a time-out, leave it behind in a daemon thread.

    :param what: names the called service in messages.
    :raises NoAnswer: the call took longer than the time-out.
    """
    ((_, result),) = TimedCalls[str, V](limit=timeout, monotonic=monotonic).run({what: call})
    if isinstance(result, NoAnswer):
        raise NoAnswer(what, timeout)
    if isinstance(result, Exception):
        raise result
    return result


@dataclass(eq=False)
class _Call(Generic[V]):
    """One call, from its request until its result is received.

    :param hangs: how many attempts in a row exceeded the limit, including this one.
    :param aside_until: when its key may be called again although this call has not returned; ``None`` within the limit.
    """

    call: Callable[[], V]
    hangs: int = 0
    began: float | None = None
    returned: float | None = None
    aside_until: float | None = None
    results: list[V | Exception] = field(default_factory=list)

    def run(self, monotonic: Callable[[], float]) -> None:
        try:
            result: V | Exception = self.call()
        except Exception as problem:  # noqa: BLE001 - it is the result of this call alone
            result = problem
        except BaseException as problem:  # noqa: BLE001 - such as SystemExit: it ends the call, and not the process
            result = RuntimeError(f"{type(problem).__name__}: {error_text(problem)}")
        self.results.append(result)
        self.returned = monotonic()

    def took(self, now: float) -> float:
        """Return how long it has been running, or ran."""
        return 0.0 if self.began is None else (now if self.returned is None else self.returned) - self.began


class TimedCalls(Generic[K, V]):
    """Makes calls with a time limit, and remembers by key which of them hang. Threads may share it.

    :param what: returns the name of a key for messages.
    :param limit: how long a call may take.
    :param concurrent: how many calls run at a time; slow ones do not count.
    :param keeps_late: whether the next request for its key gets a result that came after the limit; otherwise the call is
        repeated.
    :param monotonic: seconds.
    """

    def __init__(
        self,
        what: Callable[[K], str] = str,
        *,
        limit: timedelta,
        concurrent: int = CONCURRENT_CALLS,
        keeps_late: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what = what
        self._limit = limit
        self._concurrent = concurrent
        self._keeps_late = keeps_late
        self._monotonic = monotonic
        self._calls: dict[K, _Call[V]] = {}
        self._left_behind: list[_Call[V]] = []
        """Calls that have not returned although their keys were called again."""

    def run(self, calls: Mapping[K, Callable[[], V]], *, patience: timedelta | None = None) -> Iterator[tuple[K, V | Exception]]:
        """Make all calls, and yield each result as soon as it arrives.

        The retry of a call that hung is not awaited: a later request for the key receives its result.

        :param patience: how long to wait for all calls that begin now; the rest are left out, and those that have begun continue
            for a later request. ``None``: wait for each up to its limit.
        :returns: the keys with what the calls returned or raised, or with :class:`NoAnswer`.
        """
        now = self._monotonic()
        end = math.inf if patience is None else now + patience.total_seconds()
        ready, earlier, fresh = self._sorted(calls, now)
        waited_for = fresh if patience is not None else earlier | fresh
        batch = _Batch(fresh, self._concurrent, self._monotonic)
        try:
            batch.start_threads()
            yield from ready
            yield from self._results(waited_for, batch, end)
        finally:
            for key in batch.drop():
                self._calls.pop(key, None)

    def _sorted(
        self, calls: Mapping[K, Callable[[], V]], now: float
    ) -> tuple[list[tuple[K, V | Exception]], dict[K, _Call[V]], dict[K, _Call[V]]]:
        """Return the results known at once, the calls of earlier requests that have not returned, and the calls to begin now."""
        self._forget(now)
        ready: list[tuple[K, V | Exception]] = []
        earlier, fresh = dict[K, _Call[V]](), dict[K, _Call[V]]()
        hanging = len(self._left_behind) + sum(call.aside_until is not None for call in list(self._calls.values()))
        for key, call in calls.items():
            known = self._calls.get(key)
            if known is not None and known.returned is not None:
                del self._calls[key]
                if self._keeps_late or known.took(now) <= self._limit.total_seconds():
                    ready.append((key, known.results[0]))
                    continue
                known = None
            if known is None:
                fresh[key] = self._calls[key] = _Call(call)
            elif known.aside_until is None and known.took(now) < self._limit.total_seconds():
                earlier[key] = known
            else:
                if known.aside_until is not None and now >= known.aside_until and hanging < MAX_HANGING:
                    hanging += 1
                    self._left_behind.append(known)
                    known = self._retry(key, call, known.hangs)
                ready.append((key, self._set_aside(known, key, now)))
        return ready, earlier, fresh

    def _results(self, waited_for: dict[K, _Call[V]], batch: _Batch[K, V], end: float) -> Iterator[tuple[K, V | Exception]]:
        checked_at = self._monotonic()
        while waited_for:
            now = self._monotonic()
            key = batch.next_returned(max(0.0, min(self._limit.total_seconds(), end - now, SLOW_AFTER_S)))
            if key in waited_for:
                yield key, self._receive(key, waited_for.pop(key))
            now = self._monotonic()
            if key is None or now - checked_at >= SLOW_AFTER_S:  # not after each of a thousand results
                checked_at = now
                yield from self._returned_or_overdue(waited_for, now)
                batch.start_threads()
            if now >= end:
                return

    def _returned_or_overdue(self, waited_for: dict[K, _Call[V]], now: float) -> Iterator[tuple[K, V | Exception]]:
        for key, call in list(waited_for.items()):
            if call.returned is not None:  # begun by another request
                yield key, self._receive(key, waited_for.pop(key))
            elif call.took(now) >= self._limit.total_seconds():
                yield key, self._set_aside(waited_for.pop(key), key, now)

    def _receive(self, key: K, call: _Call[V]) -> V | Exception:
        if self._calls.get(key) is call:
            del self._calls[key]
        return call.results[0]

    def _set_aside(self, call: _Call[V], key: K, now: float) -> NoAnswer:
        if call.aside_until is None:
            call.hangs += 1
            call.aside_until = now + pause_after(call.hangs).total_seconds()
        return NoAnswer(self._what(key), self._limit, pause_after(call.hangs))

    def _retry(self, key: K, call: Callable[[], V], hangs: int) -> _Call[V]:
        """Call again in a separate thread, which takes no place from other calls."""
        retried = self._calls[key] = _Call(call, hangs)
        retried.began = self._monotonic()
        threading.Thread(target=retried.run, args=(self._monotonic,), name="snowpack-retried-call", daemon=True).start()
        return retried

    def _forget(self, now: float) -> None:
        self._left_behind = [call for call in self._left_behind if call.returned is None]
        for key, call in list(self._calls.items()):
            if call.returned is not None and now - call.returned > FORGET_AFTER_S:
                self._calls.pop(key, None)


def pause_after(hangs: int) -> timedelta:
    """Return the pause before the next attempt, after this many attempts in a row exceeded the limit."""
    return backoff(FIRST_PAUSE, hangs - 1, LONGEST_PAUSE)


class _Batch(Generic[K, V]):
    """The calls that begin with one request, and their threads: daemons, which do not keep the process alive."""

    def __init__(self, calls: Mapping[K, _Call[V]], concurrent: int, monotonic: Callable[[], float]) -> None:
        self._left = deque(calls.items())
        self._concurrent = concurrent
        self._monotonic = monotonic
        self._begun: list[_Call[V]] = []
        self._threads = 0
        self._returned: SimpleQueue[K] = SimpleQueue()
        self._guard = threading.Lock()

    def start_threads(self) -> None:
        """Begin as many calls as may run at a time, and one for each slow one."""
        with self._guard:
            now = self._monotonic()
            slow = sum(call.returned is None and call.took(now) >= SLOW_AFTER_S for call in self._begun)
            allowed = self._concurrent + min(slow, MAX_HANGING)
            first = [call for _ in range(allowed - self._threads) if (call := self._next()) is not None]
            self._threads += len(first)
        for call in first:
            threading.Thread(target=self._work, args=call, name="snowpack-timed-call", daemon=True).start()

    def next_returned(self, timeout_s: float) -> K | None:
        """Return the key of the next call that returned; ``None`` after the time-out."""
        try:
            return self._returned.get(timeout=timeout_s)
        except Empty:
            return None

    def drop(self) -> list[K]:
        """Begin no more calls; return the keys of those that have not begun."""
        with self._guard:
            dropped = [key for key, _ in self._left]
            self._left.clear()
        return dropped

    def _next(self) -> tuple[K, _Call[V]] | None:
        if not self._left:
            return None
        key, call = self._left.popleft()
        call.began = self._monotonic()
        self._begun.append(call)
        return key, call

    def _work(self, key: K, call: _Call[V]) -> None:
        while True:
            call.run(self._monotonic)
            self._returned.put(key)
            with self._guard:
                following = self._next()
                if following is None:
                    self._threads -= 1
                    return
            key, call = following
