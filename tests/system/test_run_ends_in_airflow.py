"""A running Airflow tells the end of a run in three ways, and it is one end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from airflow_snowpack.hooks.dag_runs import RestDagRuns
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.scheduling import EventLog, Runs
from airflow_snowpack.scheduling.airflow_port import EndsQuery, FreeSlots
from tests.system.conftest import RunningAirflow


@pytest.fixture
def rest(airflow: RunningAirflow) -> RestDagRuns:
    from airflow_snowpack.hooks.api_client import AirflowRest
    from airflow_snowpack.hooks.dag_runs import RestDagRuns

    return RestDagRuns(AirflowRest(f"http://127.0.0.1:{airflow.home.port}", "admin", "admin"))


def test_listener_rest_and_task_tell_the_same_end(airflow: RunningAirflow, rest: RestDagRuns, jobs: Jobs) -> None:
    before = datetime.now(UTC) - timedelta(minutes=1)
    run = airflow.trigger("system_ended", {})
    assert airflow.ended(run) == "success"
    log = EventLog(jobs.store)
    recorded = airflow.until(lambda: log.latest("run:system_ended:success"), "the listener has told the end")

    found = rest.ended_runs([EndsQuery("system_ended", before), EndsQuery("system_asks", before)])
    (run_id,) = found["system_ended"].ended
    end = found["system_ended"].ended[run_id]
    assert (run_id, end.state, found["system_ended"].counts) == (run.run_id, "success", None)
    assert len(recorded) == 1
    assert Runs(jobs.store).ended(run.dag_id, run_id, end.state, end.at, began_at=end.began_at) is False
    assert rest.ended_runs([EndsQuery("system_ended", datetime.now(UTC))])["system_ended"].ended == {}

    asked = airflow.trigger("system_asks", {})
    assert airflow.ended(asked) == "success"
    told = airflow.result(asked, "ask")
    assert told["counts"] == {"success": 1, "failed": 0}
    assert told["ended"] == {run_id: ["success", str(end.began_at), str(end.at)]}

    airflow.call("PATCH", run.path, {"state": "failed"})
    (marked,) = airflow.until(lambda: log.latest("run:system_ended:failed"), "the listener has told that it was marked")
    assert marked.event.at > end.at, "Airflow leaves it the moment at which it had ended"
    shown = rest.ended_runs([EndsQuery("system_ended", before)])["system_ended"].ended[run_id]
    assert (shown.state, shown.at, shown.began_at) == ("failed", end.at, end.began_at)
    assert Runs(jobs.store).ended(run.dag_id, run_id, shown.state, shown.at, began_at=shown.began_at) is False


def test_a_pool_tells_whose_tasks_are_in_it(
    airflow: RunningAirflow, rest: RestDagRuns, jobs: Jobs, new_table: Callable[..., TableName]
) -> None:
    table = new_table([pa.table({"id": pa.array(range(3))})])
    jobs.locks.acquire(table, "somebody", ttl=timedelta(hours=1))
    run = airflow.trigger("system_guard", {"table": table.dotted})
    airflow.task_becomes(run, "acquire", "deferred")
    slots = rest.free_slots(["default_pool", "no such pool"])
    assert isinstance(slots["default_pool"], FreeSlots)
    assert (run.dag_id, run.run_id) in slots["default_pool"].taken_by
    assert slots["default_pool"].free > 0
    assert slots["no such pool"] is None
    jobs.locks.release(table, "somebody")
    assert airflow.ended(run) == "success"
    assert airflow.tries(run, "acquire") == 1
    assert (run.dag_id, run.run_id) not in rest.free_slots(["default_pool"])["default_pool"].taken_by  # type: ignore[union-attr]  # seen above
