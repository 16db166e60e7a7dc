"""The sensor of arriving data, in Airflow's own task runner, on a real table and a real store."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from counted_reads import counted_reads

from airflow_snowpack import hooks, sensors
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.scheduling import CommitsAdded, Every, PartitionsAdded, RecordsAdded
from airflow_snowpack.scheduling.sources.consumer import NO_OWNER
from airflow_snowpack.store.tables.schedules import considered

if TYPE_CHECKING:
    from conftest import Runner


def add(table: TableName, commits: int = 1) -> None:
    import pyarrow as pa

    loaded = hooks.IcebergCatalogHook().catalog.load_table(table.identifier)
    for _ in range(commits):
        loaded.append(pa.table({"month": pa.array([1], pa.int32()), "delay": pa.array([3], pa.int32())}))


def sensor(trigger: Any, **arguments: Any) -> sensors.IcebergDataArrivalSensor:
    return sensors.IcebergDataArrivalSensor(task_id="wait", trigger=trigger, consumer="report", **arguments)


def as_another_run(sensor: sensors.IcebergDataArrivalSensor, task_id: str) -> sensors.IcebergDataArrivalSensor:
    """The owner is made of the DAG, the run and the task, so another task is like another run."""
    sensor.task_id = task_id
    return sensor


@pytest.fixture
def begun(run_operator: Runner, flights: TableName) -> None:
    """The consumer has looked once, and six commits have arrived since."""
    assert run_operator(as_another_run(sensor(CommitsAdded("demo.flights", 100)), "begin")).state == "deferred"
    add(flights, 6)


def test_a_new_consumer_begins_at_the_head_of_its_table_and_does_not_read_its_history(
    run_operator: Runner, flights: TableName
) -> None:
    with counted_reads() as reads:
        outcome = run_operator(sensor(CommitsAdded("demo.flights", 2)))
    assert outcome.state == "deferred"
    assert reads.manifests == [], "six commits are there already"

    add(flights, 2)
    outcome = run_operator(sensor(CommitsAdded("demo.flights", 2)))
    assert outcome.state == "success", outcome.error
    (amounts,) = outcome.xcom["tables"].values()
    assert (outcome.xcom["enough"], amounts["commits"], amounts["files"], amounts["records"]) == (True, 2, 2, 2)


def test_a_table_that_a_trigger_gets_later_counts_from_the_first_look_that_has_it(
    run_operator: Runner, flights: TableName, begun: None
) -> None:
    catalog = hooks.IcebergCatalogHook().catalog
    later = catalog.create_table("demo.later", catalog.load_table(flights.identifier).schema())
    add(hooks.IcebergCatalogHook().identified("demo.later"))
    both = CommitsAdded("demo.flights", 6) & CommitsAdded("demo.later")
    assert run_operator(sensor(both)).state == "deferred"

    later.refresh()
    add(hooks.IcebergCatalogHook().identified("demo.later"))
    outcome = run_operator(sensor(both))
    assert outcome.state == "success"
    assert outcome.xcom["tables"]["lake.demo.flights"]["commits"] == 6
    assert outcome.xcom["tables"]["lake.demo.later"]["commits"] == 1


def test_a_consumer_that_an_earlier_release_began_still_counts_the_whole_table(
    run_operator: Runner, jobs: Jobs, flights: TableName
) -> None:
    now = jobs.store.clock()
    place = {"at": now.isoformat(), "events": 0}
    row = {"consumer": "report", "owner": NO_OWNER, "since": place, "upto": place, "changed_at": now}
    jobs.store.transact(lambda conn: conn.execute(sa.insert(considered).values(row)))
    assert run_operator(sensor(CommitsAdded("demo.flights", 6))).state == "success"


def test_what_was_considered_is_not_counted_again_and_what_came_since_is(
    run_operator: Runner, flights: TableName, begun: None
) -> None:
    assert run_operator(sensor(CommitsAdded("demo.flights", 3))).state == "success"
    assert run_operator(as_another_run(sensor(CommitsAdded("demo.flights", 3)), "second")).state == "deferred"

    add(flights, 3)
    outcome = run_operator(as_another_run(sensor(CommitsAdded("demo.flights", 3)), "second"))
    assert (outcome.state, outcome.xcom["explanation"]) == ("success", "3 of 3 commits of demo.flights")


def test_a_retry_of_the_same_run_counts_from_where_its_first_try_began(
    run_operator: Runner, flights: TableName, begun: None
) -> None:
    for try_number in (1, 2):
        outcome = run_operator(sensor(RecordsAdded("demo.flights", 6)), try_number=try_number)
        assert (outcome.state, outcome.xcom["explanation"]) == ("success", "6 of 6 records of demo.flights")


def test_one_consumer_takes_nothing_from_another(run_operator: Runner, flights: TableName, begun: None) -> None:
    def other() -> sensors.IcebergDataArrivalSensor:
        return sensors.IcebergDataArrivalSensor(task_id="other", trigger=CommitsAdded("demo.flights", 3))

    assert run_operator(other()).state == "deferred"
    add(flights, 3)
    assert run_operator(sensor(CommitsAdded("demo.flights", 9))).state == "success"
    assert run_operator(other()).state == "success"


def test_what_is_awaited_may_be_written_as_json_with_templates(run_operator: Runner, flights: TableName, begun: None) -> None:
    awaited = {"any_of": [{"commits_added": {"table": "{{ params.table }}", "count": 6}}, {"every": "4h"}]}
    assert run_operator(sensor(awaited), params={"table": "demo.flights"}).state == "success"


def test_it_waits_in_the_triggerer_for_what_has_not_arrived(run_operator: Runner, flights: TableName) -> None:
    outcome = run_operator(sensor(PartitionsAdded("demo.flights", 5), timeout=timedelta(hours=6)))
    assert outcome.state == "deferred"
    assert outcome.message.classpath == "airflow_snowpack.triggers.waits.DataArrivalTrigger"
    assert outcome.message.next_method == "execute_complete"


OVER = ("execute_complete", {"event": {"why": "over"}, "until": "2026-11-21T18:00:00+00:00"})


def test_when_the_time_is_up_it_goes_on_with_what_there_is_and_that_is_considered(
    run_operator: Runner, flights: TableName, begun: None
) -> None:
    waits = CommitsAdded("demo.flights", 100)
    outcome = run_operator(sensor(waits, on_timeout="go_on"), resume=OVER)
    (amounts,) = outcome.xcom["tables"].values()
    assert (outcome.state, outcome.xcom["enough"], amounts["commits"]) == ("success", False, 6)

    again = run_operator(as_another_run(sensor(waits, on_timeout="go_on"), "second"), resume=OVER)
    (amounts,) = again.xcom["tables"].values()
    assert amounts["commits"] == 0


@pytest.mark.parametrize(("on_timeout", "state"), [("skip", "skipped"), ("fail", "failed")])
def test_when_the_time_is_up_it_skips_or_fails_and_what_came_stays_new(
    run_operator: Runner, flights: TableName, begun: None, on_timeout: Any, state: str
) -> None:
    outcome = run_operator(sensor(CommitsAdded("demo.flights", 100), on_timeout=on_timeout), resume=OVER)
    assert outcome.state in (state, "up_for_retry")
    assert run_operator(as_another_run(sensor(CommitsAdded("demo.flights", 6)), "second")).state == "success"


def test_time_alone_may_be_enough(run_operator: Runner, flights: TableName) -> None:
    waited = {"event": {"why": "arrived"}, "until": "2030-01-01T00:00:00+00:00"}
    since_2026 = sensor(Every("4h"), timeout=timedelta(days=4 * 365))
    assert run_operator(since_2026, resume=("execute_complete", waited)).state == "success"
    assert run_operator(as_another_run(sensor(Every("4h")), "second")).state == "deferred"


def test_without_the_triggerer_time_counts_from_the_first_look(run_operator: Runner, installation: Path) -> None:
    waits = sensor(Every("1s"), deferrable=False, poke_interval=timedelta(seconds=0.2), timeout=timedelta(seconds=60))
    assert run_operator(waits).state == "success"


def test_a_trigger_that_cannot_be_used_fails_for_good(run_operator: Runner, flights: TableName) -> None:
    outcome = run_operator(sensor({"commits_added": {"table": "demo.flights", "count": 0}}))
    assert (outcome.state, "count" in str(outcome.error)) == ("failed", True)
