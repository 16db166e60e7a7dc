"""Data that arrives, as a watcher and a sensor see it on a running Airflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
import sqlalchemy as sa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.store.tables.schedules import considered
from tests.system.conftest import RunningAirflow

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

PER_PART = PartitionSpec(PartitionField(source_id=1, field_id=1000, transform=IdentityTransform(), name="part"))
COLUMNS = Schema(NestedField(1, "part", LongType()))


def part(number: int) -> pa.Table:
    return pa.table({"part": pa.array([number])})


@pytest.fixture
def watched(airflow: RunningAirflow, catalog: Catalog, jobs: Jobs) -> Table:
    """The table that the DAG's watcher looks at, and has seen."""
    if catalog.table_exists("db.watched"):
        return catalog.load_table("db.watched")
    # It gets its name with its first rows in it: to a watcher that finds a table empty, the first rows are an arrival.
    catalog.create_table("db.not_watched_yet", schema=COLUMNS, partition_spec=PER_PART).append(part(0))
    table = catalog.rename_table("db.not_watched_yet", "db.watched")
    mine = sa.select(considered.c.consumer).where(considered.c.consumer.startswith("watcher:"))
    airflow.until(lambda: jobs.store.read(lambda conn: conn.execute(mine).first()), "the watcher has found its table")
    return table


def seen(airflow: RunningAirflow) -> list[int]:
    """The snapshots that the asset has events of."""
    from airflow_snowpack.assets import iceberg_asset

    found = airflow.call("GET", "/assets?uri_pattern=iceberg://lake/db/watched")["assets"]
    (asset,) = [one for one in found if one["uri"] == iceberg_asset("db.watched", catalog="lake", watched=True).uri]
    # Airflow 3.3.2 answers 500 while a run that an event started has not begun: its answer wants a start date.
    path = f"/assets/events?asset_id={asset['id']}&order_by=-timestamp&limit=100"
    answer = airflow.call("GET", path, allowed=(200, 500))
    return [event["extra"]["payload"]["snapshot_id"] for event in answer.get("asset_events", [])]


def test_a_watcher_whose_triggerer_is_killed_loses_no_arrival(airflow: RunningAirflow, watched: Table) -> None:
    snapshots = []

    def arrive(count: int) -> None:
        for _ in range(count):
            watched.append(part(len(snapshots) + 1))
            snapshot = watched.current_snapshot()
            assert snapshot is not None
            snapshots.append(snapshot.snapshot_id)

    arrive(2)
    airflow.kill_process("triggerer")
    arrive(3)
    airflow.start_process("triggerer")
    airflow.until(lambda: seen(airflow), "events come")
    arrive(2)
    found = airflow.until(lambda: (ids := set(seen(airflow))) >= set(snapshots) and ids, "every arrival is an event")
    assert found == set(snapshots), "and nothing else is"
    airflow.until(lambda: airflow.call("GET", "/dags/system_watched/dagRuns")["total_entries"], "who waits for arrivals starts")


def test_maintenance_of_a_watched_table_is_no_arrival_and_starts_nobody_who_waits_for_one(
    airflow: RunningAirflow, watched: Table
) -> None:
    watched.append(part(100))
    maintenance = airflow.trigger("system_maintain", {"table": "db.watched"})
    assert airflow.ended(maintenance) == "success"
    watched.refresh()
    rewritten = watched.current_snapshot()
    assert rewritten is not None
    assert rewritten.summary is not None
    assert rewritten.summary.operation.value == "replace"

    watched.append(part(101))
    arrived = watched.current_snapshot()
    assert arrived is not None
    # What the watcher would have made of the maintenance, it would have made before it sees what came after.
    told = airflow.until(lambda: (ids := seen(airflow)) and arrived.snapshot_id in ids and ids, "the arrival is seen")
    assert rewritten.snapshot_id not in told


def test_a_sensor_waits_for_its_partitions_and_the_next_run_for_the_next_ones(
    airflow: RunningAirflow, new_table: Callable[..., TableName], load: Callable[[TableName], Table]
) -> None:
    table = new_table([part(0)], schema=COLUMNS, partition_spec=PER_PART)
    first = airflow.trigger("system_arrival", {"table": table.dotted})
    airflow.task_becomes(first, "wait", "deferred")
    for number in (1, 2, 3):
        load(table).append(part(number))
    assert airflow.ended(first) == "success"
    assert airflow.tries(first, "wait") == 1
    assert airflow.result(first, "wait")["explanation"] == f"3 of 3 partitions of {table.dotted}"

    second = airflow.trigger("system_arrival", {"table": table.dotted})
    airflow.task_becomes(second, "wait", "deferred")
    airflow.clear(first)
    assert airflow.ended(first) == "success"
