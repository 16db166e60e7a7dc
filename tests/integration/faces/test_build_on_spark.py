"""Building with real Spark from a task, and what becomes of the run when the task is ended or replaced meanwhile."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from bounded import PATIENCE_S, Beside
from s3_server import BUCKET, s3_server

from airflow_snowpack import hooks, operators
from airflow_snowpack.builds.errors import StaleBuild
from airflow_snowpack.builds.read.reader import SnapshotReader
from airflow_snowpack.builds.registry.model import BuildRun, RunStatus
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.iceberg import TableName
from tests.unit.faces.conftest import Runner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def builds(installation: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BuildRegistry]:
    monkeypatch.setenv("AIRFLOW__SNOWPACK__BUILDS_URL", str(installation / "builds"))
    with hooks.SnowpackHook() as hook:
        yield hook.builds()


@pytest.fixture
def folder(installation: Path) -> Path:
    return installation / "builds" / "numbers"


def build(**arguments: Any) -> operators.ShardedBuildOperator:
    return operators.ShardedBuildOperator(task_id="build", **({"dataset": "numbers", "key": "id", "num_shards": 2} | arguments))


def slow(spark: SparkSession) -> DataFrame:
    """Rows that take minutes to write, at the rate that the tests below allow."""
    return spark.range(100_000).selectExpr("id", "id * 2 AS twice")


def only_run(builds: BuildRegistry) -> BuildRun:
    (run,) = builds.runs("numbers").items
    return run


def when_shards_are_written(spark: SparkSession, builds: BuildRegistry, action: Callable[[], object]) -> Beside:
    """Do something, once, in another thread, as soon as Spark writes the shards of a run that has begun."""

    def watch() -> None:
        deadline = time.monotonic() + PATIENCE_S / 2
        while not builds.runs("numbers").items or not spark.sparkContext.statusTracker().getActiveJobsIds():
            assert time.monotonic() < deadline, "Spark never wrote a shard"
            time.sleep(0.05)
        action()

    return Beside(watch)


def test_a_table_is_built_as_of_one_snapshot_in_as_many_shards_as_its_keys_need(
    run_operator: Runner,
    builds: BuildRegistry,
    folder: Path,
    new_table: Callable[..., TableName],
    append: Callable[..., None],
) -> None:
    table = new_table("id BIGINT, note STRING")
    append(table, id=range(300), note=[f"n{number}" for number in range(300)])
    outcome = run_operator(build(table=table.dotted, num_shards=None, max_keys_per_shard=100, shard_format="sqlite"))

    assert outcome.state == "success", outcome.error
    assert (outcome.xcom["rows"], outcome.xcom["moved"]) == (300, True)
    reader = SnapshotReader(folder)
    assert reader.manifest.sharding.num_shards > 3
    assert max(shard.rows for shard in reader.manifest.shards) <= 100
    assert reader.multi_get([7, 299, 300]) == {7: {"id": 7, "note": "n7"}, 299: {"id": 299, "note": "n299"}}
    assert reader.manifest.sources[0]["table"] == str(table)


def test_a_query_needs_no_name_of_the_catalog_and_leaves_the_sessions_own_as_it_was(
    run_operator: Runner, folder: Path, builds: BuildRegistry, spark: SparkSession, small_files: TableName
) -> None:
    before = spark.catalog.currentCatalog()
    query = f"SELECT CAST(id * 10 + part AS BIGINT) AS id, {{{{ params.factor }}}} AS factor FROM {small_files.dotted}"
    outcome = run_operator(build(sql=query), params={"factor": 3})

    assert outcome.state == "success", outcome.error
    assert SnapshotReader(folder).get(42) == {"id": 42, "factor": 3}
    assert spark.catalog.currentCatalog() == before


SECRET = "the-secret-of-the-lake"


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    """A dataset's folder on a server that speaks S3, which the Airflow connection ``lake_storage`` leads to."""
    with s3_server() as options:
        extra = {"endpoint_url": f"http://{options['endpoint_override']}", "region_name": "us-east-1"}
        connection = {"conn_type": "aws", "login": "tester", "password": SECRET, "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_LAKE_STORAGE", json.dumps(connection))
        yield Storage(f"s3://{BUCKET}/numbers", options)


def test_a_functions_rows_go_to_s3_through_a_connection_whose_secret_is_shown_nowhere(
    run_operator: Runner,
    builds: BuildRegistry,
    s3: Storage,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def made(spark: SparkSession, run_id: str) -> DataFrame:
        return spark.range(10).selectExpr("id", f"'{run_id}' AS run")

    outcome = run_operator(build(python_callable=made, expression="pmod(id, 2)", url=s3.url, storage_conn_id="lake_storage"))

    assert outcome.state == "success", outcome.error
    assert [shard.rows for shard in SnapshotReader(s3).manifest.shards] == [5, 5]
    assert SnapshotReader(s3).get(3) == {"id": 3, "run": "run1"}
    kept = [s3.read(found.path) for found in s3.objects("") if found.path.endswith(("json", "_CURRENT"))]
    with builds.store.engine.connect() as conn:
        rows = [
            tuple(row) for table in ("build_datasets", "build_runs") for row in conn.exec_driver_sql(f"SELECT * FROM {table}")
        ]
    printed = capsys.readouterr()
    assert not any(SECRET in str(text) for text in (outcome.xcom, kept, rows, caplog.text, printed.out, printed.err))


def test_a_task_that_airflow_ends_stops_its_spark_and_fails_its_run(
    run_operator: Runner, builds: BuildRegistry, folder: Path, spark: SparkSession
) -> None:
    exits: list[int | str | None] = []

    def kill() -> None:
        # From a thread: a SystemExit in the main thread would tear the session that the other tests share.
        try:
            run_operator.instance.task.on_kill()
        except SystemExit as exit:
            exits.append(exit.code)

    ended = when_shards_are_written(spark, builds, kill)
    outcome = run_operator(build(python_callable=slow, rows_per_second=500, batch_size=100))
    ended.join()

    assert exits == [143]
    assert outcome.state == "up_for_retry"
    run = only_run(builds)
    assert (run.status, run.error) == (RunStatus.FAILED, "Airflow ended the task guard.build")
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
    assert not (folder / "_CURRENT").exists()


def test_a_try_whose_run_was_taken_over_stops_and_is_not_tried_again(
    run_operator: Runner, builds: BuildRegistry, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__SNOWPACK__HEARTBEAT", "1s")
    taken = when_shards_are_written(
        spark, builds, lambda: builds.resume("numbers", only_run(builds).run_id, holder="the next try")
    )
    outcome = run_operator(build(python_callable=slow, rows_per_second=500, batch_size=100))
    taken.join()

    assert outcome.state == "failed"  # and not up_for_retry: that would take the run from the successor
    assert isinstance(outcome.error.__cause__, StaleBuild)  # type: ignore[union-attr]  # it failed
    run = only_run(builds)
    assert (run.status, run.holder) == (RunStatus.RUNNING, "the next try")
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
