"""Threads that work on one database at the same time, each with a store of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from bounded import PATIENCE_S

from airflow_snowpack.store import Store, open_store, utc_now


class Crew:
    """Threads that each go round with a store of their own until told to stop; what one raises, the test raises."""

    def __init__(self, url: str, clock: Callable[[], Any] = utc_now) -> None:
        self._url, self._clock = url, clock
        self._stop, self._stores = threading.Event(), []
        self._pool, self._hired = ThreadPoolExecutor(32), []
        self.deadlocks = 0

    def store(self) -> Store:
        store = open_store(self._url, clock=self._clock)
        sa.event.listen(store.engine, "handle_error", self._count)
        self._stores.append(store)
        return store

    def _count(self, context: Any) -> None:
        self.deadlocks += getattr(context.original_exception, "sqlstate", None) == "40P01"

    def hire(self, step: Callable[[], object], *, pause: float = 0.001) -> None:
        def rounds() -> None:
            while not self._stop.is_set():
                step()
                time.sleep(pause)

        self._hired.append(self._pool.submit(rounds))

    def together(self, *steps: Callable[[], object]) -> list[Any]:
        """Each step once, all of them let go at the same moment."""
        gate = threading.Barrier(len(steps))

        def once(step: Callable[[], object]) -> object:
            gate.wait(PATIENCE_S)
            return step()

        return [future.result() for future in [self._pool.submit(once, step) for step in steps]]

    def dismiss(self) -> None:
        self._stop.set()
        self._pool.shutdown()
        for store in self._stores:
            store.close()
        for future in self._hired:
            future.result()


@contextmanager
def crew_of(url: str, clock: Callable[[], Any] = utc_now) -> Iterator[Crew]:
    crew = Crew(url, clock)
    try:
        yield crew
    finally:
        crew.dismiss()
    assert crew.deadlocks == 0, "nobody waits in a circle"
