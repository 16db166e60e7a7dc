"""Tables in need of maintenance, and an engine to give it to them."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from running_jobs import running_job

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs.model import Job
from airflow_snowpack.maintenance import DEFAULT_ORDER, SparkEngine
from airflow_snowpack.maintenance.removals.records import Removals
from airflow_snowpack.store import open_store

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def no_tables_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Drop what a test adds to the catalog of the session, because each removal and each expiry reads all of its tables."""
    if "spark" not in request.fixturenames:
        yield
        return
    catalog: Catalog = request.getfixturevalue("catalog")
    before = tables_in(catalog)
    yield
    for identifier in tables_in(catalog) - before:
        catalog.drop_table(identifier)


def tables_in(catalog: Catalog) -> set[tuple[str, ...]]:
    return {identifier for namespace in catalog.list_namespaces() for identifier in catalog.list_tables(namespace)}


@pytest.fixture(scope="session")
def removals(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Removals]:
    """Where the engine of these tests keeps the lists of what it deletes."""
    file = shutil.copy(migrated_sqlite, tmp_path_factory.mktemp("removals") / "snowpack.db")
    with open_store(f"sqlite:///{file}") as store:
        yield Removals(store)


@pytest.fixture
def engine(spark: SparkSession, catalog: Catalog, removals: Removals) -> SparkEngine:
    return SparkEngine(lambda: spark, lambda: catalog, removals=removals)


@pytest.fixture
def job_for(removals: Removals) -> Callable[..., Job]:
    """A job for a table; options by action, such as ``job_for(name, rewrite_data_files={"min_input_files": 2})``.

    Spark runs each action, needed or not, unless its options say ``only_if_needed``: these tests are about what Spark does.
    """

    def make(table: TableName, **given: Mapping[str, Any]) -> Job:
        actions = dict.fromkeys((*DEFAULT_ORDER, *given))
        options = {action: {"only_if_needed": False, **given.get(action, {})} for action in actions}
        return running_job(removals.store, table, options)

    return make


@dataclass(frozen=True)
class Content:
    """What a reader sees of a table; maintenance must not change it."""

    rows: int
    checksum: int


@pytest.fixture
def content_of(table_of: Callable[[TableName], Table]) -> Callable[[TableName], Content]:
    """Read a table without Spark, as another engine would."""

    def read(name: TableName) -> Content:
        rows = sorted(tuple(row.values()) for row in table_of(name).scan().to_arrow().to_pylist())
        return Content(len(rows), hash(tuple(rows)))

    return read


@pytest.fixture
def table_of(catalog: Catalog) -> Callable[[TableName], Table]:
    """PyIceberg's view of a table as it is now."""
    return lambda name: catalog.load_table(name.identifier)


@pytest.fixture
def slow_to_rewrite(
    spark: SparkSession, new_table: Callable[..., TableName], append: Callable[..., None]
) -> Callable[[], TableName]:
    """A table whose rewrite takes seconds, for another process to be killed meanwhile: its files get compressed that hard."""

    def make() -> TableName:
        name, rows, digits = new_table("id BIGINT, note STRING"), 25_000, random.Random(13)
        for _ in range(3):
            append(name, id=range(rows), note=[f"{digits.getrandbits(432):0108x}" for _ in range(rows)])
        hard = "'write.parquet.compression-codec' = 'zstd', 'write.parquet.compression-level' = '19'"
        spark.sql(f"ALTER TABLE {name.quoted} SET TBLPROPERTIES ({hard})")
        return name

    return make


@pytest.fixture(scope="session")
def first_made() -> dict[tuple[tuple[str, Any], ...], tuple[str, Path]]:
    """What :func:`fragmented` has made: the metadata file of each kind of table, and a copy of its folder."""
    return {}


@pytest.fixture
def fragmented(
    spark: SparkSession,
    catalog: Catalog,
    new_table: Callable[..., TableName],
    append: Callable[..., None],
    first_made: dict[tuple[tuple[str, Any], ...], tuple[str, Path]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., TableName]:
    """A partitioned merge-on-read table of many small commits, some rows of which were deleted again.

    PyIceberg makes the appends, or Spark with ``inserted_by_spark``; the deletes are always Spark's. Tables that are made alike
    have one folder, which is as the first of them was each time: one of a kind for each test.
    """

    of_this_test = set[tuple[tuple[str, Any], ...]]()

    def append_rows(name: TableName, first: int, rows: int, parts: int) -> None:
        ids = range(first, first + rows)
        append(name, id=ids, part=[number % parts for number in ids], note=[f"n{number}" for number in ids])

    def insert(name: TableName, first: int, rows: int, parts: int) -> None:
        source = f"range({first}, {first + rows}, 1, 1)"
        spark.sql(f"INSERT INTO {name.quoted} SELECT id, id % {parts}, concat('n', id) FROM {source}")

    def make(
        commits: int = 6, parts: int = 2, deletes: int = 2, rows: int = 40, inserted_by_spark: bool = False, **properties: str
    ) -> TableName:
        name = new_table("id BIGINT, part INT, note STRING", "part", **properties)
        for first in range(0, commits * rows, rows):
            (insert if inserted_by_spark else append_rows)(name, first, rows, parts)
        for number in range(deletes):
            spark.sql(f"DELETE FROM {name.quoted} WHERE id % 10 = {number}")
        return name

    def copy(**arguments: Any) -> TableName:
        kind = tuple(sorted(arguments.items()))
        assert kind not in of_this_test, "another table has the folder"
        of_this_test.add(kind)
        if kind not in first_made:
            table = catalog.load_table(make(**arguments).identifier)
            kept = tmp_path_factory.mktemp("fragmented") / "table"
            shutil.copytree(table.location().removeprefix("file:"), kept)
            catalog.drop_table(table.name())
            first_made[kind] = table.metadata_location, kept
        metadata_file, kept = first_made[kind]
        folder = Path(metadata_file.removeprefix("file:")).parents[1]
        shutil.rmtree(folder)
        shutil.copytree(kept, folder)
        name = TableName(catalog.name, "db", f"t_{uuid4().hex[:12]}")
        catalog.register_table(name.identifier, metadata_file)
        return name

    return copy


@pytest.fixture
def one_commit(fragmented: Callable[..., TableName]) -> TableName:
    """A table of one commit, for the tests of what must not change a table."""
    return fragmented(commits=1, deletes=0)
