"""Orphans on S3 are removed by Spark, and no file that any table of the catalog refers to, wherever the tables lie."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pyarrow as pa
import pytest
from catalog_servers import SECOND_BUCKET, CatalogServers
from clocks import MovedClock
from effort import rounds, seed
from faulty_proxy import FaultyProxy, faulty_proxy
from spark_world import SparkWorld

from airflow_snowpack.iceberg import CatalogConfig, MetadataReader, StoredFile, TableName, find_orphans
from airflow_snowpack.iceberg.locations import is_inside, normalise
from airflow_snowpack.iceberg.quarantine import means_of, open_quarantine
from airflow_snowpack.iceberg.s3_objects import S3Objects, split
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance import Action
from airflow_snowpack.maintenance.action_run import ActionRun
from airflow_snowpack.maintenance.removals.model import ItemOutcome, RemovalItem, RemovalKind, RemovalState
from airflow_snowpack.maintenance.removals.of_job import JobRemovals
from airflow_snowpack.maintenance.removals.orphan_files import OrphanFiles
from airflow_snowpack.maintenance.removals.quarantine import purge, quarantine_settings, take_away
from airflow_snowpack.maintenance.removals.records import Removals
from airflow_snowpack.maintenance.removals.running import carry_out
from airflow_snowpack.spark import SparkWork
from airflow_snowpack.store import open_store
from examples.cluster.file_age import set_modified
from examples.cluster.seaweedfs import BUCKET, TABLE_BUCKET

if TYPE_CHECKING:
    from pyiceberg.table import Table

LAKES, TABLES = rounds(1, soak=60), rounds(2, soak=3)
SCHEMA = pa.schema([("id", pa.int64())])
MORE_THAN_ICEBERGS_BATCH = 260
AGE_S = 10 * 86_400
ODD = "a b%20c+d=é"

pytestmark = pytest.mark.timeout(600)
REST = pytest.param("rest", marks=pytest.mark.cell("Local Spark", "REST", "S3"))
SQL = pytest.param("sql", marks=[pytest.mark.cell("Local Spark", "SQL", "S3"), pytest.mark.soak_only])


@dataclass
class S3Lake:
    """Tables in one catalog that share places, and strays.

    :ivar log: what was done, for the message of a failure.
    """

    world: SparkWorld
    servers: CatalogServers
    random: random.Random
    names: list[TableName] = field(default_factory=list)
    strays: set[str] = field(default_factory=set)
    log: list[str] = field(default_factory=list)
    _id: str = field(default_factory=lambda: f"l{uuid4().hex[:8]}")

    @cached_property
    def objects(self) -> S3Objects:
        return S3Objects(self.servers.s3.s3_properties)

    @property
    def has_table_bucket(self) -> bool:
        """The REST catalog has tables in a bucket of its own only, none inside another, and takes ``s3://`` alone."""
        return self.world.catalog.name == "rest"

    def build(self) -> None:
        for _ in range(2):
            self.create()
        for _ in range(4):
            self.random.choice((self.create, self.create, self.add_files, self.bring_home))()
        for _ in range(6):
            self.litter()
        self.age()

    def create(self, location: str | None = None, **properties: str) -> Table:
        name = f"{self._id}_{len(self.names)}"
        if location is None and self.random.random() < 0.7:
            location = self.place(name)
        if not properties and self.random.random() < 0.6:
            properties = {"write.data.path": self.data_path()}
        self.log.append(f"create {name} at {location} with {properties}")
        table = self.world.catalog.create_table(("db", name), SCHEMA, location=location, properties=properties)
        self.names.append(TableName(self.world.catalog.name, "db", name))
        for number in range(2):
            table.append(pa.table({"id": [number]}, SCHEMA))
        return table

    def place(self, name: str) -> str:
        """A location of its own, one whose name begins like another's, or one inside another's."""
        around = self.pick().location().rstrip("/") if self.names else f"{self.home}/first"
        places = [f"{self.home}/{name}", f"{around}2", f"{around}/{name}", f"{around}/{ODD}"]
        place = self.random.choice(places[:2] if self.has_table_bucket else places)
        if f"{place}/" in {f"{self.world.table(each).location().rstrip('/')}/" for each in self.names}:
            place = f"{self.home}/{name}"
        return self.spelled(place)

    def data_path(self) -> str:
        inside = f"{self.pick().location().rstrip('/')}/data/guests" if self.names else f"s3://{BUCKET}/{self._id}/guests"
        shared = [f"s3://{bucket}/{self._id}/shared" for bucket in (BUCKET, SECOND_BUCKET)]
        return self.spelled(self.random.choice((inside, *shared)), any_scheme=True)

    def spelled(self, place: str, *, any_scheme: bool = False) -> str:
        if any_scheme or not self.has_table_bucket:
            place = self.random.choice((place, place, place.replace("s3://", "s3a://")))
        return place + self.random.choice(("", "", "/"))

    def add_files(self) -> None:
        giver, taker = self.pick(), self.pick()
        have = {task.file.file_path for task in taker.scan().plan_files()}
        new = [path for task in giver.scan().plan_files() if (path := task.file.file_path) not in have][:1]
        if new:
            self.log.append(f"add {new} to {taker.name()[-1]}")
            taker.add_files(new)

    def bring_home(self) -> None:
        table = self.pick()
        if "write.data.path" in table.properties:
            self.log.append(f"{table.name()[-1]} has no more paths")
            with table.transaction() as change:
                change.remove_properties("write.data.path")

    def litter(self) -> None:
        table = self.pick()
        folder = self.random.choice((f"{table.location().rstrip('/')}/data", table.properties.get("write.data.path", "")))
        path = normalise(f"{folder or table.location() + '/data'}/{self.random.choice((uuid4().hex, ODD))}.parquet")
        self.strays.add(path)
        bucket, key = split(path)
        self.objects.client.put_object(Bucket=bucket, Key=key, Body=b"stray")

    def pick(self) -> Table:
        return self.world.table(self.random.choice(self.names))

    @property
    def home(self) -> str:
        return f"s3://{TABLE_BUCKET if self.has_table_bucket else self.random.choice((BUCKET, SECOND_BUCKET))}/{self._id}"

    def stored(self) -> set[str]:
        """Return the objects of this lake."""
        pages = self.objects.client.get_paginator("list_objects_v2")
        listed = ((bucket, page) for bucket in (BUCKET, SECOND_BUCKET, TABLE_BUCKET) for page in pages.paginate(Bucket=bucket))
        found = ((bucket, each["Key"]) for bucket, page in listed for each in page.get("Contents", ()))
        return {f"s3://{bucket}/{key}" for bucket, key in found if self._id in key}

    def age(self) -> None:
        set_modified(self.servers.s3.filer, (path.removeprefix("s3://") for path in self.stored()), time.time() - AGE_S)

    def referenced(self) -> set[str]:
        return {path for name in self.names for path in MetadataReader(self.world.table(name)).referenced_files(normalise)}


