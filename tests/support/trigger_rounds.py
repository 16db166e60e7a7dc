"""Triggers that wait for their next round until a test begins it, and the connections that they hold meanwhile.

rounds = TriggerRounds()
await rounds.over(500)      # all 500 triggers wait
await rounds.run(500)       # they ask once more, and wait again
assert connections(url) == 1
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import psycopg
from airflow_since import sent
from bounded import PATIENCE_S
from sqlalchemy.engine import make_url

if TYPE_CHECKING:
    from airflow.triggers.base import BaseTrigger

Tasks = list[asyncio.Task[dict[str, Any]]]


class TriggerRounds:
    """The rounds of the triggers, which a test begins."""

    def __init__(self) -> None:
        self._begins, self._parked = asyncio.Event(), 0

    async def next_round(self, _period_s: float, _at_most_s: float = 0) -> None:
        begins = self._begins
        self._parked += 1
        await begins.wait()

    async def over(self, waiters: int) -> None:
        """Wait until so many triggers wait for the next round."""
        while self._parked < waiters:
            await asyncio.sleep(0.01)

    async def run(self, waiters: int) -> None:
        begins, self._begins, self._parked = self._begins, asyncio.Event(), 0
        begins.set()
        await self.over(waiters)


def as_connection(url: str) -> str:
    """A database as an Airflow connection."""
    place = make_url(url)
    login = {"login": place.username, "password": place.password, "host": place.host, "port": place.port}
    return json.dumps({"conn_type": "postgres", "schema": place.database, **login})


def connections(url: str) -> int:
    """How many connections other than this one a database has."""
    place = make_url(url)
    with psycopg.connect(place.set(drivername="postgresql").render_as_string(hide_password=False)) as conn:
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        (number,) = conn.execute(query).fetchone() or (0,)
    return int(number)


def trigger_of(message: Any) -> Any:
    """Return the trigger that a task has deferred with, created from the task's message as the triggerer does."""
    module, _, name = message.classpath.rpartition(".")
    return getattr(importlib.import_module(module), name)(**sent(message.trigger_kwargs))


async def first_event(trigger: BaseTrigger) -> dict[str, Any]:
    async for event in trigger.run():
        return dict(event.payload)
    raise AssertionError("the trigger ended without an event")


def fired(trigger: BaseTrigger, meanwhile: Callable[[], object] | None = None) -> dict[str, Any]:
    """Return the first event of a trigger, which waits until ``meanwhile`` has happened."""

    async def wait() -> dict[str, Any]:
        waiting = asyncio.create_task(first_event(trigger))
        if meanwhile is not None:
            await asyncio.sleep(0.05)
            assert not waiting.done()
            await asyncio.to_thread(meanwhile)
        return await asyncio.wait_for(waiting, timeout=PATIENCE_S)

    return asyncio.run(wait())


def while_waiting(
    rounds: TriggerRounds, waiters: Sequence[BaseTrigger], act: Callable[[Tasks], Awaitable[None]], parked: int | None = None
) -> None:
    """Run triggers in one event loop until all, or so many, wait after their first look, and then what a test does meanwhile."""

    async def run() -> None:
        tasks = [asyncio.create_task(first_event(each)) for each in waiters]
        try:
            await rounds.over(len(waiters) if parked is None else parked)
            await act(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(asyncio.wait_for(run(), timeout=PATIENCE_S))
