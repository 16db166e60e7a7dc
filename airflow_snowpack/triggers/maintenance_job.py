"""Fires when a maintenance job has ended, however it ended.

The event says only that it is time to look: whoever was waiting reads the job itself from the store.
"""

from __future__ import annotations

from contextlib import suppress
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

    from airflow_snowpack.jobs import JobNotFound, JobStatus
    from airflow_snowpack.store import Store


class MaintenanceJobTrigger(BaseTrigger):
    """Looks at a job until it is completed, failed or cancelled.

    A store that does not answer is looked at again; how long, the timeout of the deferral says.

    :param poll_seconds: the pause between two looks, in seconds (Airflow keeps a trigger's arguments as JSON).
    """

    def __init__(self, job_id: str, store_conn_id: str | None = None, poll_seconds: float = 10.0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's is untyped
        self.job_id = job_id
        self.store_conn_id = store_conn_id
        self.poll_seconds = poll_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The trigger as Airflow keeps it."""
        arguments = {"job_id": self.job_id, "store_conn_id": self.store_conn_id, "poll_seconds": self.poll_seconds}
        return "airflow_snowpack.triggers.maintenance_job.MaintenanceJobTrigger", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event: the job's id and status, or what kept the trigger from looking."""
        await Settling().rest()
        try:
            yield event_of({"job_id": self.job_id, "status": await self._ended()})
        except SnowpackError as problem:
            yield event_of({"job_id": self.job_id, "problem": str(problem)})

    async def _ended(self) -> str:
        from airflow_snowpack.store import StoreTooSlow, StoreUnreachable

        store = StoreReads(self.store_conn_id)
        while True:
            with suppress(StoreUnreachable, StoreTooSlow):  # which is in the log
                status = await store.get(_read_statuses, self.job_id)
                if status.is_terminal:
                    return status.value
            await next_round(self.poll_seconds)


def _read_statuses(store: Store, job_ids: frozenset[str]) -> dict[str, JobStatus | JobNotFound]:
    from airflow_snowpack.jobs.reading import JobReader

    return JobReader(store).statuses(job_ids)
