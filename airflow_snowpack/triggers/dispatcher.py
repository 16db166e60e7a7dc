"""Does for schedules what needs no Airflow, and fires when there is something that does.

Ticks, events and arrivals in tables are taken in here, in the triggerer, and triggers are counted: a busy table wakes no task
before enough has arrived. The event that it leaves is a nudge; what there is to do stands in the store.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.recurring import Recurring
from airflow_snowpack.triggers.shared_reads import join_broker, shared_store
from airflow_snowpack.triggers.wait_for import Settling, event_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from airflow.triggers.base import TriggerEvent

    from airflow_snowpack.store import Store
    from airflow_snowpack.store.signs_of_life import Role, SignOfLife
    from airflow_snowpack.store.worker import Worker

log = logging.getLogger(__name__)

AFTER_A_FAILURE_S = 5.0


class DispatcherTrigger(BaseTrigger):
    """Fires when a pending job is to be checked or a DAG run to be started, or when its time is over.

    :param until: no longer than this, as ISO 8601 text.
    :param look_seconds: the pause between two looks, in seconds (Airflow keeps a trigger's arguments as JSON).
    :param of_dag: the DAG of the task that waits, in whose name it leaves a sign of life; likewise ``of_task``.
    """

    def __init__(
        self,
        until: str,
        store_conn_id: str | None = None,
        catalog_conn_id: str | None = None,
        look_seconds: float = 0.5,
        of_dag: str = "snowpack_dispatcher",
        of_task: str = "dispatch",
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's is untyped
        self.until = until
        self.store_conn_id = store_conn_id
        self.catalog_conn_id = catalog_conn_id
        self.look_seconds = look_seconds
        self.of_dag = of_dag
        self.of_task = of_task
        self._sign: SignOfLife | None = None
        self._polling: Worker | None = None
        self._joined = ExitStack()

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The trigger as Airflow keeps it."""
        arguments = {
            "until": self.until,
            "store_conn_id": self.store_conn_id,
            "catalog_conn_id": self.catalog_conn_id,
            "look_seconds": self.look_seconds,
            "of_dag": self.of_dag,
            "of_task": self.of_task,
        }
        return "airflow_snowpack.triggers.dispatcher.DispatcherTrigger", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event: ``due``, ``over``, or what kept the trigger from looking."""
        settling = Settling()
        try:
            yield event_of({"why": await self._wait(settling)})
        except SnowpackError as problem:
            await settling.rest()
            yield event_of({"problem": str(problem)})
        finally:
            self._stop_polling()

    async def cleanup(self) -> None:
        """The triggerer lets go of the trigger, whatever the reason."""
        self._stop_polling()

    async def _wait(self, settling: Settling) -> str:
        from airflow_snowpack.store import StoreTooSlow, StoreUnreachable, utc_now

        until = datetime.fromisoformat(self.until)
        problem = Recurring(log)
        while utc_now() < until:
            try:
                store = await shared_store(self.store_conn_id)
                await self._start_polling(store)
                if await asyncio.to_thread(self._take_in, store) and settling.is_over:
                    return "due"
                problem.passed()
                pause = self.look_seconds
            except (StoreUnreachable, StoreTooSlow) as outage:
                problem.failed(outage, "Still waiting for the store")
                pause = AFTER_A_FAILURE_S
            await asyncio.sleep(pause)
        await settling.rest()
        return "over"

    async def _start_polling(self, store: Store) -> None:
        from airflow_snowpack.hooks.scheduling import open_poller
        from airflow_snowpack.scheduling import POLLER_PERIOD
        from airflow_snowpack.settings import Settings
        from airflow_snowpack.store.signs_of_life import Role

        if self._polling is None:
            broker = await join_broker(self._joined, self.catalog_conn_id)
            sign = self._sign_of(store, Role.POLLER, POLLER_PERIOD)
            self._polling = open_poller(store, Settings.load(), broker).worker(sign)
            self._polling.start()

    def _stop_polling(self) -> None:
        if self._polling is not None:
            self._polling.stop()
            self._polling = None
        self._joined.close()

    def _take_in(self, store: Store) -> bool:
        """One round of what needs no Airflow; whether something is due that does."""
        from airflow_snowpack.scheduling import Intake, ends_are_due, work_is_due
        from airflow_snowpack.store.signs_of_life import BEAT, Role

        if self._sign is None:
            self._sign = self._sign_of(store, Role.SCHEDULER, BEAT)
        Intake(store, self._sign).step()
        return work_is_due(store) or ends_are_due(store)

    def _sign_of(self, store: Store, role: Role, period: timedelta) -> SignOfLife:
        from airflow_snowpack.store.signs_of_life import SignOfLife

        return SignOfLife(store, role, f"{self.of_dag}.{self.of_task}", period=period, detail={"dag": self.of_dag})
