"""What the lineage keeps of builds: from which snapshots a dataset was made, once for each run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from built_runs import DATASET, DAY, MIDNIGHT, built

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.builds.publish import publish, rollback
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.lineage.graph import Direction, Lineage
from airflow_snowpack.lineage.operation import DatasetAt, OperationKind, TableAt
from airflow_snowpack.lineage.operations import OperationLog
from airflow_snowpack.store import Store

SOURCES = (
    {"table": "lake.flights.departures", "snapshot_id": 42},
    {"table": "lake.flights.planes"},
    {"sql": "SELECT 1"},
    {"table": 5},
)


@pytest.fixture
def log(store: Store) -> OperationLog:
    return OperationLog(store)


def test_a_published_run_came_from_its_sources_as_of_their_snapshots(
    registry: BuildRegistry, storage: Storage, store: Store, log: OperationLog
) -> None:
    handle, manifest = built(registry, storage, MIDNIGHT, owner="flights/manual__1/build")
    publish(registry, storage, handle, replace(manifest, sources=SOURCES))

    (operation,) = log.of_table("lake.flights.departures").items
    assert operation.kind is OperationKind.BUILD
    assert operation.inputs == (TableAt("lake.flights.departures", 42), TableAt("lake.flights.planes"))
    assert operation.outputs == (DatasetAt(storage.url.rstrip("/"), handle.run_id),)
    assert operation.task == TaskRef("flights", "manual__1", "build")
    assert (operation.rows, operation.detail["dataset"]) == (manifest.rows, DATASET)
    assert Lineage(store).graph(storage.url.rstrip("/"), Direction.UP).edges


def test_a_run_is_one_operation_in_history_after_a_repeat_and_after_a_rollback_too(
    registry: BuildRegistry, storage: Storage, log: OperationLog
) -> None:
    newer, older = built(registry, storage, MIDNIGHT + DAY), built(registry, storage, MIDNIGHT)
    for handle, manifest in (newer, newer, older):
        publish(registry, storage, handle, replace(manifest, sources=SOURCES[:1]))
    rollback(registry, storage, DATASET, to=older[0].run_id, by="ada")

    found = log.of_table("lake.flights.departures").items
    assert sorted(output.run_id for each in found for output in each.outputs if isinstance(output, DatasetAt)) == [
        "20260101T000000Z",
        "20260102T000000Z",
    ]


def test_a_build_is_published_although_the_lineage_cannot_be_written(
    registry: BuildRegistry, storage: Storage, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    handle, manifest = built(registry, storage, MIDNIGHT)
    long_name = {"table": "lake.flights." + "x" * 2_000}
    assert publish(registry, storage, handle, replace(manifest, sources=(long_name,))).recorded

    assert "operation_not_recorded: build" in caplog.text
