"""A connection to a HiveServer2 endpoint runs maintenance, and refuses all that needs data frames before anything runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_snowpack import hooks, operators
from airflow_snowpack.connections.errors import IncompleteConnection, OneCatalogOnly, StatementsOnly, UnusableExtra
from airflow_snowpack.connections.spark import SparkOrphans, sparks_of
from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.maintenance import SparkEngine
from airflow_snowpack.spark import SparkUnavailable, ThriftServer

pytestmark = pytest.mark.one_database

KERBEROS = {"auth_mechanism": "KERBEROS", "kerberos_service_name": "spark", "use_ssl": True}


@pytest.fixture(autouse=True)
def connections(monkeypatch: pytest.MonkeyPatch) -> None:
    named = {
        "thrift": {"host": "127.0.0.1", "port": 9, "login": "ann", "password": "hunter2"},
        "secure": {"host": "thrift", "extra": KERBEROS},
        "odd": {"host": "thrift", "extra": {"auth_mechanism": "MAGIC"}},
        "empty": {},
    }
    for name, fields in named.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps({"conn_type": "hiveserver2", **fields}))


def test_the_connection_names_the_server_of_the_engine() -> None:
    sessions = hooks.IcebergSparkHook("thrift").sessions

    assert sessions == ThriftServer("thrift", "127.0.0.1", 9, "ann", "hunter2")
    assert "hunter2" not in repr(sessions)
    assert SparkEngine(sessions, lambda: pytest.fail("no catalog is needed")).server == "thrift"


def test_the_extras_are_those_of_airflows_hive_provider() -> None:
    sessions = hooks.IcebergSparkHook("secure").sessions
    assert sessions == ThriftServer("secure", "thrift", 10000, None, None, "GSSAPI", "spark", use_ssl=True)


def test_a_connection_without_a_host_or_with_an_unknown_login_is_refused() -> None:
    with pytest.raises(IncompleteConnection, match=r"'empty' for Spark has no host"):
        hooks.IcebergSparkHook("empty").check()
    with pytest.raises(UnusableExtra, match=r"'auth_mechanism' of the Airflow connection 'odd' is not valid\. Use one of "):
        hooks.IcebergSparkHook("odd").check()


def test_a_server_that_does_not_answer_is_not_taken_for_the_end_of_a_statement() -> None:
    from airflow_snowpack.hooks.connections import read_connection

    with pytest.raises(SparkUnavailable, match=r"Thrift Server at 127\.0\.0\.1:9 does not respond") as refused:
        SparkOrphans(read_connection).end("thrift", "a job", [1])
    assert "hunter2" not in str(refused.value)


def test_a_worker_of_several_catalogs_is_refused_as_the_server_has_one(installation: Path, tmp_path: Path) -> None:
    from airflow_snowpack.hooks.connections import read_connection

    others = [CatalogConfig.sqlite("lake", tmp_path / f"{name}.db", warehouse=f"file://{tmp_path}") for name in ("a", "b")]
    engines = sparks_of(hooks.IcebergCatalogHook().settings, others, read_connection("thrift", "Spark"))

    with pytest.raises(OneCatalogOnly, match="Start a worker for each catalog"):
        engines[0].check()


def test_a_build_and_a_session_are_refused_by_the_name_of_the_connection(installation: Path) -> None:
    from airflow.providers.common.compat.sdk import AirflowFailException

    build = operators.ShardedBuildOperator(
        task_id="build", dataset="features", sql="SELECT 1 AS user_id", key="user_id", num_shards=1, spark_conn_id="thrift"
    )
    with pytest.raises(
        AirflowFailException, match=r"'thrift' has the type 'hiveserver2', which runs maintenance, but has no data"
    ):
        build.execute({})  # type: ignore[typeddict-item]  # it ends before it reads the context
    with pytest.raises(StatementsOnly, match="Pass spark_conn_id"):
        hooks.IcebergSparkHook("thrift").session()
