"""The part of the scheduler that needs no Airflow, in the triggerer."""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.recurring import Recurring
from airflow_snowpack.triggers.shared_reads import join_broker, shared_store
from airflow_snowpack.triggers.wait_for import DataclassTrigger, Settling, event_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from airflow.triggers.base import TriggerEvent

    from airflow_snowpack.store import Store
    from airflow_snowpack.store.signs_of_life import Role, SignOfLife
    from airflow_snowpack.store.worker import Worker

log = logging.getLogger(__name__)

RETRY_AFTER_S = 5.0


@dataclass(eq=False, repr=False)
class DispatcherTrigger(DataclassTrigger):
    """Records events and counts triggers; fires when a pending run is due, a DAG run can start, or the time is over.

    Cron ticks, events and arrivals in tables need no Airflow and are processed here: a busy table resumes no task before enough
    has arrived. The event is a hint; the store has what is due.

    :param until: when the wait ends, as ISO 8601 text.
    :param look_seconds: the time between two checks, in seconds.
    :param of_dag, of_task: the waiting task, under whose name this process reports a sign of life.
    """

    until: str
    store_conn_id: str | None = None
    catalog_conn_id: str | None = None
    look_seconds: float = 0.5
    of_dag: str = "snowpack_dispatcher"
    of_task: str = "dispatch"

    _sign: SignOfLife | None = field(default=None, init=False)
    _polling: Worker | None = field(default=None, init=False)
    _connections: ExitStack = field(default_factory=ExitStack, init=False)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: ``why="due"``, ``why="over"``, or the ``problem`` that ended the wait."""
        settling = Settling()
        try:
            yield event_of({"why": await self._wait(settling)})
        except SnowpackError as problem:
            await settling.rest()
            yield event_of({"problem": str(problem)})
        finally:
            self._stop_polling()

    async def cleanup(self) -> None:
        self._stop_polling()

    async def _wait(self, settling: Settling) -> str:
        from airflow_snowpack.connections.errors import ConnectionUnreadable
        from airflow_snowpack.store import StoreTooSlow, StoreUnreachable, utc_now

        until = datetime.fromisoformat(self.until)
        problem = Recurring(log)
        while utc_now() < until:
            try:
                store = await shared_store(self.store_conn_id)
                await self._start_polling(store)
                if await asyncio.to_thread(self._process_events, store) and settling.is_over:
                    return "due"
                problem.passed()
                pause = self.look_seconds
            except (ConnectionUnreadable, StoreUnreachable, StoreTooSlow) as outage:
                problem.failed(outage, "Still waiting for the store")
                pause = RETRY_AFTER_S
            await asyncio.sleep(pause)
        await settling.rest()
        return "over"

    async def _start_polling(self, store: Store) -> None:
        from airflow_snowpack.hooks.services import open_poller
        from airflow_snowpack.settings import Settings
        from airflow_snowpack.store.signs_of_life import BEAT, Role

        if self._polling is None:
            broker = await join_broker(self._connections, self.catalog_conn_id)
            sign = self._sign_of(store, Role.POLLER, BEAT)
            self._polling = open_poller(store, Settings.load(), broker).worker(sign)
            self._polling.start()

    def _stop_polling(self) -> None:
        if self._polling is not None:
            self._polling.stop()
            self._polling = None
        self._connections.close()

    def _process_events(self, store: Store) -> bool:
        """Process events once, and return whether anything that needs Airflow is due."""
        from airflow_snowpack.scheduling import EventIntake, ends_are_due, work_is_due
        from airflow_snowpack.store.signs_of_life import BEAT, Role

        if self._sign is None:
            self._sign = self._sign_of(store, Role.SCHEDULER, BEAT)
        EventIntake(store, self._sign).step()
        return work_is_due(store) or ends_are_due(store)

    def _sign_of(self, store: Store, role: Role, period: timedelta) -> SignOfLife:
        from airflow_snowpack.store.signs_of_life import SignOfLife

        return SignOfLife(store, role, f"{self.of_dag}.{self.of_task}", period=period, detail={"dag": self.of_dag})
