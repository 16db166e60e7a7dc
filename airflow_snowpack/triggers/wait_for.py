"""Wait in the triggerer until a question has an answer. A subclass supplies only the question.

    @dataclass(eq=False, repr=False)
    class MaintenanceJobTrigger(WaitFor):
        job_id: str
        store_conn_id: str | None = None
        poll_seconds: float = 10.0

        async def ask(self):
            status = await self.store.get(read_statuses, self.job_id)      # one statement for all triggers that wait for jobs
            return {"status": status.value} if status.is_terminal else None

The event is a hint: the resumed task reads the state itself, and waits again if another process was faster.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from contextlib import ExitStack
from dataclasses import fields
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.recurring import Recurring
from airflow_snowpack.settings import resume_delay
from airflow_snowpack.triggers.shared_reads import StoreReads, next_round

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    Answer = dict[str, Any]

log = logging.getLogger(__name__)

OVER = {"why": "over"}
SHORTEST_WAIT_S = 0.1


class DataclassTrigger(BaseTrigger):
    """Base of triggers that are dataclasses. Airflow stores the fields as JSON and recreates the trigger from them."""

    def __post_init__(self) -> None:
        """Initialize Airflow's part of the trigger."""
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's is untyped

    def serialize(self) -> tuple[str, dict[str, Any]]:
        kind: Any = type(self)
        return f"{kind.__module__}.{kind.__name__}", {each.name: getattr(self, each.name) for each in fields(kind) if each.init}


class WaitFor(DataclassTrigger):
    """Base of the triggers that fire once: when ``ask`` has an answer, or after the timeout.

    While the store, the catalog or Airflow does not answer, the trigger waits.

    :cvar ends_on_errors: whether any other error ends the wait; ``False`` logs it and asks again.
    :ivar store_conn_id: the Airflow connection of the store; ``None`` for the installation's.
    :ivar poll_seconds: the time between two questions, in seconds.
    :ivar until: when the wait ends, as ISO 8601 text; ``None``: Airflow's own timeout ends it.
    :ivar connections: closed when the wait ends.
    """

    ends_on_errors: ClassVar[bool] = True
    store_conn_id: str | None
    poll_seconds: float
    until: str | None = None
    connections: ExitStack

    async def ask(self) -> Answer | None:
        """Return the payload of the event, or ``None`` to ask again in the next round."""
        raise NotImplementedError

    def over(self) -> Answer:
        """Return the payload of the event after the timeout."""
        return OVER

    @cached_property
    def store(self) -> StoreReads:
        """The store, read together with the other triggers of the process."""
        return StoreReads(self.store_conn_id)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: the answer, ``why="over"``, or the ``problem`` that ended the wait."""
        await Settling().rest()
        with ExitStack() as self.connections:
            answer = await self._answer()
        yield event_of(answer)

    def remaining_s(self) -> float:
        """Return how long the trigger may still wait."""
        from airflow_snowpack.store import utc_now

        return math.inf if self.until is None else (datetime.fromisoformat(self.until) - utc_now()).total_seconds()

    async def _answer(self) -> Answer:
        from airflow_snowpack.connections.errors import ConnectionUnreadable
        from airflow_snowpack.iceberg import CatalogUnreachable
        from airflow_snowpack.store import StoreTooSlow, StoreUnreachable

        failing = Recurring(log)
        while True:
            outage = None
            try:
                if (answer := await self.ask()) is not None:
                    return answer
                failing.passed()
            except (CatalogUnreachable, ConnectionUnreadable, StoreTooSlow, StoreUnreachable) as problem:
                outage = problem  # logged once for all triggers
            except (SnowpackError, TimeoutError) as problem:
                if self.ends_on_errors:
                    return {"problem": str(problem)}
                failing.failed(problem, "%s still waits", type(self).__name__)
            if (remaining := self.remaining_s()) <= 0:
                return {"problem": str(outage)} if outage is not None and self.ends_on_errors else self.over()
            await next_round(self.poll_seconds, max(SHORTEST_WAIT_S, remaining))


class Settling:
    """The first seconds of a trigger, ``[snowpack] resume_delay``, in which it must not fire.

    Airflow processes a deferral some seconds after the task has left its worker (six were seen), and fails a task that was
    resumed before: it takes the deferral for the end of whatever runs under the task's name by then. See ``docs/decisions/0010``.
    """

    def __init__(self) -> None:
        self._over_at = time.monotonic() + resume_delay().total_seconds()

    @property
    def is_over(self) -> bool:
        """Return whether the trigger may fire."""
        return time.monotonic() >= self._over_at

    async def rest(self) -> None:
        """Wait until the trigger may fire."""
        await asyncio.sleep(max(0.0, self._over_at - time.monotonic()))


def event_of(payload: dict[str, Any]) -> TriggerEvent:
    """Return an event with this payload, which Airflow stores as JSON."""
    return TriggerEvent(payload)  # type: ignore[no-untyped-call]  # Airflow's is untyped