@pytest.fixture
def lake_of(world_of: Callable[[str], SparkWorld], servers: CatalogServers) -> Callable[[str, random.Random], S3Lake]:
    def lake(kind: str, chance: random.Random) -> S3Lake:
        return S3Lake(world_of(kind), servers, chance)

    return lake


@pytest.mark.parametrize("kind", [REST, SQL])
def test_no_file_that_a_table_refers_to_is_removed_with_the_orphans(
    lake_of: Callable[[str, random.Random], S3Lake], kind: str, record_property: Callable[[str, object], None]
) -> None:
    done = {"removed": 0, "refused": 0}
    for number in range(LAKES):
        chance = random.Random(seed(28) + number)
        lake = lake_of(kind, chance)
        lake.build()
        needed = lake.referenced() & lake.stored()
        for name in chance.sample(lake.names, k=min(TABLES, len(lake.names))):
            options: dict[str, Any] = chance.choice(({}, {"equal_schemes": {"s3a,s3n": "s3"}}))
            result = lake.world.run(name, Action.REMOVE_ORPHAN_FILES, **options)
            lake.log.append(f"{name.table}: {result.message} {result.error}")
            if result.outcome is ActionOutcome.SUCCEEDED:
                left = lake.strays & lake.stored()
                assert not [path for path in left if is_inside(path, lake.world.table(name).location())], lake.log
            done["removed"] += result.metrics.get("removed_files_count", 0)
            done["refused"] += result.outcome is not ActionOutcome.SUCCEEDED
        assert needed <= lake.stored(), (sorted(needed - lake.stored()), *lake.log)
        for name in lake.names:
            lake.world.catalog.drop_table(name.identifier)
    record_property("measured", done)
    assert done["removed"] > 0, "a guard that keeps everything proves nothing"


@pytest.fixture
def proxy(servers: CatalogServers) -> Iterator[FaultyProxy]:
    with faulty_proxy(servers.s3.endpoint) as running:
        yield running


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock(datetime.now(UTC))


@pytest.fixture
def counted(
    world_of: Callable[[str | CatalogConfig], SparkWorld],
    servers: CatalogServers,
    proxy: FaultyProxy,
    clock: MovedClock,
    sqlite_url: str,
    tmp_path: Path,
) -> Iterator[SparkWorld]:
    """A catalog of this test, whose files are behind the proxy, and a store whose clock it moves."""
    sql = servers.catalog("sql")
    properties = {**sql.properties, "s3.endpoint": proxy.url}
    name = f"counted_{uuid4().hex[:8]}"
    warehouse = f"s3://{BUCKET}/{name}"
    config = CatalogConfig.sqlite(name, tmp_path / "counted.db", warehouse=warehouse, properties=properties)
    config.load().create_namespace("db")
    with open_store(sqlite_url, clock=clock) as store:
        world = world_of(servers.add_to_spark(config))
        world.removals = Removals(store)
        world.engine = world.new_engine()
        yield world


