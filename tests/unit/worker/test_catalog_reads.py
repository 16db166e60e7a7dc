"""What a worker reads from the catalog for each job, however many jobs it runs. No job needs Spark."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa
from counted_reads import counted_reads
from rest_catalog import rest_catalog
from sqlalchemy.engine import make_url

from airflow_snowpack.connections.spark import Spark
from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.installation import Installation
from airflow_snowpack.jobs import Job, JobStatus
from airflow_snowpack.maintenance import DEFAULT_ORDER
from airflow_snowpack.settings import Settings
from airflow_snowpack.store import open_store
from airflow_snowpack.worker.environment import Environment
from airflow_snowpack.worker.process import run_worker

JOBS = pytest.mark.parametrize("count", [1, 12])


@pytest.fixture(autouse=True)
def no_java_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Spark, "check", lambda _self: None)


@pytest.fixture
def installation(migrated_sqlite: Path, tmp_path: Path) -> Iterator[Installation]:
    settings, store = Settings.load(Environment({})), shutil.copy(migrated_sqlite, tmp_path / "snowpack.db")
    with closing(Installation(open_store(f"sqlite:///{store}"), settings.policy, "lake", "interim")) as installation:
        yield installation


def work(installation: Installation, config: CatalogConfig, count: int, actions: tuple[str, ...]) -> list[Job]:
    """Run a worker until it has run a job for each table."""
    names = [f"db.t{number}" for number in range(count)]
    tables = [TableName.parse(name, catalog="lake", catalog_id=config.catalog_id) for name in names]
    for table in tables:
        installation.jobs.submit(table, actions)
    spark = Spark(Settings.load(Environment({})), config)
    run_worker(installation, spark, poll=timedelta(seconds=1), until_idle=True)
    return installation.jobs.list()


@dataclass
class Connections:
    """Connections to Postgres of this process.

    :ivar at_once: the largest number that were open at the same time.
    """

    opened: int = 0
    at_once: int = 0
    now: set[int] = field(default_factory=set)


@contextmanager
def counted_connections() -> Iterator[Connections]:
    counted = Connections()

    def connect(connection: Any, _record: object) -> None:
        if type(connection).__module__.startswith("psycopg"):
            counted.opened += 1
            counted.now.add(id(connection))
            counted.at_once = max(counted.at_once, len(counted.now))

    def close(connection: Any, _record: object) -> None:
        counted.now.discard(id(connection))

    sa.event.listen(sa.pool.Pool, "connect", connect)
    sa.event.listen(sa.pool.Pool, "close", close)
    try:
        yield counted
    finally:
        sa.event.remove(sa.pool.Pool, "connect", connect)
        sa.event.remove(sa.pool.Pool, "close", close)


@JOBS
def test_a_worker_opens_one_connection_for_each_job_and_reads_the_metadata_once_for_each_action(
    installation: Installation, empty_postgres_database: str, tmp_path: Path, count: int
) -> None:
    place = make_url(empty_postgres_database)
    assert place.host is not None
    assert place.database is not None
    login = {"user": place.username, "password": place.password, "port": place.port or 5432}
    config = CatalogConfig.postgres("lake", host=place.host, database=place.database, warehouse=f"file://{tmp_path}", **login)
    with closing(config.load()) as catalog:
        catalog.create_namespace("db")
        rows = pa.table({"n": [1]})
        for number in range(count):
            catalog.create_table(f"db.t{number}", schema=rows.schema).append(rows)

    with counted_reads() as reads, counted_connections() as connections:
        jobs = work(installation, config, count, DEFAULT_ORDER)

    assert [job.status for job in jobs] == [JobStatus.COMPLETED] * count
    assert connections.opened == count + 1, "one for each job, and one before the first claim"
    assert connections.at_once == 1
    assert connections.now == set(), "none while it waits"
    lookups = [text for database, text in reads.statements if database == place.database and "metadata_location" in text]
    assert len(lookups) == len(reads.metadata) == len(DEFAULT_ORDER) * count
    assert len(reads.manifests) == count
    assert len(set(reads.manifests)) == count


def test_a_worker_leaves_the_jobs_of_a_catalog_that_it_does_not_reach(installation: Installation) -> None:
    with rest_catalog() as server:
        server.tables = {("db",): ["t0"]}
        elsewhere = TableName.parse("db.t1", catalog="lake", catalog_id="another")
        left = installation.jobs.submit(elsewhere, DEFAULT_ORDER)
        work(installation, CatalogConfig.rest("lake", server.url), 1, ("expire_snapshots",))

    assert installation.jobs.get(left.job_id).status is JobStatus.PENDING
    assert installation.jobs.count_open() == {JobStatus.PENDING: 1, JobStatus.RUNNING: 0}


@JOBS
def test_a_worker_introduces_itself_to_a_rest_catalog_once_for_each_job(installation: Installation, count: int) -> None:
    with rest_catalog() as server:
        server.tables = {("db",): [f"t{number}" for number in range(count)]}
        jobs = work(installation, CatalogConfig.rest("lake", server.url), count, ("rewrite_data_files", "expire_snapshots"))
        requests = [each.partition("?")[0] for each in server.requests]

    assert [job.status for job in jobs] == [JobStatus.COMPLETED] * count
    assert requests.count("/v1/config") == count + 1
    assert [requests.count(f"/v1/namespaces/db/tables/t{number}") for number in range(count)] == [2] * count
    assert len(requests) == 3 * count + 1
