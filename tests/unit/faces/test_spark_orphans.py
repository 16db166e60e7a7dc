"""The Spark Connect server that an attempt may leave work on is found again by its Airflow connection."""

from __future__ import annotations

import json

import pytest

from airflow_snowpack import hooks
from airflow_snowpack.connections.errors import ConnectionNotFound, UnsuitableConnection
from airflow_snowpack.connections.spark import SparkOrphans
from airflow_snowpack.maintenance import SparkEngine
from airflow_snowpack.spark import ConnectServer, SparkUnavailable

pytestmark = pytest.mark.one_database


@pytest.fixture(autouse=True)
def connections(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = {"conn_type": "spark_connect", "host": "127.0.0.1", "port": 9, "password": "hunter2"}
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps(nobody))
    monkeypatch.setenv("AIRFLOW_CONN_LOCAL", json.dumps({"conn_type": "spark", "host": "local[2]"}))


def test_an_engine_on_spark_connect_names_the_connection_of_its_server() -> None:
    sessions = hooks.IcebergSparkHook("cluster").sessions

    assert isinstance(sessions, ConnectServer)
    assert (sessions.name, sessions.url) == ("cluster", "sc://127.0.0.1:9/;token=hunter2")
    assert "hunter2" not in repr(sessions)
    assert SparkEngine(sessions, lambda: pytest.fail("no catalog is needed")).server == "cluster"


def test_an_engine_in_this_process_names_no_server() -> None:
    sessions = hooks.IcebergSparkHook("local").sessions

    assert not isinstance(sessions, ConnectServer)
    assert SparkEngine(sessions, lambda: pytest.fail("no catalog is needed")).server is None


def test_a_server_that_does_not_answer_is_not_taken_for_one_without_orphans() -> None:
    from airflow_snowpack.hooks.connections import read_connection

    with pytest.raises(SparkUnavailable, match=r"sc://127\.0\.0\.1:9 does not respond") as refused:
        SparkOrphans(read_connection).end("cluster", "a job", [1])
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(("conn_id", "error"), [("gone", ConnectionNotFound), ("local", UnsuitableConnection)])
def test_a_connection_that_names_no_server_any_more_is_an_error(conn_id: str, error: type[Exception]) -> None:
    from airflow_snowpack.hooks.connections import read_connection

    with pytest.raises(error, match=conn_id):
        SparkOrphans(read_connection).end(conn_id, "a job", [1])
