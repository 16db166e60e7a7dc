"""How entries end with their tasks, and what of them is in the log, in the lineage and in mapped tasks."""

from __future__ import annotations

import json
import os
import signal
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow as pa
import pytest

from airflow_snowpack import hooks, operators
from airflow_snowpack.interim import read_ref
from airflow_snowpack.interim.frames.tables import read_as_arrow
from airflow_snowpack.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from airflow_snowpack.interim import InterimRegistry
    from tests.unit.faces.conftest import Runner

PATIENCE_S = 120
ENDLESS = """
import json, os, subprocess, sys, time
below = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
with open(sys.argv[1] + ".new", "w") as file:
    json.dump([os.getpid(), below.pid], file)
os.rename(sys.argv[1] + ".new", sys.argv[1])
open(sys.argv[2], "w").close()
print("running", flush=True)
time.sleep(600)
"""
WRITE = """
import sys, pyarrow as pa, pyarrow.parquet as pq
pq.write_table(pa.table({"number": [int(sys.argv[2])]}), sys.argv[1])
"""


@pytest.fixture
def own_signals() -> Iterator[None]:
    """Airflow's runner leaves its handler behind."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def endless(tmp_path: Path, **arguments: Any) -> operators.RunEntryOperator:
    """A task whose entry has written its output and does not end, with a process below it in a session of its own."""
    command = [sys.executable, "-c", ENDLESS, str(tmp_path / "pids.json"), "{outputs}/made.parquet"]
    return operators.RunEntryOperator(task_id="score", runner="subprocess", command=command, outputs=["made"], **arguments)


def assert_all_gone(tmp_path: Path) -> None:
    for pid in json.loads((tmp_path / "pids.json").read_text()):
        if psutil.pid_exists(pid):
            psutil.Process(pid).wait(PATIENCE_S)
    assert list(Settings.load().runner_folder.glob("entry-*")) == []


@pytest.mark.usefixtures("own_signals")
def test_a_signal_to_the_task_ends_the_entry_with_all_below_it(
    run_operator: Runner, registry: InterimRegistry, tmp_path: Path
) -> None:
    operator = endless(tmp_path)
    operator.__dict__["_log_line"] = lambda line: os.kill(os.getpid(), signal.SIGTERM)

    outcome = run_operator(operator)

    assert isinstance(outcome.error, SystemExit)
    assert outcome.error.code == 143
    assert_all_gone(tmp_path)
    assert registry.tables() == []


def test_the_time_limit_of_the_task_ends_the_entry_with_all_below_it(
    run_operator: Runner, registry: InterimRegistry, tmp_path: Path
) -> None:
    operator = endless(tmp_path, execution_timeout=timedelta(seconds=4))

    outcome = run_operator(operator)

    assert type(outcome.error).__name__ == "AirflowTaskTimeout"
    if (tmp_path / "pids.json").exists():  # on a busy machine, the time may be over before
        assert_all_gone(tmp_path)
    assert registry.tables() == []


def test_a_lease_that_is_lost_ends_the_entry(run_operator: Runner, registry: InterimRegistry, tmp_path: Path) -> None:
    """As when Airflow has reported that this attempt ended, and its input may be dropped."""
    operator = endless(tmp_path)
    operator.__dict__["_log_line"] = lambda line: run_operator.instance.task._handover._heartbeat._on_lost()

    outcome = run_operator(operator)

    assert outcome.state == "up_for_retry"
    assert "The entry was stopped" in str(outcome.error)
    assert_all_gone(tmp_path)


def test_the_instances_of_a_mapped_task_have_their_own_folders_and_tables(
    run_operator: Runner, registry: InterimRegistry
) -> None:
    from airflow.sdk import DAG

    made = []
    for index in range(2):
        with DAG("guard", schedule=None):
            command = [sys.executable, "-c", WRITE, "{outputs}/made.parquet", "{{ ti.map_index }}"]
            operator = operators.RunEntryOperator(task_id="score", runner="subprocess", command=command, outputs=["made"])
        made.append(run_operator(operator, map_index=index))

    assert [outcome.error for outcome in made] == [None, None]
    catalog = hooks.IcebergCatalogHook().catalog
    assert [read_as_arrow(read_ref(outcome.xcom), catalog)["number"].to_pylist() for outcome in made] == [[0], [1]]
    assert {table.producer.map_index for table in registry.tables()} == {0, 1}


def test_each_line_of_a_secret_is_masked(run_operator: Runner) -> None:
    key = "first-line-of-a-key\nsecond-line-of-a-key"
    outcome = run_operator(
        operators.RunEntryOperator(task_id="score", runner="subprocess", command=["true"], command_env={"KEY": key})
    )

    assert outcome.state == "success", outcome.error
    masked = {each.value for each in outcome.sent if type(each).__name__ == "MaskSecret"}
    assert {key, *key.splitlines()} <= masked


def test_lines_keep_their_levels_and_their_loggers(run_operator: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk import DAG, task

    def talking() -> None:
        import logging
        import sys

        print("to stdout")
        print("to stderr", file=sys.stderr)
        logging.getLogger("acme.scoring").warning("a warning")
        logging.getLogger("acme.scoring").debug("too fine")

    with DAG("guard", schedule=None):
        called: Any = task.snowpack(runner="subprocess")(talking)()
    logged = LoggedLines()
    monkeypatch.setattr(type(called.operator), "log", logged)

    outcome = run_operator(called.operator)

    assert outcome.state == "success", outcome.error
    assert set(logged.lines) >= {(20, "to stdout"), (40, "to stderr"), (30, "acme.scoring: a warning")}
    assert "too fine" not in repr(logged.lines)


class LoggedLines:
    """A task's logger."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, str]] = []

    def log(self, level: int, message: str, *arguments: Any) -> None:
        self.lines.append((level, message % arguments))

    def info(self, *_: Any, **__: Any) -> None: ...

    debug = warning = error = exception = info


