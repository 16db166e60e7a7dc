"""Orphans on S3 are removed by Spark, and no file that any table of the catalog refers to, wherever the tables lie."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pytest
from catalog_servers import SECOND_BUCKET, CatalogServers
from effort import rounds, seed
from spark_world import SparkWorld

from airflow_snowpack.iceberg import MetadataReader, TableName
from airflow_snowpack.iceberg.locations import is_inside, normalise
from airflow_snowpack.iceberg.s3_objects import S3Objects, split
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance import Action
from examples.cluster.file_age import set_modified
from examples.cluster.seaweedfs import BUCKET, TABLE_BUCKET

if TYPE_CHECKING:
    from pyiceberg.table import Table

LAKES, TABLES = rounds(1, soak=60), rounds(2, soak=3)
SCHEMA = pa.schema([("id", pa.int64())])
AGE_S = 10 * 86_400
ODD = "a b%20c+d=é"

pytestmark = pytest.mark.timeout(600)
REST = pytest.param("rest", marks=pytest.mark.cell("Local Spark", "REST", "S3"))
SQL = pytest.param("sql", marks=pytest.mark.cell("Local Spark", "SQL", "S3"))


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
        pages = self.objects.client.get_paginator("list_objects_v2")
        listed = ((bucket, page) for bucket in (BUCKET, SECOND_BUCKET, TABLE_BUCKET) for page in pages.paginate(Bucket=bucket))
        return {f"s3://{bucket}/{each['Key']}" for bucket, page in listed for each in page.get("Contents", ())}

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
        for name in chance.sample(lake.names, k=TABLES):
            options: dict[str, Any] = chance.choice(({}, {"equal_schemes": {"s3a,s3n": "s3"}}))
            result = lake.world.run(name, Action.REMOVE_ORPHAN_FILES, **options)
            lake.log.append(f"{name.table}: {result.message} {result.error}")
            if result.outcome is ActionOutcome.SUCCEEDED:
                left = lake.strays & lake.stored()
                assert not [path for path in left if is_inside(path, lake.world.table(name).location())], lake.log
            done["removed"] += result.metrics.get("removed_files_count", 0)
            done["refused"] += result.outcome is not ActionOutcome.SUCCEEDED
        assert needed <= lake.stored(), (sorted(needed - lake.stored()), *lake.log)
    record_property("measured", done)
    assert done["removed"] > 0, "a guard that keeps everything proves nothing"
