"""Fires when enough has arrived for a consumer, or when there is no time left to wait.

The event is a nudge: the sensor counts again, and takes what it then sees for considered.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.recurring import Recurring
from airflow_snowpack.triggers.event import event_of
from airflow_snowpack.triggers.settling import Settling
from airflow_snowpack.triggers.shared_catalog import catalog_loader
from airflow_snowpack.triggers.shared_store import shared_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from airflow.triggers.base import TriggerEvent

    from airflow_snowpack.scheduling.consumer import Consumer

log = logging.getLogger(__name__)


class DataArrivalTrigger(BaseTrigger):
    """Counts for a consumer until its trigger is satisfied. What does not answer is asked again, as long as there is time.

    :param awaited: the trigger's JSON.
    :param began_at: since when the sensor waits, as ISO 8601 text; ``until``: how long it may.
    :param poll_seconds: the pause between two looks, in seconds (Airflow keeps a trigger's arguments as JSON).
    """

    def __init__(
        self,
        consumer: str,
        owner: str,
        awaited: dict[str, Any],
        began_at: str,
        until: str,
        store_conn_id: str | None = None,
        catalog_conn_id: str | None = None,
        poll_seconds: float = 10.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's is untyped
        self.consumer = consumer
        self.owner = owner
        self.awaited = awaited
        self.began_at = began_at
        self.until = until
        self.store_conn_id = store_conn_id
        self.catalog_conn_id = catalog_conn_id
        self.poll_seconds = poll_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The trigger as Airflow keeps it."""
        names = ("consumer", "owner", "awaited", "began_at", "until", "store_conn_id", "catalog_conn_id", "poll_seconds")
        return "airflow_snowpack.triggers.data_arrival.DataArrivalTrigger", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event: ``arrived``, or ``over``."""
        from airflow_snowpack.store import utc_now

        until, consumer = datetime.fromisoformat(self.until), None
        await Settling().rest()
        failing = Recurring(log)
        while utc_now() < until:
            try:
                consumer = consumer or await self._open()
                look = await asyncio.to_thread(consumer.look, self.owner)
            except SnowpackError as problem:
                failing.failed(problem, "Still waiting for arrivals")
            else:
                failing.passed()
                if look.satisfied:
                    yield event_of({"why": "arrived", "says": look.judgement.says})
                    return
                log.info("Waiting: %s", look.judgement.says)
            await asyncio.sleep(min(self.poll_seconds, max(0.1, (until - utc_now()).total_seconds())))
        yield event_of({"why": "over"})

    async def _open(self) -> Consumer:
        from airflow_snowpack.hooks.scheduling import KeptCatalog
        from airflow_snowpack.scheduling import parse_trigger
        from airflow_snowpack.scheduling.consumer import Consumer
        from airflow_snowpack.settings import catalog_name

        return Consumer(
            await shared_store(self.store_conn_id),
            self.consumer,
            parse_trigger(self.awaited),
            catalog_name=catalog_name(),
            load_catalog=KeptCatalog(await catalog_loader(self.catalog_conn_id)),
            began_at=datetime.fromisoformat(self.began_at),
        )
