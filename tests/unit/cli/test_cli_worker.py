"""``airflow snowpack worker`` in this process, on an engine that does as its script says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Run
from scripted_engine import ScriptedEngine

from airflow_snowpack import hooks
from airflow_snowpack.connections.spark import Spark
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Job, Jobs, JobStatus
from airflow_snowpack.spark import SparkUnavailable, session as spark_session
from airflow_snowpack.worker import process


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[ScriptedEngine]:
    """Engines instead of Spark; the ones that were made."""
    made: list[ScriptedEngine] = []

    def make() -> ScriptedEngine:
        made.append(ScriptedEngine({"rewrite_manifests": "fail"}))
        return made[-1]

    monkeypatch.setattr(process, "engines", lambda _installation, _spark, **_options: make)
    return made


@pytest.fixture
def waiting(jobs: Jobs, identified: Callable[[str], TableName]) -> list[Job]:
    tables = ("demo.flights", "demo.clicks", "demo.views")
    return [jobs.submit(identified(table), ["rewrite_manifests", "expire_snapshots"]) for table in tables]


def statuses(jobs: Jobs) -> list[str]:
    return [job.status.value for job in reversed(jobs.list())]


@pytest.mark.usefixtures("engines")
def test_a_worker_leaves_after_as_many_jobs_as_it_was_told_or_after_one_or_on_an_empty_queue(
    snowpack: Run, jobs: Jobs, waiting: list[Job]
) -> None:
    assert snowpack("worker", "--max-jobs", "2").code == 0
    assert statuses(jobs) == ["failed", "failed", "pending"]
    for _ in range(2):
        said = snowpack("worker", "--once", "--worker-id", "pod-7")
        assert (said.code, said.out) == (0, "")
    assert statuses(jobs) == ["failed"] * 3
    claimed = [entry for entry in jobs.history(waiting[2].job_id) if entry.event == "claimed"]
    assert claimed[0].detail["worker"] == "pod-7"


@pytest.mark.usefixtures("waiting")
def test_the_actions_after_a_failed_one_run_if_the_installation_says_so(
    snowpack: Run, engines: list[ScriptedEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    snowpack("worker", "--once")
    monkeypatch.setenv("AIRFLOW__SNOWPACK__CONTINUE_ON_ERROR", "True")
    snowpack("worker", "--once")

    assert [engine.ran for engine in engines] == [["rewrite_manifests"], ["rewrite_manifests", "expire_snapshots"]]


@pytest.mark.usefixtures("waiting")
def test_a_machine_without_java_takes_no_job(snowpack: Run, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_java(**_arguments: object) -> None:
        raise SparkUnavailable("There is no Java on this machine.")

    monkeypatch.setattr(spark_session, "find_java", no_java)
    said = snowpack("worker", "--once")

    assert said.code == 1
    assert "There is no Java on this machine." in said.err
    assert {job.status for job in jobs.list()} == {JobStatus.PENDING}


@pytest.mark.usefixtures("waiting")
def test_a_worker_that_cannot_reach_the_catalog_takes_no_job(snowpack: Run, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Spark, "check", lambda _self: None)
    monkeypatch.setenv("AIRFLOW_CONN_GONE", '{"conn_type": "iceberg", "host": "http://127.0.0.1:1"}')
    said = snowpack("worker", "--once", "--catalog-conn-id", "gone")

    assert said.code == 6
    assert {job.status for job in jobs.list()} == {JobStatus.PENDING}


@pytest.mark.usefixtures("engines")
def test_a_worker_runs_the_jobs_of_each_catalog_that_it_names(
    snowpack: Run, jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted = []
    for name in ("east", "west"):
        extra = {"warehouse": f"file://{tmp_path}"}
        connection = {"conn_type": "sqlite", "host": str(tmp_path / f"{name}.db"), "extra": extra}
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(connection))
        catalog_id = hooks.IcebergCatalogHook(name).config.catalog_id
        submitted.append(jobs.submit(TableName("lake", "demo", name, catalog_id), ["expire_snapshots"]))
    said = snowpack("worker", "--max-jobs", "2", "--catalog-conn-id", "east", "--catalog-conn-id", "west")

    assert said.code == 0
    assert [jobs.get(job.job_id).status for job in submitted] == [JobStatus.COMPLETED] * 2


@pytest.mark.parametrize(("period", "problem"), [("often", "must be a duration"), ("0s", "must be longer than zero, such as 5s")])
def test_a_pause_that_is_none_is_a_usage_problem(snowpack: Run, waiting: list[Job], period: str, problem: str) -> None:
    commands = [
        ("worker",),
        ("scheduler",),
        ("jobs", "watch", waiting[0].job_id),
        ("jobs", "submit", "demo.flights", "--wait"),
        ("images", "build", "https://github.com/acme/score.git"),
    ]
    for command in commands:
        said = snowpack(*command, "--poll", period)

        assert (command, said.code) == (command, 2)
        assert f"--poll {problem}" in said.err
