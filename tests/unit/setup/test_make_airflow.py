"""``make airflow`` on any port: tasks find the API server, links lead to it, and the tables of the example DAGs are there."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_airflow import REPOSITORY, made_airflow

pytestmark = pytest.mark.one_database


@pytest.mark.parametrize(("port", "expected"), [(None, 8080), (9191, 9191)])
def test_every_setting_that_holds_the_port_follows_it(tmp_path: Path, port: int | None, expected: int) -> None:
    tables, airflow = made_airflow(tmp_path, port)

    assert tables.arguments == ["python", "-m", "examples.demo.tables"]
    assert airflow.arguments == ["airflow", "standalone"]
    assert tables.environment == airflow.environment == {
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{expected}",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(expected),
        "AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{expected}/execution/",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "10",
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(expected + 714),
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(expected + 713),
    }  # fmt: skip


def test_with_the_port_of_airflow_the_log_servers_have_airflows_own_ports(tmp_path: Path) -> None:
    from airflow.configuration import conf

    environment = made_airflow(tmp_path)[-1].environment

    for kind in ("worker", "trigger"):
        default = conf.get_default_value("logging", f"{kind}_log_server_port")
        assert environment[f"AIRFLOW__LOGGING__{kind.upper()}_LOG_SERVER_PORT"] == default
