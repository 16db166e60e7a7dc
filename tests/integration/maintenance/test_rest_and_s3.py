"""What is not maintenance of one table, on a REST catalog with its tables on S3: passes, interim tables, schedules and builds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pytest
from catalog_servers import CatalogServers
from fleet_lake import FleetLake
from interim_lake import ReportedRuns, holder

from airflow_snowpack.builds.build_spec import BuildSpec, Interrupt
from airflow_snowpack.builds.cleanup import cleanup
from airflow_snowpack.builds.model import FileCheck, Retention, Sharding
from airflow_snowpack.builds.publish import publish
from airflow_snowpack.builds.read.reader import SnapshotReader
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.write.selection import read_attempts, select
from airflow_snowpack.builds.write.spark_source import SparkSource
from airflow_snowpack.iceberg import CatalogConfig, TableName, load_table
from airflow_snowpack.iceberg.broker import Broker
from airflow_snowpack.iceberg.s3_objects import S3Objects
from airflow_snowpack.iceberg.trial_file import trial_file, warehouse_of
from airflow_snowpack.interim.collection.collector import Collector
from airflow_snowpack.interim.collection.dropping import Folder
from airflow_snowpack.interim.collection.sweeper import sweep
from airflow_snowpack.interim.handover import TableHandover
from airflow_snowpack.interim.model import InterimPolicy
from airflow_snowpack.interim.registry import InterimRegistry
from airflow_snowpack.jobs import JobStatus, JobWorker
from airflow_snowpack.maintenance import SparkEngine
from airflow_snowpack.maintenance.assessment import Walk
from airflow_snowpack.maintenance.fleet import Budget
from airflow_snowpack.maintenance.removals.records import Removals
from airflow_snowpack.scheduling import CommitsAdded, Poller, Schedule, Schedules
from airflow_snowpack.scheduling.sources.consumer import Consumer
from airflow_snowpack.store import Store, open_store
from examples.cluster.errors import ServerFailed
from examples.cluster.read_with_duckdb import read_with_duckdb
from examples.cluster.seaweedfs import BUCKET, TABLE_BUCKET

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.timeout(600), pytest.mark.one_database, pytest.mark.cell("Local Spark", "REST", "S3")]


@pytest.fixture
def store(sqlite_url: str) -> Iterator[Store]:
    with open_store(sqlite_url) as opened:
        yield opened


@pytest.fixture
def config(servers: CatalogServers) -> CatalogConfig:
    return servers.catalog("rest")


@pytest.fixture
def fleet(config: CatalogConfig, store: Store) -> Iterator[FleetLake]:
    """Tables in a database of this test."""
    lake = FleetLake(config, store, f"fleet_{uuid4().hex[:8]}", only_own=True)
    yield lake
    for identifier in lake.catalog.list_tables(lake.database):
        lake.catalog.drop_table(identifier)
    lake.catalog.drop_namespace(lake.database)


def drained(fleet: FleetLake, spark: SparkSession, owner: str) -> dict[JobStatus, int]:
    planned = fleet.plan(owner, Budget(tables=10))
    fleet.work.submit(planned)
    drain = fleet.fleet.drain(planned, "pod-1")
    removals = Removals(fleet.store)
    engine = SparkEngine(lambda: spark, fleet.config.load, removals=removals)
    worker = JobWorker(fleet.jobs, lambda: engine, "pod-1", catalog_id=fleet.config.catalog_id, claim_next=drain.claim_next)
    ended = dict(drain.run(worker))
    fleet.fleet.report(planned)
    return ended


def test_a_pass_maintains_what_an_assessment_finds_and_all_rows_stay(fleet: FleetLake, spark: SparkSession) -> None:
    names = [fleet.make("sick", commits=6), fleet.make("healthy")]
    before = {name: fleet.rows(name) for name in names}

    found = Walk(fleet.config.load, fleet.policies, fleet.store.clock).assess("rest", names)

    assert [row.table for row in found.in_need] == [names[0].dotted]
    assert drained(fleet, spark, "night-1") == {JobStatus.COMPLETED: 1}
    assert {name: fleet.rows(name) for name in names} == before
    assert len(list(load_table(fleet.catalog, names[0]).scan().plan_files())) == 1
    assert drained(fleet, spark, "night-2") == {}


@pytest.mark.soak_only
def test_duckdb_reads_the_rows_that_a_pass_has_rewritten(
    fleet: FleetLake, spark: SparkSession, servers: CatalogServers, tmp_path: Path
) -> None:
    name = fleet.make("sick", commits=6)
    before = fleet.rows(name)
    assert drained(fleet, spark, "night-1") == {JobStatus.COMPLETED: 1}
    try:
        read = read_with_duckdb(servers.s3, name.dotted, tmp_path)
    except ServerFailed as failed:
        if "uv" in str(failed) or "No solution" in str(failed):
            pytest.skip(f"the registries have no DuckDB for its extensions: {failed}")
        raise

    assert sorted(read["id"].to_pylist()) == before


def test_an_interim_table_is_handed_on_and_leaves_no_object_after_its_consumer(
    config: CatalogConfig, store: Store, spark: SparkSession
) -> None:
    reported, namespace, now = ReportedRuns(), f"interim_{uuid4().hex[:8]}", store.clock()
    registry, catalog = InterimRegistry(store, InterimPolicy(namespace=namespace)), config.load()

    def handover(task_id: str, consumers: Sequence[str]) -> TableHandover:
        return TableHandover(registry, lambda: catalog, holder(task_id), catalog_name="rest", consumers=consumers)

    with handover("clean", ["report"]) as giver:
        handed = giver.give(spark.range(0, 10, 1, 2).selectExpr("id", "concat('n', id) AS note"))
    with handover("report", []) as taker:
        assert sorted(taker.read_arrow(handed)["id"].to_pylist()) == list(range(10))
        assert taker.read(handed, spark).count() == 10
    reported.finish("clean", "report")
    store.clock = lambda: now + timedelta(days=2)
    kept, leftover = f"s3://{TABLE_BUCKET}/{namespace}", f"lost_rows_{uuid4().hex[:20]}"
    catalog.load_table(handed.table.partition(".")[2]).io.new_output(f"{kept}/{leftover}/data/0.parquet").create().close()

    assert [str(doomed.table) for doomed in Collector(registry, reported, lambda _: catalog).run().dropped] == [handed.table]
    assert [action.name for action in sweep(registry, catalog, "rest")] == [leftover]
    assert Folder(kept, config.properties).newest() is None, "SeaweedFS still lists the folder, without an object"
    catalog.drop_namespace(namespace)


@pytest.mark.soak_only
def test_a_build_of_a_table_is_published_on_s3_at_its_snapshot_and_its_old_runs_go(
    fleet: FleetLake, spark: SparkSession, servers: CatalogServers, tmp_path: Path
) -> None:
    name, url = fleet.make("features"), f"s3://{BUCKET}/builds/{uuid4().hex}"
    storage, registry = Storage(url, servers.arrow_options), BuildRegistry(fleet.store)
    spec = BuildSpec(dataset="features", key="id", sharding=Sharding.hash(2))

    def built(number: int) -> list[int]:
        as_of = fleet.store.clock() + timedelta(days=number)
        handle = registry.begin("features", url, as_of=as_of, num_shards=2, storage=storage)
        written = SparkSource.table(spark, name).write(storage, handle.run_id, spec, Sharding.hash(2), Interrupt())
        attempts = read_attempts(storage, handle.run_id)
        manifest = select(handle, attempts, written, Sharding.hash(2), spec.shard_format, fleet.store.clock())
        publish(registry, storage, handle, manifest, verify=FileCheck.CHECKSUMS)
        with SnapshotReader(url, servers.arrow_options, cache_dir=tmp_path / f"{number}") as reader:
            return sorted(row["id"] for shard in range(2) for row in reader.scan(shard_id=shard))

    assert built(0) == fleet.rows(name)
    load_table(fleet.catalog, name).append(pa.table({"id": [99], "note": ["new"]}))
    assert built(1) == fleet.rows(name)
    gone = cleanup(registry, storage, "features", Retention(keep_runs=1))
    assert {action.error for action in gone} == {None}
    assert {found.path.split("/")[1] for found in storage.objects("data/")} == {registry.runs("features").items[0].run_id}


def test_the_storage_of_a_table_bucket_can_be_tried(config: CatalogConfig) -> None:
    catalog = config.load()
    warehouse = warehouse_of(config, catalog)
    assert warehouse == f"s3://{TABLE_BUCKET}"
    with trial_file(catalog, warehouse) as place:
        assert S3Objects(config.properties).stat([place]).keys() == {place}
    assert S3Objects(config.properties).stat([place]) == {}


def test_commits_reach_a_schedule_by_the_poller_and_a_consumer_by_its_look(fleet: FleetLake) -> None:
    name = fleet.make("views")
    trigger = CommitsAdded(name.dotted, 2)
    Schedules(fleet.store, catalog="rest").create(Schedule("counted", dag_id="report", trigger=trigger, enabled=True))
    poller = Poller(fleet.store, catalog_name="rest", broker=Broker(fleet.config.load))
    consumer = Consumer(fleet.store, "report.wait", trigger, catalog_name="rest")

    def load(table: TableName) -> Table:
        return load_table(fleet.catalog, table)

    poller.step()
    assert not consumer.look("run1", load).satisfied
    table = load_table(fleet.catalog, name)
    for number in range(2):
        table.append(pa.table({"id": [number], "note": ["new"]}))
    fleet.store.clock = lambda: datetime.now(UTC) + timedelta(minutes=1)
    assert poller.step().events == 2
    assert consumer.look("run1", load).satisfied
