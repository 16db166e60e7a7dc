"""A Spark Connect server goes on with the statement of a killed client, until a successor or the sweep ends it."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING

import connect_worker
import pytest
from bounded import PATIENCE_S, started
from scripted_engine import ScriptedEngine

from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.jobs import Attempt, Job, Jobs, JobStatus
from airflow_snowpack.spark import OrphanStillRunning, SparkConfig, SparkUnavailable, connect_session, end_session, session_id_of
from airflow_snowpack.spark.java import find_java
from airflow_snowpack.store import open_store
from examples.cluster.process import free_port

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

SERVER = Path(__file__).parents[2] / "support" / "connect_server.py"
PARTITIONS = 60
LONGEST_S = 900.0
pytestmark = [pytest.mark.timeout(LONGEST_S), pytest.mark.one_database]


@dataclass
class Served:
    """A server and the catalog that it has."""

    url: str
    home: Path
    catalog: Catalog

    def commits(self) -> int:
        return len(self.catalog.load_table("db.t").metadata.snapshots)

    def end(self, server: str, job_id: str, attempts: Sequence[int]) -> None:
        """As the hook does, without an Airflow connection."""
        assert server == "the_cluster"
        for attempt in attempts:
            end_session(self.url, session_id_of(job_id, attempt), within=timedelta(seconds=PATIENCE_S))

    def run_something_else(self) -> None:
        """Jobs of another session that take longer than a commit of the orphan."""
        session = connect_session(self.url)
        for _ in range(8):
            session.sql("SELECT count(DISTINCT id) FROM lake.db.t").collect()
        session.stop()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("orphans")
    lake = CatalogConfig.embedded(home)
    port = free_port()
    config = SparkConfig(catalogs=lake.spark_conf(), packages=lake.spark_packages(), driver_memory="700m")
    conf = {**config.launch_conf(), **config.session_conf(), "spark.connect.grpc.binding.port": str(port)}
    environment = {**os.environ, "JAVA_HOME": str(find_java().home)}
    command = [sys.executable, str(SERVER), str(home)]
    with started(command, patience_s=LONGEST_S, stdin=PIPE, stdout=PIPE, env=environment) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(conf) + "\n")
        server.stdin.flush()
        assert server.stdout.readline() == "ready\n"
        yield Served(f"sc://127.0.0.1:{port}", home, lake.load())


@pytest.fixture
def jobs(store_url: str, served: Served) -> Iterator[Jobs]:
    with open_store(store_url) as store, Jobs(store, orphans=served) as jobs:
        yield jobs


@pytest.fixture
def killed(served: Served, store_url: str, jobs: Jobs) -> Job:
    """The job of a worker that was killed when the first of its many commits was there."""
    session = connect_session(served.url)
    session.sql("CREATE NAMESPACE IF NOT EXISTS lake.db").collect()
    session.sql("DROP TABLE IF EXISTS lake.db.t").collect()
    session.sql("CREATE TABLE lake.db.t (id BIGINT, part INT) USING iceberg PARTITIONED BY (part)").collect()
    for _ in range(2):
        session.sql(f"INSERT INTO lake.db.t SELECT id, CAST(id AS INT) FROM range(0, {PARTITIONS}, 1, 1)").collect()
    session.stop()
    before = served.commits()
    command = [sys.executable, connect_worker.__file__, store_url, str(served.home), served.url]
    with started(command, patience_s=LONGEST_S, stdout=PIPE) as worker:
        assert worker.stdout is not None
        job_id = worker.stdout.readline().split()[-1]
        deadline = time.monotonic() + PATIENCE_S
        while served.commits() == before:
            assert worker.poll() is None, "the worker ended by itself"
            assert time.monotonic() < deadline, "nothing was committed"
            time.sleep(0.05)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    assert jobs.get(job_id).spark_server == "the_cluster"
    return jobs.get(job_id)


def test_a_retry_starts_after_the_killed_trys_statement_has_ended(served: Served, jobs: Jobs, killed: Job) -> None:
    claim = jobs.take_over(killed.job_id, "try 2", owner=connect_worker.OWNER)
    seen: list[int] = []

    job = Attempt(jobs, claim, ScriptedEngine(between=lambda _action: seen.append(served.commits()))).run()
    served.run_something_else()
    assert job.status is JobStatus.COMPLETED
    assert seen == [served.commits()]
    assert seen[0] < PARTITIONS, "the statement had ended by itself, so this has shown nothing"


def test_a_successor_waits_for_a_statement_that_another_process_interrupted_before_it(
    served: Served, jobs: Jobs, killed: Job
) -> None:
    with suppress(OrphanStillRunning):
        end_session(served.url, session_id_of(killed.job_id, 1), within=timedelta(0))
    jobs.end_work(killed, [1])
    seen = served.commits()

    served.run_something_else()
    assert seen == served.commits() < PARTITIONS


def test_a_client_that_comes_late_starts_nothing_in_a_session_that_was_ended(served: Served) -> None:
    end_session(served.url, session_id_of("a job", 1), within=timedelta(seconds=PATIENCE_S))

    with pytest.raises(SparkUnavailable, match="another process has taken this work over"):
        connect_session(served.url, session_id=session_id_of("a job", 1))


def test_a_server_that_is_away_is_not_taken_for_the_end_of_a_statement() -> None:
    with pytest.raises(SparkUnavailable, match=r"sc://127\.0\.0\.1:9 does not respond"):
        end_session("sc://127.0.0.1:9/;token=", session_id_of("a job", 1), within=timedelta(seconds=1))
