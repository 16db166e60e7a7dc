"""Maintenance on a Spark Thrift Server. One server serves all of these tests; the last one kills and restarts it."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pytest
import thrift_worker
from bounded import PATIENCE_S, Beside, started
from clocks import ShiftedClock
from scripted_engine import ScriptedEngine
from spark_world import aged
from thrift_server import TestedThriftServer

from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.jobs import Attempt, Job, Jobs, JobStatus, LifecyclePolicy
from airflow_snowpack.jobs.model import ActionOutcome, ActionResult
from airflow_snowpack.maintenance import Action, SparkEngine
from airflow_snowpack.maintenance.removals.records import Removals
from airflow_snowpack.spark import OrphanStillRunning, SparkConfig, SparkUnavailable, ThriftServer, end_attempts
from airflow_snowpack.spark.thrift import ThriftStatements
from airflow_snowpack.store import open_store

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

LONGEST_S = 900.0
LEASE = timedelta(minutes=1)
OWNER = "dag/run/task"
SETTLING = timedelta(seconds=0.5)
pytestmark = [
    pytest.mark.timeout(LONGEST_S),
    pytest.mark.one_database,
    pytest.mark.cell("Spark Thrift Server", "SQL", "local files"),
]

ENDLESS = "SELECT count(*) FROM range(0, 1000000000000, 1, 2) WHERE sqrt(id) % 2 = 0"
SMALL = {"spark.sql.codegen.wholeStage": "false", "spark.sql.shuffle.partitions": "2"}
COMPACT = {"min_input_files": 2, "partial_progress": False, "only_if_needed": False}


@dataclass
class Served:
    """A server and the catalog that it has."""

    thrift: TestedThriftServer
    home: Path
    catalog: Catalog
    server: ThriftServer = field(init=False)

    def __post_init__(self) -> None:
        self.server = ThriftServer("the_server", "127.0.0.1", self.thrift.port, settling=SETTLING)

    def sql(self, *statements: str) -> list[dict[str, Any]]:
        """Run statements, and return the rows of the last one."""
        rows: list[dict[str, Any]] = []
        with self.server.opened("of the test", 0) as session:
            for statement in statements:
                rows = session.rows(statement)
        return rows

    def fragmented(self) -> TableName:
        """Make a merge-on-read table of three small files, from which some rows were deleted again."""
        name = TableName("lake", "db", f"t_{uuid4().hex[:12]}")
        properties = "'format-version' = '2', 'write.delete.mode' = 'merge-on-read'"
        insert = f"INSERT INTO {name.quoted} SELECT id, concat('n', id) FROM range({{0}}, {{0}} + 10, 1, 1)"
        self.sql(
            "CREATE NAMESPACE IF NOT EXISTS lake.db",
            f"CREATE TABLE {name.quoted} (id BIGINT, note STRING) USING iceberg TBLPROPERTIES ({properties})",
            *(insert.format(first) for first in (0, 10, 20)),
            f"DELETE FROM {name.quoted} WHERE id % 10 = 3",
        )
        return name

    def content(self, name: TableName) -> list[dict[str, Any]]:
        rows = self.catalog.load_table(name.identifier).scan().to_arrow().to_pylist()
        return sorted(rows, key=lambda row: int(row["id"]))

    def head(self, name: TableName) -> int | None:
        return self.catalog.load_table(name.identifier).metadata.current_snapshot_id

    def logged(self) -> str:
        return self.thrift.process.log.read_text(errors="replace")

    @contextmanager
    def held(self) -> Iterator[Callable[[TableName], None]]:
        """Occupy the task slots, so that a rewrite waits with its planned work; the block gets what waits for its plan."""
        connection = self.thrift.connect()
        cursor, seen = connection.cursor(), len(self.logged())
        cursor.execute_async(ENDLESS)
        eventually(lambda: self.logged()[seen:].count("Starting task ") >= 2)
        held_from = len(self.logged())
        try:
            yield lambda name: eventually(lambda: f"ScanReport{{tableName={name}," in self.logged()[held_from:])
        finally:
            if self.thrift.process.is_running:
                cursor.cancel_operation()
                cursor.close()
            connection.close()

    def end(self, server: str, job_id: str, attempts: Sequence[int]) -> None:
        """As the connection does."""
        assert server == "the_server"
        end_attempts(self.server, job_id, attempts, within=timedelta(seconds=PATIENCE_S))


def eventually(true: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("thrift")
    lake = CatalogConfig.embedded(home / "lake")
    catalog = lake.load()
    config = SparkConfig(
        catalogs=lake.spark_conf(), packages=lake.spark_packages(), driver_memory="700m", conf=SMALL, master="local[2]"
    )
    thrift = TestedThriftServer(home / "server", config)
    try:
        thrift.start()
        yield Served(thrift, home / "lake", catalog)
    finally:
        thrift.process.stop()


@pytest.fixture
def clock() -> ShiftedClock:
    return ShiftedClock()


@pytest.fixture
def jobs(store_url: str, served: Served, clock: ShiftedClock) -> Iterator[Jobs]:
    policy = LifecyclePolicy(lease=LEASE, heartbeat=LEASE / 3, retry_base=timedelta(0))
    with open_store(store_url, clock=clock) as store, Jobs(store, policy, orphans=served) as jobs:
        yield jobs


@pytest.fixture
def engine(served: Served, jobs: Jobs) -> SparkEngine:
    return new_engine(served, jobs)


def new_engine(served: Served, jobs: Jobs) -> SparkEngine:
    return SparkEngine(served.server, lambda: served.catalog, removals=Removals(jobs.store), tries=1)


def run(jobs: Jobs, engine: SparkEngine, table: TableName, *actions: str, **options: Any) -> Job:
    claim = jobs.submit_and_claim(table, actions, "w", owner=OWNER, options=options)
    return Attempt(jobs, claim, engine).run()


def test_the_five_actions_keep_the_rows_and_name_their_job_to_the_server(served: Served, jobs: Jobs, engine: SparkEngine) -> None:
    name = served.fragmented()
    before = served.content(name)
    stray = Path(served.catalog.load_table(name.identifier).location().removeprefix("file://")) / "data" / "it's ü.parquet"
    stray.write_bytes(b"stray")
    aged(stray)
    always = {"only_if_needed": False}
    job = run(
        jobs,
        engine,
        name,
        *Action,
        rewrite_data_files={
            **always,
            "min_input_files": 2,
            "where": "note <> 'it''s'",
            "spark_conf": {"spark.sql.shuffle.partitions": "3"},
        },
        rewrite_position_delete_files={**always, "rewrite_all": True},
        rewrite_manifests=always,
        expire_snapshots={**always, "max_age": "PT0S", "retain_last": 1},
        remove_orphan_files=always,
    )

    assert job.error is None
    assert [result.outcome for result in job.results] == [ActionOutcome.SUCCEEDED] * 5
    assert job.results[0].message == "Compacted 3 files into 1"
    assert job.results[0].gb_hours
    assert not stray.exists()
    assert served.content(name) == before == served.sql(f"SELECT * FROM {name.quoted} ORDER BY id")
    origins = [json.loads(each) for each in re.findall(r"Submitting query '/\* (\{.*?\}) \*/ CALL", served.logged())]
    named = {"app": "airflow_snowpack", "table": str(name), "job_id": job.job_id, "attempt": 1}
    assert [each for each in origins if each["job_id"] == job.job_id and each["action"] == "rewrite_manifests"] == [
        {**named, "action": "rewrite_manifests"}
    ]
    assert {each["action"] for each in origins if each["job_id"] == job.job_id} == {*Action, "ancestors_of"}


@pytest.mark.parametrize("ahead", ["server", "process", "neither", "both are empty", "the server's is empty"])
def test_a_server_whose_catalog_has_another_table_of_the_name_changes_none(
    served: Served, jobs: Jobs, tmp_path: Path, ahead: str
) -> None:
    name, elsewhere = served.fragmented(), CatalogConfig.embedded(tmp_path, "lake").load()
    theirs, rows = served.catalog.load_table(name.identifier), pa.table({"id": [1], "note": ["new"]})
    elsewhere.create_namespace("db")
    if ahead.endswith("empty"):
        served.sql(f"DROP TABLE {name.quoted}", f"CREATE TABLE {name.quoted} (id BIGINT, note STRING) USING iceberg")
        ours = elsewhere.create_table(name.identifier, theirs.schema())
        if ahead != "both are empty":
            ours.append(rows)
    elif ahead == "neither":
        elsewhere.create_table(name.identifier, theirs.schema()).append(rows)
    else:
        ours = elsewhere.register_table(name.identifier, theirs.metadata_location)
        (theirs if ahead == "server" else ours).append(rows)
    head = served.head(name)

    engine = SparkEngine(served.server, lambda: elsewhere, removals=Removals(jobs.store), tries=1)
    (result,) = run(jobs, engine, name, "rewrite_data_files", rewrite_data_files=COMPACT).results

    assert (result.outcome, result.message, result.final) == (ActionOutcome.FAILED, "Failed before anything was done", True)
    assert f"Spark has another table named {name}: " in str(result.error)
    assert served.head(name) == head


def test_a_view_of_files_has_each_path_as_it_is(served: Served) -> None:
    paths = ["s3://lake/it's ${env:HOME}", "s3://lake/😀\n\\"]
    with served.server.opened("of the test", 0) as session:
        view = session.view_of_files([*paths, "s3://lake/a\0s3://lake/b"])
        assert [row["file_path"] for row in session.rows(f"SELECT file_path FROM {view}")] == paths


def test_a_refused_predicate_fails_for_good_with_sparks_reason(served: Served, jobs: Jobs, engine: SparkEngine) -> None:
    job = run(jobs, engine, served.fragmented(), "rewrite_data_files", rewrite_data_files={**COMPACT, "where": "nowhere = 1"})

    (result,) = job.results
    assert (result.outcome, result.final) == (ActionOutcome.FAILED, True)
    assert result.error is not None
    assert "Cannot parse predicates in where option: nowhere = 1; caused by AnalysisException: [UNRESOLVED_COLUMN" in result.error
    assert "at org.apache" not in result.error


def test_a_rewrite_that_loses_to_a_writer_is_a_conflict_and_the_writer_wins(
    served: Served, jobs: Jobs, engine: SparkEngine
) -> None:
    name, ended = served.fragmented(), list[Job]()
    with served.held() as planned:
        job = Beside(lambda: ended.append(run(jobs, engine, name, "rewrite_data_files", rewrite_data_files=COMPACT)))
        planned(name)
        served.catalog.load_table(name.identifier).delete("id < 10")
    job.join()

    (result,) = ended[0].results
    assert result.outcome is ActionOutcome.CONFLICT
    assert result.error is not None
    assert "ValidationException: Missing required files to delete" in result.error
    assert [row["id"] for row in served.content(name)] == [number for number in range(10, 30) if number % 10 != 3]


def test_an_interrupted_statement_is_cancelled_and_counts_as_ended_a_while_later(
    served: Served, jobs: Jobs, engine: SparkEngine
) -> None:
    name = served.fragmented()
    head, results = served.head(name), list[ActionResult]()
    claim = jobs.submit_and_claim(name, ["rewrite_data_files"], "w", owner=OWNER, options={"rewrite_data_files": COMPACT})
    with served.held() as planned:
        working = Beside(lambda: results.append(engine.run(claim.job, "rewrite_data_files")))
        planned(name)
        engine.interrupt()
        working.join()

    assert results[0].outcome is ActionOutcome.INTERRUPTED
    later = ThriftServer("later", "127.0.0.1", served.thrift.port, settling=timedelta(hours=1))
    with pytest.raises(OrphanStillRunning, match="may still run on the Spark server"):
        end_attempts(later, claim.job.job_id, [1], within=timedelta(0))
    served.end("the_server", claim.job.job_id, [1])
    assert served.head(name) == head


def test_no_action_starts_beside_a_statement_whose_connection_was_lost(
    served: Served, jobs: Jobs, engine: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = served.fragmented()

    def lost(statements: ThriftStatements, sql: str) -> None:
        if "CALL `lake`.system.rewrite_data_files" in sql:
            raise ConnectionResetError
        really(statements, sql)

    really = ThriftStatements._run
    monkeypatch.setattr(ThriftStatements, "_run", lost)
    actions = ["rewrite_data_files", "rewrite_manifests"]
    always = {"only_if_needed": False}
    options = {"rewrite_data_files": COMPACT, "rewrite_manifests": always}
    claim = jobs.submit_and_claim(name, actions, "w", owner=OWNER, options=options)
    job = Attempt(jobs, claim, engine, continue_on_error=True).run()

    assert [result.outcome for result in job.results] == [ActionOutcome.FAILED, ActionOutcome.INTERRUPTED]
    assert job.status is JobStatus.FAILED


@pytest.fixture
def working(served: Served, jobs: Jobs, store_url: str) -> Iterator[tuple[Job, Any]]:
    """A job whose statement is planned on the server, and the process of its worker."""
    job = jobs.submit(served.fragmented(), ["rewrite_data_files"], options={"rewrite_data_files": COMPACT})
    seconds = str(LEASE.total_seconds())
    command = [sys.executable, thrift_worker.__file__, store_url, str(served.home), str(served.thrift.port), seconds]
    with served.held() as planned, started(command, patience_s=LONGEST_S) as worker:
        planned(job.table)
        yield job, worker


def test_a_worker_that_is_told_to_end_leaves_the_lock_to_the_sweep(served: Served, jobs: Jobs, working: tuple[Job, Any]) -> None:
    job, worker = working
    head = served.head(job.table)
    worker.send_signal(signal.SIGTERM)
    worker.wait(PATIENCE_S)

    ended = jobs.get(job.job_id)
    assert (ended.status, ended.spark_server) == (JobStatus.FAILED, "the_server")
    assert jobs.sweep().unlocked
    assert served.head(job.table) == head


def test_a_killed_workers_statement_has_ended_before_the_next_attempt_starts(
    served: Served, jobs: Jobs, clock: ShiftedClock, working: tuple[Job, Any]
) -> None:
    job, worker = working
    head, seen = served.head(job.table), list[int | None]()
    lost = served.logged().count("Session disconnected without closing properly")
    worker.kill()
    worker.wait(PATIENCE_S)
    eventually(lambda: served.logged().count("Session disconnected without closing properly") > lost)
    clock.ahead += 2 * LEASE
    assert jobs.sweep().requeued == (job.job_id,)
    claim = jobs.claim("next", job_id=job.job_id)
    assert claim is not None

    ended = Attempt(jobs, claim, ScriptedEngine(between=lambda _action: seen.append(served.head(job.table)))).run()
    assert ended.status is JobStatus.COMPLETED
    assert seen == [head] == [served.head(job.table)]


def test_a_job_fails_with_its_server_and_keeps_the_lock_until_the_server_is_back(
    served: Served, jobs: Jobs, engine: SparkEngine, clock: ShiftedClock
) -> None:
    name, ended = served.fragmented(), list[Job]()
    before = served.content(name)
    with served.held() as planned:
        job = Beside(lambda: ended.append(run(jobs, engine, name, "rewrite_data_files", rewrite_data_files=COMPACT)))
        planned(name)
        os.killpg(served.thrift.process.pid, signal.SIGKILL)
        job.join()
        served.thrift.process.stop()
    assert ended[0].status is JobStatus.FAILED
    assert "The connection to the Spark server at 127.0.0.1:" in str(ended[0].error)
    assert ended[0].spark_server == "the_server"
    with pytest.raises(SparkUnavailable, match="does not respond"):
        jobs.end_work(ended[0], [1])
    assert not jobs.sweep().unlocked

    served.thrift.start()
    assert jobs.sweep().unlocked
    again = run(jobs, new_engine(served, jobs), name, "rewrite_data_files", rewrite_data_files=COMPACT)
    assert again.results[0].message == "Compacted 3 files into 1"
    assert served.content(name) == before
