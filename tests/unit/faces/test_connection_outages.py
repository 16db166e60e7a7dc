"""Airflow connections that cannot be read for a while, and those that do not exist: Airflow reports both as not found."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow_since import VERSION, since_airflow
from trigger_rounds import TriggerRounds, fired, first_event

from airflow_snowpack import hooks, triggers
from airflow_snowpack.connections.errors import ConnectionNotFound, ConnectionUnreadable
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs, JobStatus

if TYPE_CHECKING:
    from airflow.triggers.base import BaseTrigger

LONG = "9999-01-01T00:00:00+00:00"


class Supervisor:
    """Answers requests for the connection ``far``, and for no other.

    :ivar failures: how many requests fail before that; the name of an error type is the answer to all.
    :ivar asked: how many requests there were.
    """

    def __init__(self, host: Path) -> None:
        self._host = host
        self.failures: int | str = 0
        self.asked = 0

    def send(self, message: Any) -> Any:
        from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
        from airflow.sdk.execution_time.comms import ConnectionResult, ErrorResponse

        if type(message).__name__ != "GetConnection":
            return None  # such as a request to mask a secret
        self.asked += 1
        if self.failures == "PERMISSION_DENIED" and VERSION < (3, 2):
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail={"status_code": 403}))
        if isinstance(self.failures, str):
            return ErrorResponse(error=ErrorType[self.failures])
        if self.failures:
            self.failures -= 1
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail={"status_code": 503}))
        if message.conn_id != "far":
            return ErrorResponse(error=ErrorType.CONNECTION_NOT_FOUND)
        absent = dict.fromkeys(("login", "password", "schema", "port", "extra"))
        return ConnectionResult(conn_id="far", conn_type="sqlite", host=str(self._host), **absent)


@pytest.fixture
def supervisor(jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    """The store of the installation is that of the connection ``far``."""
    from airflow.sdk.execution_time import task_runner

    monkeypatch.setenv("AIRFLOW__SNOWPACK__RESUME_DELAY", "PT0.001S")
    supervisor = Supervisor(tmp_path / "snowpack.db")
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", supervisor, raising=False)
    return supervisor


@pytest.fixture
def ended(jobs: Jobs, flights: TableName) -> str:
    job_id = jobs.submit(flights, ["expire_snapshots"]).job_id
    jobs.cancel(job_id)
    return job_id


@pytest.mark.parametrize("awaited", ["job", "table"])
def test_a_wait_goes_on_when_airflow_does_not_answer_the_first_requests_for_its_connection(
    supervisor: Supervisor, flights: TableName, ended: str, awaited: str
) -> None:
    supervisor.failures = 7
    trigger: BaseTrigger = triggers.MaintenanceJobTrigger(ended, "far", poll_seconds=0.01)
    if awaited == "table":
        trigger = triggers.TableLockTrigger("demo.flights", "lake", LONG, "far", 0.01, catalog_id=flights.catalog_id)

    event = fired(trigger)
    assert event.get("status") == "cancelled" if awaited == "job" else event["free"] is True
    assert supervisor.failures == 0


@pytest.mark.parametrize("error", ["GENERIC_ERROR", "API_SERVER_ERROR"])
def test_an_error_is_no_answer(supervisor: Supervisor, error: str) -> None:
    supervisor.failures = error

    with pytest.raises(ConnectionUnreadable, match="'far' for the store could not be read: ExecutionAPISecretsBackend failed"):
        hooks.connections.read_connection("far", "the store")


def test_a_connection_that_is_found_at_the_second_request_is_not_missing(supervisor: Supervisor) -> None:
    supervisor.failures = 1

    with pytest.raises(ConnectionUnreadable, match="has it now"):
        hooks.connections.read_connection("far", "the store")
    assert hooks.connections.read_connection("far", "the store").host is not None


@pytest.mark.parametrize("failures", [0, "PERMISSION_DENIED"])
def test_a_connection_that_does_not_exist_or_is_denied_ends_the_wait(
    supervisor: Supervisor, ended: str, failures: int | str
) -> None:
    supervisor.failures = failures

    problem = fired(triggers.MaintenanceJobTrigger(ended, "nowhere"))["problem"]
    assert problem.startswith("The Airflow connection 'nowhere' for the Snowpack store cannot be read: ")


def test_a_connection_that_is_not_valid_ends_the_wait(jobs: Jobs, ended: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__SNOWPACK__RESUME_DELAY", "PT0.001S")
    monkeypatch.setenv("AIRFLOW_CONN_FTP", "ftp://host")

    assert "has the type 'ftp'" in fired(triggers.MaintenanceJobTrigger(ended, "ftp"))["problem"]


def test_all_waits_request_a_connection_together_and_report_its_outage_in_one_line(
    supervisor: Supervisor, jobs: Jobs, ended: str, rounds: TriggerRounds, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor.failures = 1_000

    async def wait() -> list[dict[str, Any]]:
        waits = [asyncio.create_task(first_event(triggers.MaintenanceJobTrigger(ended, "far"))) for _ in range(100)]
        await rounds.over(100)
        for _ in range(2):
            supervisor.asked = 0
            await rounds.run(100)
            assert supervisor.asked == 2, "one for all of them, and one to find out why that failed"
        supervisor.failures = 0
        await rounds.run(0)
        return await asyncio.gather(*waits)

    events = asyncio.run(asyncio.wait_for(wait(), timeout=60))
    assert {event["status"] for event in events} == {"cancelled"}
    assert caplog.text.count("could not be read") == 1


def test_a_killed_task_s_job_is_cancelled_when_airflow_answers_again(
    supervisor: Supervisor, jobs: Jobs, flights: TableName
) -> None:
    job_id = jobs.submit(flights, ["expire_snapshots"]).job_id
    supervisor.failures = 6

    async def kill() -> None:
        await triggers.MaintenanceJobTrigger(job_id, "far", 0.01, owner="dag/run/task").on_kill()

    asyncio.run(asyncio.wait_for(kill(), timeout=60))
    assert (jobs.get(job_id).status, jobs.get(job_id).cancelled_by) == (JobStatus.CANCELLED, "dag/run/task")


@pytest.fixture
def sealed_vault(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from airflow.sdk.configuration import clear_secrets_backends_cache

    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND", "failing_secrets.SealedVault")
    clear_secrets_backends_cache()
    yield
    clear_secrets_backends_cache()


@pytest.mark.usefixtures("sealed_vault")
@since_airflow(3, 3)
def test_a_secrets_backend_that_fails_may_have_the_connection() -> None:
    with pytest.raises(ConnectionUnreadable, match="SealedVault failed with ConnectionError") as unreadable:
        hooks.connections.read_connection("far", "the store")
    assert "hunter2" not in str(unreadable.value)


@pytest.mark.usefixtures("sealed_vault")
@since_airflow(3, 3)
def test_a_connection_that_another_backend_has_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_FAR", json.dumps({"conn_type": "sqlite", "host": "/far.db"}))

    assert hooks.connections.read_connection("far", "the store").host == "/far.db"


def test_a_connection_that_no_backend_has_is_not_found() -> None:
    with pytest.raises(ConnectionNotFound, match="isn't defined"):
        hooks.connections.read_connection("nowhere", "the store")