def littered(world: SparkWorld, servers: CatalogServers, count: int) -> TableName:
    """Make a table with so many old orphans."""
    name = world.new_table("id BIGINT")
    world.append(name, id=[1])
    objects = S3Objects(servers.s3.s3_properties)
    bucket, key = split(f"{world.table(name).location()}/data")
    keys = [f"{key}/{ODD}-{number}.parquet" for number in range(count)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda each: objects.client.put_object(Bucket=bucket, Key=each, Body=b"stray"), keys))
    set_modified(servers.s3.filer, [f"{bucket}/{each}" for each in keys], time.time() - AGE_S)
    return name


def deletions(proxy: FaultyProxy) -> tuple[int, int]:
    """Return how many requests deleted several objects, and how many a single one; forget all."""
    bulk = sum("delete" in parse_qs(urlsplit(path).query, keep_blank_values=True) for _, path in proxy.requests)
    single = sum(method == "DELETE" for method, _ in proxy.requests)
    proxy.requests.clear()
    return bulk, single


@pytest.mark.cell("Local Spark", "SQL", "S3")
def test_orphans_are_deleted_by_up_to_a_thousand_in_a_request(
    counted: SparkWorld, servers: CatalogServers, proxy: FaultyProxy
) -> None:
    name = littered(counted, servers, MORE_THAN_ICEBERGS_BATCH)
    proxy.requests.clear()

    result = counted.run(name, Action.REMOVE_ORPHAN_FILES)

    assert result.metrics["removed_files_count"] == MORE_THAN_ICEBERGS_BATCH
    assert len(proxy.requests) < 50, "no request for each object"
    assert deletions(proxy) == (1, 0)


def test_copies_in_quarantine_are_purged_by_up_to_a_thousand_in_a_request(
    counted: SparkWorld, servers: CatalogServers, proxy: FaultyProxy, clock: MovedClock
) -> None:
    name, records = littered(counted, servers, 20), counted.removals
    jobs, table = Jobs(records.store), counted.table(name)
    claim = jobs.submit_and_claim(name, [Action.REMOVE_ORPHAN_FILES], "w")
    of_job, not_needed = JobRemovals(records, claim.job), cast("Any", None)
    settings = {"quarantine": "1h", **quarantine_settings(table, may_copy=True)}
    orphans = [RemovalItem(each.path, each.bytes, each.modified_at) for each in find_orphans(table, older_than=clock())]
    planned = of_job.plan(RemovalKind.ORPHANS, table, orphans, settings=settings)
    assert planned is not None
    run = ActionRun("job", name, "remove_orphan_files", not_needed, SparkWork(), counted.catalog, clock(), 1, removals=of_job)
    taken = carry_out(run, planned.removal_id, OrphanFiles(lambda run, settings, paths: paths))
    assert taken.metrics["quarantined_files_count"] == 20, taken
    jobs.cancel(claim.job.job_id)
    jobs.locks.release(name, claim.job.job_id)
    clock.now += timedelta(hours=2)
    later = JobRemovals(records, jobs.submit_and_claim(name, [Action.REMOVE_ORPHAN_FILES], "w").job)
    proxy.requests.clear()

    assert purge(later, lambda: counted.catalog, lambda: False) == 20

    assert deletions(proxy) == (1, 0)
    assert (records.get(planned.removal_id).state, records.get(planned.removal_id).deleted_count) == (RemovalState.DELETED, 20)


def test_a_versioned_bucket_hides_objects_by_a_thousand_in_a_request_and_shows_them_again(
    servers: CatalogServers, proxy: FaultyProxy
) -> None:
    properties = {**servers.s3.s3_properties, "s3.endpoint": proxy.url}
    client, bucket = S3Objects(properties).client, f"versioned-{uuid4().hex[:8]}"
    client.create_bucket(Bucket=bucket)
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    keys = [f"db/t/data/{ODD}-{number}.parquet" for number in range(20)]
    for key in keys:
        client.put_object(Bucket=bucket, Key=key, Body=b"stray")
    at = {each["Key"]: each["LastModified"] for each in client.list_objects_v2(Bucket=bucket)["Contents"]}
    items = [RemovalItem(f"s3://{bucket}/{key}", 5, at[key]) for key in keys]
    location = f"s3://{bucket}/db/t"
    quarantine = open_quarantine(means_of(location, properties, may_copy=False), location, properties, "r1")
    proxy.requests.clear()

    taken = take_away(quarantine, items, lambda: False)

    assert {item.outcome for item in taken} == {ItemOutcome.QUARANTINED}
    assert deletions(proxy) == (1, 0)
    assert client.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
    assert all(quarantine.restore(StoredFile(item.name, 5, item.at)) for item in items)
    assert client.list_objects_v2(Bucket=bucket)["KeyCount"] == 20
