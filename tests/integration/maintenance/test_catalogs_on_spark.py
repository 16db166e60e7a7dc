"""The actions on tables of REST, Hive and Glue catalogs, those of REST and Glue on S3, and what these catalogs list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from catalog_servers import CatalogServers
from faulty_proxy import Fault, FaultyProxy, faulty_proxy
from hive_metastore import ThriftHiveMetastore
from rest_catalog import rest_catalog
from running_jobs import running_job
from spark_world import SparkWorld

from airflow_snowpack.iceberg import (
    CatalogConfig,
    CatalogUnreachable,
    ForeignFiles,
    MetadataReader,
    TableName,
    list_storage,
    load_table,
    read_health,
)
from airflow_snowpack.iceberg.broker import Broker
from airflow_snowpack.iceberg.errors import TableNotFound
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance import Action, SparkEngine
from airflow_snowpack.maintenance.removals.errors import RemovalRefused
from airflow_snowpack.maintenance.removals.records import Removals
from airflow_snowpack.maintenance.removals.running import refuse_protected
from airflow_snowpack.maintenance.table_defaults import table_defaults
from tests.integration.conftest import DATABASE

pytestmark = pytest.mark.timeout(600)  # a metastore starts twice, in a JVM of its own

SPARK = "Local Spark"
REST = pytest.param("rest", marks=pytest.mark.cell(SPARK, "REST", "S3"))
HIVE = pytest.param("hive", marks=pytest.mark.cell(SPARK, "Hive Metastore", "local files"))
GLUE = pytest.param("glue", marks=pytest.mark.cell(SPARK, "Glue", "S3"))
VENDED = pytest.param("vended", marks=[pytest.mark.cell(SPARK, "REST with vended credentials", "S3"), pytest.mark.soak_only])
SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.int32()), ("note", pa.string())])
ROWS = pa.table({"id": [1], "part": [0], "note": ["new"]}, SCHEMA)
COMPACT = {"min_input_files": 2}


def put(world: SparkWorld, path: str) -> str:
    """Write an object."""
    io = world.catalog._load_file_io(location=path)
    with io.new_output(path).create() as stream:
        stream.write(b"stray")
    return path


@pytest.mark.parametrize("kind", [REST, HIVE, GLUE, VENDED])
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


@pytest.mark.parametrize("kind", [REST, HIVE, VENDED])
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
def test_a_table_in_another_format_is_not_found(world_of: Callable[[str], SparkWorld], kind: str, tmp_path: Path) -> None:
    world = world_of(kind)
    create_in_another_format(world.catalog, "csv", f"file://{tmp_path}/csv")

    with pytest.raises(TableNotFound, match=r"has no table 'db\.csv'"):
        load_table(world.catalog, TableName.parse(f"{DATABASE}.csv", catalog=kind))


@pytest.fixture
def proxy(servers: CatalogServers) -> Iterator[FaultyProxy]:
    """A proxy of the REST catalog; it outlives the tables of the test."""
    with faulty_proxy(servers.s3.catalog_url) as running:
        yield running


@pytest.mark.cell(SPARK, "REST", "S3")
def test_a_table_that_the_connection_may_not_change_fails_once_with_the_class_of_the_refusal(
    proxy: FaultyProxy, world_of: Callable[[str | CatalogConfig], SparkWorld], servers: CatalogServers
) -> None:
    config = replace(servers.catalog("rest"), name="read_only", address=proxy.url)
    world = world_of(servers.add_to_spark(config))
    name = world._made(commits=3, deletes=0)
    before, files = world.content(name), unnamed(world, name)
    proxy.fault = lambda method, path: Fault.FORBIDDEN if method == "POST" and path.endswith(name.table) else None

    result = world.run(name, Action.REWRITE_DATA_FILES, **COMPACT)

    assert (result.outcome, result.final) == (ActionOutcome.FAILED, True)
    assert proxy.faults == 3, "a commit for each of two file groups, and one without changes; no second try"
    assert "The catalog does not permit this connection to change the table" in str(result.error)
    assert "ForbiddenException" in str(result.error)
    assert (world.content(name), unnamed(world, name)) == (before, files)


@pytest.mark.cell(SPARK, "REST", "S3")
@pytest.mark.parametrize(
    ("action", "options", "outcome"),
    [
        (Action.REWRITE_DATA_FILES, COMPACT, ActionOutcome.SUCCEEDED),
        pytest.param(Action.EXPIRE_SNAPSHOTS, {"max_age": "PT0S"}, ActionOutcome.FAILED, marks=pytest.mark.soak_only),
    ],
)
def test_a_commit_whose_response_is_lost_costs_no_row(
    proxy: FaultyProxy,
    world_of: Callable[[str | CatalogConfig], SparkWorld],
    servers: CatalogServers,
    action: Action,
    options: dict[str, Any],
    outcome: ActionOutcome,
) -> None:
    config = replace(servers.catalog("rest"), name=f"lossy_{action}", address=proxy.url)
    world = world_of(servers.add_to_spark(config))
    name = world._made(commits=3, parts=1, deletes=0)
    before = world.content(name)
    proxy.fault = lambda method, path: Fault.LOST if method == "POST" and path.endswith(name.table) and not proxy.faults else None

    result = world.run(name, action, **options)

    assert (result.outcome, result.final, proxy.faults) == (outcome, False, 1)
    assert world.content(name) == before
    if action is Action.REWRITE_DATA_FILES:
        assert result.message == "Compacted 3 files into 1, in 2 tries", "by its snapshot, as Spark has counted nothing"


def unnamed(world: SparkWorld, name: TableName) -> set[str]:
    """Return the files of a table that its metadata does not name."""
    reader = MetadataReader(world.table(name))
    return {file.path for file in list_storage(reader, older_than=datetime.max.replace(tzinfo=UTC)).orphans}


def test_nessie_is_recognised_and_loses_no_files_by_expiry_and_orphan_removal(removals: Removals) -> None:
    with rest_catalog() as nessie:
        nessie.tables, nessie.overrides = {("db",): ["orders"]}, {"nessie.is-nessie-catalog": "true"}
        catalog = CatalogConfig.rest("lake", nessie.url).load(limit=timedelta(seconds=30))
        name = TableName("lake", "db", "orders")
        engine = SparkEngine(not_needed, lambda: catalog, removals=removals)
        job = running_job(removals.store, name, {})

        results = [engine.run(job, action) for action in (Action.EXPIRE_SNAPSHOTS, Action.REMOVE_ORPHAN_FILES)]

        assert {result.outcome for result in results} == {ActionOutcome.SKIPPED}
        assert all("the catalog is Nessie" in result.message and "nessie-gc" in result.message for result in results)
        with pytest.raises(RemovalRefused, match="The catalog is Nessie"):
            refuse_protected(load_table(catalog, name))
        health = read_health(load_table(catalog, name), now=datetime.now(UTC))
        assert table_defaults(health.properties).forbidden.keys() == {Action.EXPIRE_SNAPSHOTS, Action.REMOVE_ORPHAN_FILES}


def not_needed() -> Any:
    raise AssertionError("no session is needed")


def test_a_wrong_secret_is_named(servers: CatalogServers) -> None:
    config = servers.catalog("rest")
    wrong = replace(config, properties={**config.properties, "credential": "admin:wrong"})

    with pytest.raises(CatalogUnreachable, match=r"(?i)unauthorized|invalid"):
        wrong.load()


def test_a_metastore_that_is_not_there_is_named() -> None:
    nowhere = CatalogConfig.hive("lake", "thrift://127.0.0.1:1,thrift://127.0.0.1:2").load(limit=timedelta(seconds=5))

    with pytest.raises(CatalogUnreachable, match="Could not connect"):
        load_table(nowhere, TableName.parse("db.t", catalog="lake"))
