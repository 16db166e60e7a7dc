"""The triggers, run in an event loop against a real store."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from bounded import PATIENCE_S
from trigger_rounds import fired, first_event

from airflow_snowpack import hooks, triggers
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs, JobStatus
from airflow_snowpack.scheduling import Gate, GatePlace, GateState, MaxConcurrent, Runs
from airflow_snowpack.scheduling.airflow_port import DagRuns
from airflow_snowpack.store import Store, StoreTooSlow, StoreUnreachable, open_store
from airflow_snowpack.triggers import shared_reads

if TYPE_CHECKING:
    from airflow.triggers.base import BaseTrigger


pytestmark = pytest.mark.usefixtures("settled")
LONG = "9999-01-01T00:00:00+00:00"
LONG_AGO = "2026-01-01T00:00:00+00:00"


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("MaintenanceJobTrigger", ("0123", "store", 2.5)),
        ("TableLockTrigger", ("demo.flights", "lake", "2026-01-01T00:00:00+00:00", "store", 2.5)),
        ("RunConstraintTrigger", ("dag", "run", "gate", LONG, LONG, "store", 2.5)),
        ("BuildPublishedTrigger", ("features", LONG_AGO, 3, "store", 2.5)),
        ("ImageBuildTrigger", ("9f86", "store", 2.5)),
    ],
)
def test_a_trigger_comes_back_as_it_was(kind: str, arguments: tuple[Any, ...]) -> None:
    trigger: BaseTrigger = getattr(triggers, kind)(*arguments)
    path, state = trigger.serialize()

    assert path.endswith(type(trigger).__name__)
    assert type(trigger)(**state).serialize() == (path, state)


def test_a_trigger_waits_for_its_store_also_while_airflow_cannot_read_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_ELSEWHERE", json.dumps({"conn_type": "sqlite", "host": str(tmp_path / "store.db")}))
    reads = shared_reads.StoreReads("elsewhere")

    def away(store: Store, keys: frozenset[str]) -> dict[str, str]:
        raise StoreUnreachable(store.where, OSError("down"))

    def back(store: Store, keys: frozenset[str]) -> dict[str, str]:
        return dict.fromkeys(keys, store.where)

    async def outage() -> str:
        with pytest.raises(StoreUnreachable):
            await reads.get(away, "job")
        monkeypatch.delenv("AIRFLOW_CONN_ELSEWHERE")
        return await reads.get(back, "job")

    assert asyncio.run(outage()) == f"sqlite:///{tmp_path}/store.db"


def ready(jobs: Jobs, flights: TableName) -> dict[str, BaseTrigger]:
    """Triggers that can fire from the beginning, if only because their time is over or they cannot read."""
    job = jobs.submit(flights, ["expire_snapshots"])
    jobs.cancel(job.job_id)
    now, commits = jobs.store.clock().isoformat(), {"commits_added": {"table": "demo.flights", "count": 1}}
    return {
        "job": triggers.MaintenanceJobTrigger(job.job_id),
        "no such job": triggers.MaintenanceJobTrigger("0123"),
        "table": triggers.TableLockTrigger("demo.flights", "lake"),
        "table, in vain": triggers.TableLockTrigger("demo.flights", "lake", now, "nowhere"),
        "arrival": triggers.DataArrivalTrigger("c", "o", {"any_of": [commits, {"every": {"period": "1h"}}]}, LONG_AGO, LONG),
        "arrival, too late": triggers.DataArrivalTrigger("c", "o", {"every": {"period": "1h"}}, now, now),
        "dispatcher, over": triggers.DispatcherTrigger(now),
        "dispatcher, in vain": triggers.DispatcherTrigger(LONG, "nowhere"),
        "gate": triggers.RunConstraintTrigger("dag", "run", "gate", LONG),
        "gate, at its moment": triggers.RunConstraintTrigger("dag", "run", "gate", LONG, now),
        "gate, over": triggers.RunConstraintTrigger("dag", "run", "gate", now),
    }


def test_no_trigger_fires_before_airflow_has_processed_the_deferral(
    jobs: Jobs, flights: TableName, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_snowpack.triggers import wait_for

    async def fire() -> list[dict[str, Any]]:
        processed = asyncio.Event()
        monkeypatch.setattr(wait_for.Settling, "rest", lambda self: processed.wait())
        monkeypatch.setattr(wait_for.Settling, "is_over", property(lambda self: processed.is_set()))
        waiting = [asyncio.create_task(first_event(each), name=name) for name, each in ready(jobs, flights).items()]
        early, _ = await asyncio.wait(waiting, timeout=0.3)
        assert [task.get_name() for task in early] == []
        processed.set()
        return await asyncio.wait_for(asyncio.gather(*waiting), timeout=PATIENCE_S)

    assert all(asyncio.run(fire()))


@pytest.mark.parametrize(("setting", "seconds"), [(None, 10), ("PT30S", 30)])
def test_that_takes_airflow_some_seconds(monkeypatch: pytest.MonkeyPatch, setting: str | None, seconds: float) -> None:
    from airflow_snowpack.triggers import wait_for

    monkeypatch.undo()
    if setting is not None:
        monkeypatch.setenv("AIRFLOW__SNOWPACK__RESUME_DELAY", setting)
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    with monkeypatch.context() as clock:
        clock.setattr(wait_for, "time", SimpleNamespace(monotonic=lambda: 1000.0))
        clock.setattr(wait_for, "asyncio", SimpleNamespace(sleep=sleep))
        begun = wait_for.Settling()
        assert not begun.is_over
        asyncio.run(begun.rest())
    assert slept == [seconds]


class NobodyElse:
    """An Airflow in which no run is active that the store does not know."""

    def dag_runs(self, known: Any) -> dict[str, DagRuns]:
        return {dag_id: DagRuns() for dag_id in known}

    def active_among(self, dag_id: str, run_ids: frozenset[str]) -> int:
        return 0

    def free_slots(self, pools: Any) -> dict[str, None]:
        return dict.fromkeys(pools)


def at_gate(run_id: str, *constraints: Any) -> tuple[Gate, GatePlace]:
    place = GatePlace("dag", run_id, "gate")
    return Gate(hooks.SnowpackHook().store(), NobodyElse(), place, constraints), place  # type: ignore[arg-type]  # as far as gates ask


def test_the_gates_trigger_calls_a_run_when_the_place_that_it_waits_for_becomes_free(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_snowpack.triggers import waits

    monkeypatch.setattr(waits, "CALL_CHECK_S", 0.05)
    for name in ("first", "second"):
        state = at_gate(name, MaxConcurrent(1))[0].ask().state
    assert state is GateState.WAITING
    trigger = triggers.RunConstraintTrigger("dag", "second", "gate", LONG, recheck_seconds=3600.0)

    end_the_first = partial(Runs(jobs.store).ended, "dag", "first", "success", jobs.store.clock())
    assert fired(trigger, end_the_first) == {"why": "called"}


def test_the_gates_trigger_looks_at_nothing_before_the_moment_that_was_named(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: Any) -> None:
        raise AssertionError("it looked")

    monkeypatch.setattr(shared_reads.StoreReads, "get", never)
    trigger = triggers.RunConstraintTrigger("dag", "run", "gate", LONG, LONG)

    async def wait() -> bool:
        waiting = asyncio.create_task(first_event(trigger))
        done, _ = await asyncio.wait([waiting], timeout=0.3)
        waiting.cancel()
        return not done

    assert asyncio.run(wait())


def test_the_job_trigger_fires_when_the_job_ends(jobs: Jobs, flights: TableName) -> None:
    job = jobs.submit(flights, ["expire_snapshots"])
    trigger = triggers.MaintenanceJobTrigger(job.job_id, poll_seconds=0.01)

    assert fired(trigger, lambda: jobs.cancel(job.job_id)) == {"job_id": job.job_id, "status": JobStatus.CANCELLED.value}


def test_the_job_trigger_reports_a_missing_job_or_connection_and_the_lock_trigger_fires_for_a_free_table(jobs: Jobs) -> None:
    assert "Job '0123' does not exist" in fired(triggers.MaintenanceJobTrigger("0123"))["problem"]

    assert "'nowhere'" in fired(triggers.MaintenanceJobTrigger("0123", "nowhere"))["problem"]

    assert fired(triggers.TableLockTrigger("demo.flights", "lake"))["free"] is True


def test_the_lock_trigger_gives_up_in_time_and_names_the_holder(jobs: Jobs, flights: TableName) -> None:
    jobs.locks.acquire(flights, "etl/nightly", ttl=timedelta(hours=1))
    event = fired(
        triggers.TableLockTrigger(
            "demo.flights", "lake", jobs.store.clock().isoformat(), poll_seconds=0.01, catalog_id=flights.catalog_id
        )
    )

    assert (event["free"], event["holder"]) == (False, "etl/nightly")


def test_an_expired_lock_blocks_no_one(jobs: Jobs, flights: TableName) -> None:
    jobs.locks.acquire(flights, "etl/nightly", ttl=timedelta(microseconds=1))

    assert (
        fired(triggers.TableLockTrigger("demo.flights", "lake", poll_seconds=0.01, catalog_id=flights.catalog_id))["free"] is True
    )


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
        self._file.symlink_to(folder)

    def end(self) -> None:
        # In one step: a trigger that reads while there is no file would create an empty store.
        back = self._file.with_suffix(".back")
        back.symlink_to(self._kept)
        back.replace(self._file)


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
            triggers.MaintenanceJobTrigger(outage.job_id, "far", poll_seconds=0.01)
            if awaited == "job"
            else triggers.TableLockTrigger("demo.flights", "lake", "9999-01-01T00:00:00+00:00", "far", 0.01)
        )
        waiting = asyncio.create_task(first_event(trigger))
        while not waiting.done() and "cannot be reached" not in caplog.text:
            await asyncio.sleep(0.01)
        assert not waiting.done()
        outage.end()
        return await waiting

    event = asyncio.run(asyncio.wait_for(end_it_after_the_first_looks(), timeout=PATIENCE_S))

    assert event.get("status") == "cancelled" if awaited == "job" else event["free"] is True


def test_the_lock_trigger_reports_an_outage_that_outlasts_its_time(outage: Outage) -> None:
    event = fired(triggers.TableLockTrigger("demo.flights", "lake", "2026-01-01T00:00:00+00:00", "far", 0.01))

    assert "cannot be reached" in event["problem"]


@pytest.mark.parametrize("awaited", ["job", "table"])
def test_a_trigger_waits_on_when_the_store_was_too_slow_once(
    jobs: Jobs, flights: TableName, monkeypatch: pytest.MonkeyPatch, awaited: str
) -> None:
    """As with a ``statement_timeout`` of the database's own, while it is overloaded."""
    from airflow_snowpack.triggers import waits

    job_id = jobs.submit(flights, ["expire_snapshots"]).job_id
    jobs.cancel(job_id)
    name = "_read_statuses" if awaited == "job" else "_read_locks"
    really, errors = getattr(waits, name), iter([StoreTooSlow("localhost")])

    def read(store: Store, keys: Any) -> Any:
        for error in errors:
            raise error
        return really(store, keys)

    monkeypatch.setattr(waits, name, read)
    if awaited == "job":
        assert fired(triggers.MaintenanceJobTrigger(job_id, poll_seconds=0.01))["status"] == "cancelled"
    else:
        assert fired(triggers.TableLockTrigger("demo.flights", "lake", poll_seconds=0.01))["free"] is True
    assert list(errors) == []