def test_the_lineage_names_the_tables_that_an_entry_received_and_returned(
    run_operator: Runner, registry: InterimRegistry
) -> None:
    from airflow.sdk import DAG, task

    def made() -> pa.Table:
        return pa.table({"number": [1]})

    def more(numbers: Any) -> Any:
        return numbers.append_column("again", numbers["number"])

    with DAG("guard", schedule=None):
        first: Any = task.snowpack(made)()
    source = run_operator(first.operator).xcom
    with DAG("guard", schedule=None):
        second: Any = task.snowpack(runner="subprocess")(more)(source)
    outcome = run_operator(second.operator)
    assert outcome.state == "success", outcome.error

    reported: Any = run_operator.instance.task.get_openlineage_facets_on_complete(run_operator.instance)

    ((read,), (written,)) = reported.inputs, reported.outputs
    assert read.name.endswith(source["table"].rpartition(".")[2])
    assert written.name.endswith(outcome.xcom["table"].rpartition(".")[2])


@pytest.mark.parametrize(
    ("runner", "provider", "driver"),
    [
        ("docker", "airflow.providers.docker.operators.docker", "docker_container"),
        ("kubernetes", "airflow.providers.cncf.kubernetes.operators.pod", "kubernetes_pod"),
    ],
)
def test_a_missing_provider_names_the_extra(runner: str, provider: str, driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_snowpack.operators.entries.isolated_runner import RunnerNotInstalled, open_runner

    monkeypatch.setitem(sys.modules, provider, None)
    monkeypatch.delitem(sys.modules, f"airflow_snowpack.operators.entries.{driver}", raising=False)
    place: Any = None  # it is not read before the provider is

    with pytest.raises(RunnerNotInstalled, match=rf"Install the extra airflow-snowpack\[{runner}\] on the worker"):
        open_runner(runner, place)
