"""What operators report to OpenLineage, through its provider's own extractor manager, adapter and file transport.

The provider is not a dependency of this package: where it is not installed, only what holds without it is tested.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_snowpack import operators
from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.jobs import JobStatus
from airflow_snowpack.lineage.operation import DatasetAt, Operation, OperationKind, TableAt
from airflow_snowpack.lineage.operations import note_operation

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_snowpack.iceberg import TableName
    from airflow_snowpack.jobs import Jobs
    from tests.unit.faces.conftest import Runner

NOW = datetime.now(UTC)
TASK = TaskRef("shop", "manual__1", "work", 3, 2)
ORDERS = TableAt("lake.shop.orders", 11, "s3://lake/warehouse/shop/orders")


def ti(**other: Any) -> Any:
    known = {"dag_id": "shop", "run_id": "manual__1", "task_id": "work", "map_index": 3, "try_number": 2}
    return SimpleNamespace(**known, start_date=NOW, **other)


def maintained(before: int, after: int, task: TaskRef = TASK) -> Operation:
    moved = [replace(ORDERS, snapshot_id=before)], [replace(ORDERS, snapshot_id=after)]
    return Operation(OperationKind.MAINTENANCE, NOW + timedelta(seconds=after), *moved, task=task)


@pytest.mark.parametrize(
    ("location", "named"),
    [
        ("s3://lake/warehouse/shop/orders", ("s3://lake", "warehouse/shop/orders")),
        ("s3a://lake/warehouse/shop/orders/", ("s3://lake", "warehouse/shop/orders")),
        ("gs://lake/shop", ("gs://lake", "shop")),
        ("hdfs://nodes:8020/warehouse/shop", ("hdfs://nodes:8020", "/warehouse/shop")),
        ("file:///data/ware%20house/shop", ("file", "/data/ware house/shop")),
        ("/data/warehouse/shop", ("file", "/data/warehouse/shop")),
    ],
)
def test_what_lives_in_a_folder_is_named_by_it_in_one_spelling(location: str, named: tuple[str, str]) -> None:
    from airflow_snowpack.hooks.openlineage import named_by_location

    assert named_by_location(location) == named


class TestWithTheProvider:
    """Airflow's own provider asks."""

    @pytest.fixture(autouse=True)
    def _provider(self) -> None:
        pytest.importorskip("airflow.providers.openlineage", reason="the provider for OpenLineage is not installed")

    @staticmethod
    def asked(operator: Any, state: str = "success", instance: Any = None) -> Any:
        from airflow.providers.openlineage.extractors.manager import ExtractorManager
        from airflow.utils.state import TaskInstanceState

        dag_run = SimpleNamespace(run_id="manual__1")
        return ExtractorManager().extract_metadata(dag_run, operator, TaskInstanceState(state), task_instance=instance or ti())

    @pytest.mark.parametrize("state", ["success", "failed"])
    def test_a_maintained_table_is_read_at_its_first_and_written_at_its_last_snapshot(self, jobs: Jobs, state: str) -> None:
        for operation in (maintained(11, 12), maintained(12, 13), maintained(7, 8, replace(TASK, try_number=1))):
            note_operation(jobs.store, operation)
        reported = self.asked(operators.MaintainTableOperator(task_id="work", table="shop.orders"), state)

        (read,), (written,) = reported.inputs, reported.outputs
        for dataset, snapshot in ((read, "11"), (written, "13")):
            assert (dataset.namespace, dataset.name) == ("s3://lake", "warehouse/shop/orders")
            assert dataset.facets["version"].datasetVersion == snapshot
            (symlink,) = dataset.facets["symlinks"].identifiers
            assert (symlink.namespace, symlink.name, symlink.type) == ("iceberg://lake", "shop.orders", "TABLE")

    def test_where_a_table_lives_is_asked_of_the_catalog_and_what_it_does_not_know_keeps_its_name(
        self, jobs: Jobs, flights: TableName
    ) -> None:
        inputs = [TableAt(str(flights)), TableAt("lake.demo.gone", 5), TableAt("other.demo.flights")]
        build = Operation(OperationKind.BUILD, NOW, inputs, [DatasetAt("s3://lake/builds/flights", "R1")], task=TASK, rows=5)
        note_operation(jobs.store, build)
        reported = self.asked(operators.PublishBuildOperator(task_id="work", build={}))

        by_name = {(dataset.namespace, dataset.name.rpartition("/")[2]) for dataset in reported.inputs}
        assert by_name == {("file", "flights"), ("iceberg://lake", "demo.gone"), ("iceberg://other", "demo.flights")}
        (written,) = reported.outputs
        assert (written.namespace, written.name, written.outputFacets["outputStatistics"].rowCount) == (
            "s3://lake",
            "builds/flights",
            5,
        )
        assert written.facets["version"].datasetVersion == "R1"

    def test_an_operation_of_which_only_the_task_is_known_belongs_to_the_try_that_ran_then(self, jobs: Jobs) -> None:
        unknown = replace(TASK, try_number=None)
        note_operation(jobs.store, replace(maintained(1, 2, unknown), at=NOW - timedelta(hours=1)))
        note_operation(jobs.store, maintained(3, 4, unknown))

        reported = self.asked(operators.RunMaintenanceJobOperator(task_id="work"))
        assert [dataset.facets["version"].datasetVersion for dataset in reported.outputs] == ["4"]

    def test_a_task_whose_job_a_worker_ran_reports_what_the_worker_read_and_wrote(
        self, run_operator: Runner, jobs: Jobs, flights: TableName
    ) -> None:
        task = {"task_id": "maintain", "table": "demo.flights", "actions": ["expire_snapshots"], "execution": "queued"}
        deferred = run_operator(operators.MaintainTableOperator(**task))
        claim = jobs.claim("shop/manual__9/work try 1 on pod", catalog_id=flights.catalog_id)
        assert claim is not None
        worker, table = TaskRef("shop", "manual__9", "work", try_number=1), TableAt(str(flights), 1, "s3://lake/flights")
        for before, after, job_id in ((5, 6, "another"), (11, 12, claim.job.job_id), (12, 13, claim.job.job_id)):
            moved = [replace(table, snapshot_id=before)], [replace(table, snapshot_id=after)]
            at = NOW + timedelta(seconds=after)
            note_operation(jobs.store, Operation(OperationKind.MAINTENANCE, at, *moved, task=worker, job_id=job_id))
        jobs.finish(claim, JobStatus.COMPLETED, [])
        waited = deferred.message
        event = {"event": {"status": "completed"}, **waited.next_kwargs}
        ended = run_operator(operators.MaintainTableOperator(**task), resume=(waited.next_method, event))
        assert ended.state == "success", ended.error

        reported = self.asked(run_operator.instance.task, instance=run_operator.instance)
        (read,), (written,) = reported.inputs, reported.outputs
        assert [each.facets["version"].datasetVersion for each in (read, written)] == ["11", "13"]

    def test_a_task_that_changed_nothing_reports_nothing(self, jobs: Jobs) -> None:
        reported = self.asked(operators.RunMaintenanceJobOperator(task_id="work"))
        assert (reported.inputs, reported.outputs) == ([], [])

    def test_a_decorated_task_reports_the_tables_that_it_received_and_returned(self, jobs: Jobs) -> None:
        from airflow.sdk import DAG, task as declared

        interim = TableAt("lake.snowpack_interim.shop_work_1", 12, "s3://lake/warehouse/snowpack_interim/shop_work_1")
        note_operation(jobs.store, Operation(OperationKind.CREATE, NOW, [ORDERS], [interim], task=TASK, rows=7))
        with DAG("shop", schedule=None):
            decorated: Any = declared.snowpack(task_id="work")(lambda spark: None)()
        reported = self.asked(decorated.operator)

        assert [dataset.name for dataset in reported.inputs] == ["warehouse/shop/orders"]
        (written,) = reported.outputs
        assert written.name.endswith("shop_work_1")
        assert written.outputFacets["outputStatistics"].rowCount == 7

    def test_shards_that_are_written_come_from_their_sources_before_anything_is_published(self, jobs: Jobs) -> None:
        operator = operators.BuildShardsOperator(task_id="work", dataset="orders", table="shop.orders", key="id", num_shards=2)
        operator.report_lineage(
            "s3://lake/builds/orders", "R1", ({"table": ORDERS.table, "snapshot_id": 11}, {"sql": "SELECT 1"})
        )
        reported = self.asked(operator)

        assert [(dataset.namespace, dataset.name) for dataset in reported.inputs] == [("iceberg://lake", "shop.orders")]
        assert [(dataset.namespace, dataset.name) for dataset in reported.outputs] == [("s3://lake", "builds/orders")]

    def test_the_event_leaves_through_a_real_transport(self, jobs: Jobs, tmp_path: Path) -> None:
        from airflow.providers.openlineage.plugins.adapter import OpenLineageAdapter
        from openlineage.client import OpenLineageClient
        from openlineage.client.transport.file import FileConfig, FileTransport

        note_operation(jobs.store, maintained(11, 12))
        reported = self.asked(
            operators.ShardedBuildOperator(task_id="work", dataset="orders", table="shop.orders", key="id", num_shards=2)
        )
        sent = tmp_path / "events.json"
        client = OpenLineageClient(transport=FileTransport(FileConfig(log_file_path=str(sent), append=True)))
        OpenLineageAdapter(client=client).complete_task(
            run_id="01941f29-7c00-7087-8906-40e512c257bd",
            job_name="shop.work",
            end_time=NOW.isoformat(),
            task=reported,
            nominal_start_time=None,
            nominal_end_time=None,
            owners=None,
            tags=None,
            job_description=None,
        )
        event = json.loads(sent.read_text())
        assert event["outputs"][0]["name"] == "warehouse/shop/orders"
        assert event["outputs"][0]["facets"]["version"]["datasetVersion"] == "12"
