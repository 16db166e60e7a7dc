"""``airflow snowpack …`` as real processes: what only those can show. Each costs seconds, so there are few."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from bounded import PATIENCE_S as LONGEST_S, started
from scripted_engine import PATIENCE_S, eventually

from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.jobs import Jobs, JobStatus
from airflow_snowpack.store import open_store
from examples.cluster.process import free_port

SUPPORT = Path(__file__).parents[2] / "support"
CLI_MODULES = str(SUPPORT / "cli_modules.py")
CLI_WORKER = str(SUPPORT / "cli_worker.py")
AIRFLOW = (sys.executable, "-m", "airflow", "snowpack")
FLIGHTS = TableName("lake", "demo", "flights")


@pytest.fixture
def store(airflow_environment: dict[str, str]) -> Iterator[Jobs]:
    """The embedded store of that Airflow."""
    with Jobs(open_store(f"sqlite:///{airflow_environment['AIRFLOW_HOME']}/snowpack.db")) as jobs:
        yield jobs


@contextmanager
def process(command: tuple[str, ...], environment: dict[str, str], word: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has written this word to its standard error, or to its standard output."""
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment) as running:
        assert running.stdout is not None
        said = []
        for line in running.stdout:
            said.append(line)
            if word in line:
                break
        else:
            raise AssertionError("".join(said))
        yield running


def ended(*arguments: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A command that ends well."""
    command = [*AIRFLOW, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=LONGEST_S, check=True)


def test_stdout_is_json_and_nothing_else_even_when_the_store_is_made_on_the_way(airflow_environment: dict[str, str]) -> None:
    said = ended("jobs", "list", "-o", "json", environment=airflow_environment)

    assert json.loads(said.stdout) == []
    assert "alembic" not in said.stderr, "the steps of the migrations"


def test_an_upgrade_prints_one_line(airflow_environment: dict[str, str]) -> None:
    said = ended("db", "upgrade", environment=airflow_environment)

    assert said.stdout.startswith("The store at ")
    assert said.stdout.count("\n") == 1
    assert "alembic" not in said.stderr


def test_a_reader_that_leaves_early_is_no_error_worth_a_traceback(airflow_environment: dict[str, str], store: Jobs) -> None:
    store.submit(FLIGHTS, ["expire_snapshots"])
    read, write = os.pipe()
    os.close(read)
    command = [*AIRFLOW, "jobs", "list", "-o", "json"]
    said = subprocess.run(
        command, stdout=write, stderr=subprocess.PIPE, text=True, env=airflow_environment, timeout=LONGEST_S, check=False
    )
    os.close(write)

    assert (said.returncode, said.stderr) == (1, "")


def test_sigterm_fails_the_job_of_a_worker_that_is_stuck_in_c_and_ends_it_with_1(
    airflow_environment: dict[str, str], store: Jobs
) -> None:
    catalog = CatalogConfig.embedded(Path(airflow_environment["AIRFLOW_HOME"]) / "snowpack")
    job = store.submit(replace(FLIGHTS, catalog_id=catalog.catalog_id), ["rewrite_data_files"])
    with process((sys.executable, CLI_WORKER, "snowpack", "worker"), airflow_environment, "stuck") as worker:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(LONGEST_S) == 1

    failed = store.get(job.job_id)
    assert (failed.status, failed.error) == (JobStatus.FAILED, "Worker received SIGTERM")
    assert store.locks.list() == []


def test_an_idle_worker_says_that_it_works_and_leaves_with_0(airflow_environment: dict[str, str], store: Jobs) -> None:
    with process((*AIRFLOW, "worker", "--worker-id", "pod-7"), airflow_environment, "Worker pod-7 takes jobs") as worker:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(LONGEST_S) == 0


@pytest.fixture
def port() -> int:
    return free_port()


def answer_of(port: int, path: str, token: str | None = None) -> tuple[int, bytes]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read()


def status_of(port: int, path: str, token: str | None = None) -> int:
    return answer_of(port, path, token)[0]


def has_listed_the_catalog(port: int, token: str) -> bool:
    return json.loads(answer_of(port, "/tables", token)[1])["refreshed_at"] is not None


SCHEDULER = (
    "airflow.jobs.scheduler_job_runner",
    "airflow.jobs.triggerer_job_runner",
    "airflow.jobs.dag_processor_job_runner",
    "airflow.dag_processing.manager",
    "airflow.dag_processing.processor",
    "airflow.executors.base_executor",
    "airflow.executors.local_executor",
)


def test_the_api_answers_who_has_the_token_and_loads_nothing_of_the_scheduler(
    airflow_environment: dict[str, str], store: Jobs, port: int, tmp_path: Path
) -> None:
    token, told = secrets.token_urlsafe(32), tmp_path / "modules"
    file = tmp_path / "token"
    file.write_text(f"{token}\n")
    arguments = ("snowpack", "api", "--port", str(port), "--token-file", str(file))
    with process((sys.executable, CLI_MODULES, str(told), *arguments), airflow_environment, "Uvicorn running") as api:
        assert status_of(port, "/jobs") == 401
        assert status_of(port, "/jobs", "guessed" * 5) == 401
        assert [status_of(port, path, token) for path in ("/jobs", "/tables", "/queue", "/ui/")] == [200] * 4
        assert token not in Path(f"/proc/{api.pid}/cmdline").read_text()
        eventually(lambda: has_listed_the_catalog(port, token), LONGEST_S)
        api.send_signal(signal.SIGINT)
        api.wait(PATIENCE_S)

    loaded = told.read_text().splitlines()
    assert "airflow_snowpack.api.app" in loaded
    # Airflow loads all of its models as soon as PyIceberg asks a SQL catalog, which is not ours to change.
    assert set(SCHEDULER).isdisjoint(loaded)
