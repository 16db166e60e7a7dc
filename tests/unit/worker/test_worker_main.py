"""The process of a worker without Airflow: its arguments, its errors and its exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from bounded import PATIENCE_S, started

from airflow_snowpack.worker.__main__ import main

WITHOUT_AIRFLOW = """
import sys
class Refused:
    def find_spec(self, name, path=None, target=None):
        # What the package requires and the dependency group ``worker`` does not have.
        if name.partition(".")[0] in {"airflow", "apsw", "cronsim", "fastapi", "jinja2", "prometheus_client", "xxhash", "yaml"}:
            raise AssertionError(f"the worker imports {name}")
sys.meta_path.insert(0, Refused())
from airflow_snowpack.worker.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a worker on SQLite files; nothing of the tests' own Airflow."""
    for name in [name for name in os.environ if name.startswith(("AIRFLOW__SNOWPACK__", "AIRFLOW_CONN_"))]:
        monkeypatch.delenv(name)
    given = {
        "AIRFLOW__SNOWPACK__STORE_CONN_ID": "store",
        "AIRFLOW__SNOWPACK__CATALOG_CONN_ID": "lakehouse",
        "AIRFLOW_CONN_STORE": json.dumps({"conn_type": "sqlite", "host": str(tmp_path / "snowpack.db")}),
        "AIRFLOW_CONN_LAKEHOUSE": json.dumps(
            {"conn_type": "sqlite", "host": str(tmp_path / "catalog.db"), "extra": {"warehouse": f"file://{tmp_path}"}}
        ),
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    return given


def test_a_worker_imports_nothing_of_airflow(variables: dict[str, str]) -> None:
    command = [sys.executable, "-c", WITHOUT_AIRFLOW, "--once", "--worker-id", "pod-7"]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    assert done.returncode == 0, done.stderr
    assert "Worker pod-7 reaches the catalog" in done.stderr
    assert "Worker pod-7 leaves" in done.stderr


@pytest.mark.parametrize("key", ["store_conn_id", "catalog_conn_id"])
def test_a_worker_uses_no_embedded_file(
    variables: dict[str, str], key: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(f"AIRFLOW__SNOWPACK__{key.upper()}")

    assert main(["--once"]) == 1
    assert f"set AIRFLOW__SNOWPACK__{key.upper()} to the id of a connection" in capsys.readouterr().err


def test_a_store_that_does_not_answer_ends_the_worker_with_6(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_STORE", "postgres://user:hunter2@127.0.0.1:9/jobs")

    assert main(["--once"]) == 6
    assert "hunter2" not in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--poll", "often"], ["--poll", "0s"], ["--max-jobs", "0"], ["now"]])
def test_an_argument_that_is_not_valid_is_a_usage_error(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_stopped_while_it_starts_exits_with_0(
    variables: dict[str, str], tmp_path: Path, sent: signal.Signals
) -> None:
    os.mkfifo(tmp_path / "worker.cfg")
    command = [sys.executable, "-m", "airflow_snowpack.worker", "--config", tmp_path / "worker.cfg"]
    with started(command, env=os.environ | variables, stderr=subprocess.PIPE) as process:
        with (tmp_path / "worker.cfg").open("w"):  # when the worker begins to read it
            process.send_signal(sent)
            assert process.wait(PATIENCE_S) == 0
        assert process.stderr is not None
        assert f"shutdown_requested: {sent.name}" in process.stderr.read()
