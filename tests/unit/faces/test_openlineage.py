"""What operators report to OpenLineage, through its provider's own extractor manager, adapter and file transport.

The provider is not a dependency of this package: where it is not installed, only what holds without it is tested.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from made_health import made_health
from openlineage_events import extracted, sent

from airflow_snowpack import hooks, operators
from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.hooks.openlineage_facets import MAX_JOBS
from airflow_snowpack.iceberg import TableHealth, TableName
from airflow_snowpack.iceberg.health import score
from airflow_snowpack.inventory import HealthRecords
from airflow_snowpack.jobs import ActionOutcome, ActionResult, Job, Jobs, JobStatus
from airflow_snowpack.lineage.operation import DatasetAt, Operation, OperationKind, TableAt
from airflow_snowpack.lineage.operations import note_operation
from airflow_snowpack.maintenance.planning import Planner
from airflow_snowpack.maintenance.policies import Policies
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


def maintained_table(table: TableName) -> Operation:
    before = TableAt(str(table), 11, "s3://lake/warehouse/shop/orders")
    return Operation(
        OperationKind.MAINTENANCE, NOW + timedelta(seconds=1), [before], [replace(before, snapshot_id=12)], task=TASK
    )


def planned_job(jobs: Jobs, table: TableName) -> tuple[Job, TableHealth]:
    """A job that has run the plan of a table, and the health that it was planned from."""
    catalog, records = hooks.IcebergCatalogHook().catalog, HealthRecords(jobs.store)
    with catalog.load_table(table.identifier).transaction() as change:
        change.set_properties({"snowpack.rewrite_data_files.thresholds.small_files": "6"})
    loaded = catalog.load_table(table.identifier)
    request = Planner(Policies(), records, jobs).plan(loaded, table).request()
    job = jobs.submit(table, request.actions, options=request.options, plan=request.plan)
    claim = jobs.claim("w", catalog_id=table.catalog_id)
    assert claim is not None
    metrics = {"rewritten_data_files_count": 6, "added_data_files_count": 1}
    done = ActionResult(
        "rewrite_data_files", ActionOutcome.SUCCEEDED, "Compacted 6 files into 1", 4.0, metrics=metrics, gb_hours=0.5
    )
    jobs.finish(claim, JobStatus.COMPLETED, [done])
    return jobs.get(job.job_id), records.read(table, loaded)


class TestWithTheProvider:
    """Airflow's own provider asks."""

    @pytest.fixture(autouse=True)
    def _provider(self) -> None:
        pytest.importorskip("airflow.providers.openlineage", reason="the provider for OpenLineage is not installed")

    @staticmethod
    def asked(operator: Any, state: str = "success", instance: Any = None) -> Any:
        return extracted(operator, instance or ti(), state)

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
        note_operation(jobs.store, maintained(11, 12))
        build = operators.ShardedBuildOperator(task_id="work", dataset="orders", table="shop.orders", key="id", num_shards=2)
        event = sent(self.asked(build), tmp_path)
        assert event["outputs"][0]["name"] == "warehouse/shop/orders"
        assert event["outputs"][0]["facets"]["version"]["datasetVersion"] == "12"
        assert "snowpack_maintenance" not in event["run"]["facets"]

    def test_a_maintained_table_has_its_health_before_and_after_and_the_run_its_plan_and_outcome(
        self, jobs: Jobs, flights: TableName, tmp_path: Path
    ) -> None:
        job, health = planned_job(jobs, flights)
        task = operators.MaintainTableOperator(task_id="work", table="demo.flights")
        note_operation(jobs.store, replace(maintained_table(flights), job_id=job.job_id))
        event = sent(self.asked(task), tmp_path)

        (read,), (written,) = event["inputs"], event["outputs"]
        before = read["inputFacets"]["snowpack_health"]
        assert before["score"] == score(health).total
        assert before["metadataLocation"] == health.metadata_location
        assert "snowpack_health" not in written["outputFacets"], "it was not read again"
        assert [part["name"] for part in before["parts"]] == ["file_sizes", "deletes", "manifests", "snapshots"]
        for facet in (before, event["run"]["facets"]["snowpack_maintenance"]):
            assert facet["_producer"].startswith("pkg:pypi/airflow-snowpack@")
            assert facet["_schemaURL"].startswith("https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/")

        compacted = made_health(table=flights.dotted, read_at=jobs.store.clock(), metadata_location="v8.metadata.json")
        HealthRecords(jobs.store).put(flights, compacted)
        event = sent(self.asked(task), tmp_path)
        (read,), (written,) = event["inputs"], event["outputs"]
        after = written["outputFacets"]["snowpack_health"]
        assert (after["score"], after["metadataLocation"]) == (score(compacted).total, "v8.metadata.json")
        assert (read["inputFacets"]["snowpack_health"]["score"], read["inputFacets"]["snowpack_health"]["parts"]) == (
            score(health).total,
            [],
        )
        facet = event["run"]["facets"]["snowpack_maintenance"]
        assert facet["jobCount"] == 1
        (ran,) = facet["jobs"]
        assert (ran["jobId"], ran["table"], ran["status"]) == (job.job_id, str(flights), "completed")
        assert (ran["scoreBefore"], ran["scoreAfter"]) == (score(health).total, score(compacted).total)
        rewrite, skipped = ran["actions"][0], ran["actions"][1]
        assert (rewrite["verdict"], rewrite["cause"], rewrite["outcome"]) == ("run", "needed", "succeeded")
        assert rewrite["evidence"].startswith("6 of 6 files below 384.0 MiB; threshold 6")
        assert (rewrite["estimate"]["filesRemoved"], rewrite["result"]["filesRemoved"], rewrite["result"]["gbHours"]) == (
            6,
            6,
            0.5,
        )
        assert (skipped["verdict"], "estimate" in skipped) == ("skip", False)

    def test_an_event_has_a_bounded_number_of_jobs(self, jobs: Jobs, flights: TableName) -> None:
        task = operators.RunQueuedJobsOperator(task_id="work")
        made = [jobs.submit(replace(flights, table=f"t{number}"), ["expire_snapshots"]) for number in range(MAX_JOBS + 3)]
        task.job_ids = lambda: [job.job_id for job in made]  # type: ignore[method-assign]
        facet = self.asked(task).run_facets["snowpack_maintenance"]
        assert (facet.jobCount, len(facet.jobs)) == (MAX_JOBS + 3, MAX_JOBS)
