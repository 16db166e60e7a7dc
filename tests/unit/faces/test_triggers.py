"""The triggers, run in an event loop against a real store."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from airflow_snowpack.jobs import Jobs, JobStatus
from airflow_snowpack.store import open_store
from airflow_snowpack.triggers import MaintenanceJobTrigger, TableLockTrigger

if TYPE_CHECKING:
    from pathlib import Path

    from airflow.triggers.base import BaseTrigger

    from airflow_snowpack.iceberg import TableName


async def first_event(trigger: BaseTrigger) -> dict[str, Any]:
    async for event in trigger.run():
        return dict(event.payload)
    raise AssertionError("the trigger ended without an event")


def fired(trigger: BaseTrigger) -> dict[str, Any]:
    return asyncio.run(asyncio.wait_for(first_event(trigger), timeout=30))


@pytest.mark.parametrize(
    "trigger",
    [
        MaintenanceJobTrigger("0123", "store", 2.5),
        TableLockTrigger("demo.flights", "lake", "2026-01-01T00:00:00+00:00", "store", 2.5),
    ],
)
def test_a_trigger_comes_back_as_it_was(trigger: BaseTrigger) -> None:
    path, arguments = trigger.serialize()

    assert path.endswith(type(trigger).__name__)
    assert type(trigger)(**arguments).serialize() == (path, arguments)


def test_the_job_trigger_fires_when_the_job_ends(jobs: Jobs, flights: TableName) -> None:
    job = jobs.submit(flights, ["expire_snapshots"])

    async def end_it_meanwhile() -> dict[str, Any]:
        waiting = asyncio.create_task(first_event(MaintenanceJobTrigger(job.job_id, poll_seconds=0.01)))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await asyncio.to_thread(jobs.cancel, job.job_id)
        return await asyncio.wait_for(waiting, timeout=30)

    assert asyncio.run(end_it_meanwhile()) == {"job_id": job.job_id, "status": JobStatus.CANCELLED.value}


def test_the_job_trigger_tells_of_a_job_that_is_not_there(jobs: Jobs) -> None:
    assert "There is no job '0123'" in fired(MaintenanceJobTrigger("0123"))["problem"]


def test_the_trigger_tells_of_a_connection_that_is_not_there(jobs: Jobs) -> None:
    assert "'nowhere'" in fired(MaintenanceJobTrigger("0123", "nowhere"))["problem"]


def test_the_lock_trigger_fires_at_once_for_a_free_table(jobs: Jobs) -> None:
    assert fired(TableLockTrigger("demo.flights", "lake"))["free"] is True


def test_the_lock_trigger_gives_up_in_time_and_names_the_holder(jobs: Jobs, flights: TableName) -> None:
    jobs.locks.acquire(flights, "etl/nightly", ttl=timedelta(hours=1))
    event = fired(TableLockTrigger("demo.flights", "lake", until=jobs.store.clock().isoformat(), poll_seconds=0.01))

    assert (event["free"], event["holder"]) == (False, "etl/nightly")


def test_a_lock_whose_time_has_run_out_keeps_nobody(jobs: Jobs, flights: TableName) -> None:
    jobs.locks.acquire(flights, "etl/nightly", ttl=timedelta(microseconds=1))

    assert fired(TableLockTrigger("demo.flights", "lake", poll_seconds=0.01))["free"] is True


class Outage:
    """A store with one job that has ended, whose file cannot be opened until the outage ends."""

    def __init__(self, folder: Path, flights: TableName) -> None:
        self._file, self._kept = folder / "far.db", folder / "far.kept"
        with open_store(f"sqlite:///{self._file}") as store:
            jobs = Jobs(store)
            self.job_id = jobs.submit(flights, ["expire_snapshots"]).job_id
            jobs.cancel(self.job_id)
            jobs.close()
        self._file.rename(self._kept)
        self._file.mkdir()

    def end(self) -> None:
        self._file.rmdir()
        self._kept.rename(self._file)


@pytest.fixture
def outage(tmp_path: Path, flights: TableName, monkeypatch: pytest.MonkeyPatch) -> Outage:
    monkeypatch.setenv("AIRFLOW_CONN_FAR", json.dumps({"conn_type": "sqlite", "host": str(tmp_path / "far.db")}))
    return Outage(tmp_path, flights)


@pytest.mark.parametrize("awaited", ["job", "table"])
def test_a_trigger_waits_on_through_an_outage_of_the_store(
    outage: Outage, caplog: pytest.LogCaptureFixture, awaited: str
) -> None:
    async def end_it_after_the_first_looks() -> dict[str, Any]:
        trigger = (
            MaintenanceJobTrigger(outage.job_id, "far", poll_seconds=0.01)
            if awaited == "job"
            else TableLockTrigger("demo.flights", "lake", "9999-01-01T00:00:00+00:00", "far", 0.01)
        )
        waiting = asyncio.create_task(first_event(trigger))
        while not waiting.done() and caplog.text.count("cannot be reached") < 2:
            await asyncio.sleep(0.01)
        assert not waiting.done()
        outage.end()
        return await waiting

    event = asyncio.run(asyncio.wait_for(end_it_after_the_first_looks(), timeout=30))

    assert event.get("status") == "cancelled" if awaited == "job" else event["free"] is True


def test_the_lock_trigger_tells_of_an_outage_that_outlasts_its_time(outage: Outage) -> None:
    event = fired(TableLockTrigger("demo.flights", "lake", "2026-01-01T00:00:00+00:00", "far", 0.01))

    assert event["free"] is False
    assert "cannot be reached" in event["problem"]
