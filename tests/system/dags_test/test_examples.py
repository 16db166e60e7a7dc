"""``airflow dags test`` of the example DAGs ends as their pages say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import sqlalchemy as sa
from getting_started import GETTING_STARTED, REPOSITORY

from airflow_snowpack.builds.read.reader import SnapshotReader
from airflow_snowpack.builds.registry.model import RunStatus
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.interim import InterimRegistry
from airflow_snowpack.jobs import ActionOutcome, Jobs, JobStatus
from airflow_snowpack.maintenance.fleet import PassState
from airflow_snowpack.maintenance.fleet.passes import FleetPasses
from airflow_snowpack.scheduling import GateState
from airflow_snowpack.store.tables.schedules import gated_runs
from tests.system.conftest import AirflowHome
from tests.system.dags_test.conftest import QUEUED, Examples

if TYPE_CHECKING:
    from pyiceberg.table import Table


def test_the_first_dags_of_readme_and_of_getting_started_maintain_the_table_that_make_airflow_made(
    examples: Examples, jobs: Jobs, load: Callable[[TableName], Table]
) -> None:
    preview, first, second, *_ = reversed(jobs.list(table=examples.flights))
    assert preview.dry_run
    # The table is a moment old: it has no snapshots to expire, and no orphans.
    assert [(result.action, result.outcome) for result in first.results] == [
        ("rewrite_data_files", ActionOutcome.SUCCEEDED),
        ("expire_snapshots", ActionOutcome.SKIPPED),
        ("remove_orphan_files", ActionOutcome.SKIPPED),
    ]
    assert "14 files into 1" in first.results[0].message
    assert second.actions == ("rewrite_data_files", "expire_snapshots")
    assert len(load(examples.flights).inspect.files()) == 1
    assert load(examples.flights).scan().to_arrow().num_rows == 12_208


def test_the_preview_of_the_tutorial_prints_what_the_page_shows(examples: Examples) -> None:
    (shown,) = re.findall(r"^```text\n(.*?)^```", (REPOSITORY / GETTING_STARTED).read_text(), re.DOTALL | re.MULTILINE)
    printed = [line.rstrip() for line in examples.output.splitlines()]
    assert [line for line in shown.splitlines() if line not in printed] == []


def test_the_commands_of_getting_started_show_the_job_and_the_table(examples: Examples, jobs: Jobs) -> None:
    first = next(job for job in reversed(jobs.list(table=examples.flights)) if not job.dry_run)
    assert first.job_id[:8] in examples.output
    assert "demo.flights" in examples.output


def test_every_example_dag_maintains_the_table_that_make_airflow_made_without_any_conf(examples: Examples, jobs: Jobs) -> None:
    found = [job for job in jobs.list(table=examples.flights) if not job.dry_run]
    assert {job.status for job in found} == {JobStatus.COMPLETED}
    assert [str(job.submitted_by).partition("/")[0] for job in reversed(found)] == [
        "maintain_flights",
        "maintain_flights",
        "snowpack_maintain_table",
        "snowpack_maintain_partitions",
        "snowpack_maintain_gently",
        "snowpack_maintain_scheduled",
    ]


def test_dags_test_of_the_examples_about_schedules_ends_as_their_pages_say(examples: Examples, jobs: Jobs) -> None:
    """Five partitions have arrived, the night is long, and no event has come."""
    (job,) = jobs.list(table=examples.arrived)
    assert job.status is JobStatus.COMPLETED
    passed = sa.select(gated_runs.c.state, gated_runs.c.ended_at).where(gated_runs.c.dag_id == "snowpack_maintain_gently")
    (gate,) = jobs.store.read(lambda conn: conn.execute(passed).all())
    assert gate.state == GateState.PASSED
    assert gate.ended_at is not None, "its place is free again"


def test_the_worker_dag_runs_all_jobs_of_the_queue(examples: Examples, jobs: Jobs) -> None:
    for name in QUEUED:
        (job,) = jobs.list(table=replace(examples.flights, table=name.partition(".")[2]))
        (claimed,) = [entry for entry in jobs.history(job.job_id) if entry.event == "claimed"]
        assert (job.status, job.error) == (JobStatus.COMPLETED, None)
        assert claimed.detail["worker"].startswith("snowpack_workers/")
    assert jobs.queue_depth() == 0


def test_dags_test_of_the_fleet_maintains_the_tables_that_its_policies_name(
    examples: Examples, jobs: Jobs, load: Callable[[TableName], Table]
) -> None:
    """Planned, maintained in a mapped task, and reported."""
    (job,) = jobs.list(table=examples.fleet)
    (done,) = FleetPasses(jobs.store).list().items
    assert (job.status, job.error) == (JobStatus.COMPLETED, None)
    assert str(job.submitted_by).startswith("snowpack_maintain_fleet/")
    assert len(load(examples.fleet).inspect.files()) == 1
    assert done.state is PassState.ENDED
    assert done.report is not None
    assert done.report["text"].splitlines()[0] in examples.output
    assert done.counts["excluded"] > 3


def test_with_nothing_configured_the_dag_that_also_runs_on_a_cluster_hands_its_table_on(examples: Examples) -> None:
    told = json.loads(examples.anywhere.read_text())
    assert told == {"sums": [166_833, 166_167, 166_500], "master": "local[2]", "session": "pyspark.sql.session"}


def test_dags_test_of_the_example_hands_its_tables_on_to_the_end(examples: Examples, jobs: Jobs) -> None:
    """In one process, with Spark, on the embedded defaults; one consumer fails at first."""
    made = {table.producer.task_id: table for table in InterimRegistry(jobs.store).tables(dag_id="snowpack_interim_tables")}
    assert set(made) == {"ingest", "clean", "by_airline", "worst_days", "join"}
    assert made["worst_days"].try_number == 2
    assert (made["ingest"].rows or 0) > (made["clean"].rows or 0) > (made["join"].rows or 0) > 3


def test_dags_test_of_the_example_looks_an_aeroplane_up(examples: Examples, airflow_home: AirflowHome, jobs: Jobs) -> None:
    """On the embedded defaults, with Spark."""
    (run,) = BuildRegistry(jobs.store).runs("flights_by_tail").items
    assert (run.status, run.num_shards) == (RunStatus.SUCCEEDED, 8)
    plane = SnapshotReader(airflow_home.home / "snowpack" / "builds" / "flights_by_tail").get("N14228")
    assert plane is not None
    assert f"'miles': '{plane['miles']}'" in examples.output


def test_dags_test_of_the_example_runs_a_function_and_a_program_in_processes(
    examples: Examples, airflow_home: AirflowHome, jobs: Jobs
) -> None:
    """With tables in and out, on the embedded defaults, without Spark."""
    made = {table.producer.task_id: table for table in InterimRegistry(jobs.store).tables(dag_id="snowpack_entries")}
    assert set(made) == {"ingest", "by_airline", "worst"}
    assert made["worst"].rows == 2
    assert f"{made['by_airline'].rows} airlines, the worst 2 of them are returned" in examples.output
    assert list((airflow_home.home / "snowpack" / "entries").glob("entry-*")) == []
