"""The actions on tables of REST, Hive and Glue catalogs, those of REST and Glue on S3, and what these catalogs list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hive_metastore import ThriftHiveMetastore
from spark_world import FirstMade, SparkWorld

from airflow_snowpack.iceberg import CatalogConfig, CatalogUnreachable, ForeignFiles, TableName, load_table
from airflow_snowpack.iceberg.broker import Broker
from airflow_snowpack.iceberg.errors import TableNotFound
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance import Action
from airflow_snowpack.maintenance.removals.records import Removals
from examples.cluster.glue import Glue
from examples.cluster.metastore import Metastore
from examples.cluster.seaweedfs import SeaweedFS
from tests.integration.conftest import DATABASE, appender, table_maker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)  # a metastore starts twice, in a JVM of its own

SPARK = "Local Spark"
REST = pytest.param("rest", marks=pytest.mark.cell(SPARK, "REST", "S3"))
HIVE = pytest.param("hive", marks=pytest.mark.cell(SPARK, "Hive Metastore", "local files"))
GLUE = pytest.param("glue", marks=pytest.mark.cell(SPARK, "Glue", "S3"))
SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.int32()), ("note", pa.string())])
ROWS = pa.table({"id": [1], "part": [0], "note": ["new"]}, SCHEMA)
COMPACT = {"min_input_files": 2}


class Servers:
    """Starts each server once, when a test needs it."""

    def __init__(self, home: Path, spark: SparkSession) -> None:
        self._home = home
        self._spark = spark
        self._running = ExitStack()
        self._s3: SeaweedFS | None = None
        self._configs: dict[str, CatalogConfig] = {}

    def catalog(self, kind: str) -> CatalogConfig:
        if kind not in self._configs:
            self._configs[kind] = config = {"rest": self._rest, "hive": self._hive, "glue": self._glue}[kind]()
            for key, value in config.spark_conf().items():
                self._spark.conf.set(key, value)
            config.load().create_namespace(DATABASE)
        return self._configs[kind]

    def stop(self) -> None:
        self._running.close()

    def _rest(self) -> CatalogConfig:
        return self._seaweedfs().catalog("rest")

    def _hive(self) -> CatalogConfig:
        server = Metastore(self._home / "hive")
        self._running.callback(server.stop)
        server.start()
        return server.catalog("hive")

    def _glue(self) -> CatalogConfig:
        s3 = self._seaweedfs()
        server = Glue(self._home / "glue", s3)
        self._running.callback(server.stop)
        server.start()
        for name, value in (("accessKeyId", s3.access_key), ("secretAccessKey", s3.secret_key)):
            self._spark._jvm.java.lang.System.setProperty(f"aws.{name}", value)  # type: ignore[union-attr]
        return server.catalog("glue")

    def _seaweedfs(self) -> SeaweedFS:
        if self._s3 is None:
            self._s3 = SeaweedFS(self._home / "s3")
            self._running.callback(self._s3.stop)
            self._s3.start()
        return self._s3


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Servers]:
    found = Servers(tmp_path_factory.mktemp("servers"), spark)
    yield found
    found.stop()


@pytest.fixture
def world_of(servers: Servers, spark: SparkSession, removals: Removals, tmp_path: Path) -> Callable[[str], SparkWorld]:
    def world(kind: str) -> SparkWorld:
        config = servers.catalog(kind)
        catalog = config.load(limit=timedelta(seconds=60))
        return SparkWorld(spark, catalog, removals, table_maker(spark, config.name), appender(catalog), FirstMade(tmp_path))

    return world


def put(world: SparkWorld, path: str) -> str:
    """Write an object."""
    io = world.catalog._load_file_io(location=path)
    with io.new_output(path).create() as stream:
        stream.write(b"stray")
    return path


@pytest.mark.parametrize("kind", [REST, HIVE, GLUE])
def test_the_five_actions_keep_all_rows(world_of: Callable[[str], SparkWorld], kind: str) -> None:
    world = world_of(kind)
    name = world._made(commits=4)
    before = world.content(name)
    job = world.job(name, rewrite_data_files=COMPACT, expire_snapshots={"max_age": "PT0S", "retain_last": 1})

    results = {action: world.engine.run(job, action) for action in Action}

    assert {found.outcome for found in results.values()} == {ActionOutcome.SUCCEEDED}
    assert results[Action.REWRITE_DATA_FILES].message == "Compacted 8 files into 2"
    assert results[Action.EXPIRE_SNAPSHOTS].metrics["expired_snapshots_count"] > 0
    assert results[Action.REMOVE_ORPHAN_FILES].message == "No orphan files"
    assert world.content(name) == before
    assert sorted(map(tuple, world.sql(f"SELECT * FROM {name.quoted}"))) == before
    assert len(world.table(name).metadata.snapshots) == 1


@pytest.mark.parametrize("kind", [REST, HIVE])
def test_a_lost_commit_is_a_conflict_and_the_writer_wins(world_of: Callable[[str], SparkWorld], kind: str) -> None:
    world = world_of(kind)
    name = world._made(commits=3, parts=1, deletes=0)

    with world.meanwhile(lambda: world.table(name).overwrite(ROWS)):
        result = world.run(name, Action.REWRITE_DATA_FILES, engine=world.new_engine(tries=1), **COMPACT)

    assert result.outcome is ActionOutcome.CONFLICT
    assert world.content(name) == [(1, 0, "new")]


@pytest.mark.parametrize("kind", [HIVE, GLUE])
def test_files_of_a_table_in_another_format_are_not_orphans(world_of: Callable[[str], SparkWorld], kind: str) -> None:
    world = world_of(kind)
    name = world._made(commits=1, deletes=0)
    place = world.table(name).location()
    inside = f"{place}/data/exported"
    theirs, beside = put(world, f"{inside}/part-0.parquet"), put(world, f"{inside}-2/part-0.parquet")
    create_in_another_format(world.catalog, "exported", inside)

    result = world.run(name, Action.REMOVE_ORPHAN_FILES)

    assert result.outcome is not ActionOutcome.SUCCEEDED
    assert f"{DATABASE}.exported (inside it at {inside})" in str(result.error)
    assert ForeignFiles.of(world.catalog, name).named([theirs, beside], [place]) == {theirs: f"{DATABASE}.exported"}


def create_in_another_format(catalog: Any, name: str, location: str) -> None:
    """Create an external table of Parquet files, as Hive and Athena do."""
    if catalog.name == "glue":
        given = {"Name": name, "StorageDescriptor": {"Location": location}, "Parameters": {"classification": "parquet"}}
        catalog.glue.create_table(DatabaseName=DATABASE, TableInput=given)
        return
    from hive_metastore.ttypes import SerDeInfo, StorageDescriptor, Table

    stored = StorageDescriptor(cols=[], location=location, serdeInfo=SerDeInfo(), bucketCols=[], sortCols=[], parameters={})
    external = {"EXTERNAL": "TRUE"}
    with catalog._client as client:
        client.create_table(
            Table(name, DATABASE, "hive", sd=stored, partitionKeys=[], parameters=external, tableType="EXTERNAL_TABLE")
        )


@pytest.mark.parametrize("kind", [HIVE, GLUE])
def test_a_table_that_has_not_changed_is_not_read_again(world_of: Callable[[str], SparkWorld], kind: str) -> None:
    world = world_of(kind)
    name = world._made(commits=1, deletes=0)
    broker = Broker(lambda: world.catalog)

    def moved(known: str | None) -> dict[TableName, Any]:
        return dict(broker.read({name: known}, lambda _, table: table.metadata_location))

    first = moved(None)[name]
    assert moved(first) == {name: None}
    world.append(name, id=[9], part=[0], note=["later"])
    assert moved(first)[name] not in (first, None)


@pytest.mark.parametrize("kind", [HIVE])
def test_a_table_that_the_metastore_names_and_withholds_is_not_taken_for_none(
    world_of: Callable[[str], SparkWorld], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(kind)
    name, withheld = world._made(commits=1, deletes=0), world._made(commits=1, deletes=0)

    def filtered(client: Any, database: str, names: list[str]) -> list[Any]:
        return [table for table in really(client, database, names) if table.tableName != withheld.table]

    really = ThriftHiveMetastore.Client.get_table_objects_by_name
    monkeypatch.setattr(ThriftHiveMetastore.Client, "get_table_objects_by_name", filtered)

    assert withheld.dotted in {other.label for other in ForeignFiles.of(world.catalog, name).others}


@pytest.mark.parametrize("kind", [HIVE])
def test_a_table_has_one_name_although_the_catalog_ignores_case(world_of: Callable[[str], SparkWorld], kind: str) -> None:
    world = world_of(kind)
    name = world._made(commits=1, deletes=0)

    with pytest.raises(TableNotFound, match=rf"Its database has: {name.dotted}\."):
        load_table(world.catalog, TableName.parse(name.dotted.upper(), catalog=kind))


@pytest.mark.parametrize("kind", [HIVE, GLUE])
def test_a_table_in_another_format_is_not_found(world_of: Callable[[str], SparkWorld], kind: str) -> None:
    world = world_of(kind)
    create_in_another_format(world.catalog, "csv", "file:///nowhere/csv")

    with pytest.raises(TableNotFound, match=r"has no table 'db\.csv'"):
        load_table(world.catalog, TableName.parse(f"{DATABASE}.csv", catalog=kind))


def test_a_wrong_secret_is_named(servers: Servers) -> None:
    config = servers.catalog("rest")
    wrong = replace(config, properties={**config.properties, "credential": "admin:wrong"})

    with pytest.raises(CatalogUnreachable, match=r"(?i)unauthorized|invalid"):
        wrong.load()


def test_a_metastore_that_is_not_there_is_named() -> None:
    nowhere = CatalogConfig.hive("lake", "thrift://127.0.0.1:1,thrift://127.0.0.1:2").load(limit=timedelta(seconds=5))

    with pytest.raises(CatalogUnreachable, match="Could not connect"):
        load_table(nowhere, TableName.parse("db.t", catalog="lake"))
