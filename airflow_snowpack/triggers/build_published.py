"""Fires when a dataset serves what somebody waits for.

The event is a nudge: the sensor looks again, and reports what it then sees.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.triggers.event import event_of
from airflow_snowpack.triggers.settling import Settling
from airflow_snowpack.triggers.shared_reads import next_round
from airflow_snowpack.triggers.shared_store import StoreReads

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from airflow.triggers.base import TriggerEvent

log = logging.getLogger(__name__)


class BuildPublishedTrigger(BaseTrigger):
    """Looks at what a dataset serves. A store that does not answer is asked again; how long, the deferral's timeout says.

    :param as_of: data of this moment or later, as ISO 8601 text; ``newer_than``: a publication after this number.
    :param poll_seconds: the pause between two looks, in seconds (Airflow keeps a trigger's arguments as JSON).
    """

    def __init__(
        self,
        dataset: str,
        as_of: str | None = None,
        newer_than: int | None = None,
        store_conn_id: str | None = None,
        poll_seconds: float = 10.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's is untyped
        self.dataset = dataset
        self.as_of = as_of
        self.newer_than = newer_than
        self.store_conn_id = store_conn_id
        self.poll_seconds = poll_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The trigger as Airflow keeps it."""
        names = ("dataset", "as_of", "newer_than", "store_conn_id", "poll_seconds")
        return (
            "airflow_snowpack.triggers.build_published.BuildPublishedTrigger",
            {name: getattr(self, name) for name in names},
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event: the number of the publication, or what kept the trigger from looking."""
        await Settling().rest()
        try:
            yield event_of({"dataset": self.dataset, "publication": await self._met()})
        except SnowpackError as problem:
            yield event_of({"dataset": self.dataset, "problem": str(problem)})

    async def _met(self) -> int:
        from airflow_snowpack.builds.registry.current_build import Awaited, served_builds
        from airflow_snowpack.store import StoreTooSlow, StoreUnreachable

        awaited = Awaited(self.dataset, datetime.fromisoformat(self.as_of) if self.as_of else None, self.newer_than)
        store = StoreReads(self.store_conn_id)
        while True:
            with suppress(StoreUnreachable, StoreTooSlow):  # which is in the log
                served = await store.get(served_builds, self.dataset)
                if served is not None and awaited.is_met(served):
                    return served.publication
                log.info("%s", awaited.unmet(served))
            await next_round(self.poll_seconds)
