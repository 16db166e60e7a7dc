"""What the hooks make of Airflow connections."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.text import Text

from airflow_snowpack import hooks
from airflow_snowpack.connections.catalog import catalog_config
from airflow_snowpack.connections.engines.spark_connect import SparkConnect
from airflow_snowpack.connections.errors import IncompleteConnection, UnsuitableConnection, UnusableAddress, UnusableExtra
from airflow_snowpack.connections.spark import connection_conf, engine_of, spark_master
from airflow_snowpack.connections.store import NOT_FOR_THE_DRIVER, store_url
from airflow_snowpack.iceberg.errors import CatalogUnreachable

if TYPE_CHECKING:
    from airflow.sdk import Connection


def connection(conn_type: str, **fields: Any) -> Connection:
    from airflow.sdk import Connection

    return Connection(conn_id="c", conn_type=conn_type, **fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"host": "db", "port": 5433, "schema": "jobs", "login": "u", "password": "p@ss/word"},
        {"host": "db", "schema": "jobs", "login": "u", "extra": '{"sqlalchemy_query": {"application_name": "a"}, "cursor": "x"}'},
        {"schema": "jobs", "extra": '{"sqlalchemy_query": {"host": ["a:5432", "b:5432"]}}'},
        {"host": "db"},
    ],
)
def test_the_url_of_the_store_is_that_of_the_postgres_provider(fields: dict[str, Any]) -> None:
    from airflow.providers.postgres.hooks.postgres import PostgresHook

    given = connection("postgres", **fields)
    assert store_url(given) == PostgresHook(connection=given, sqlalchemy_scheme="postgresql+psycopg").sqlalchemy_url


@pytest.mark.parametrize(
    "query", ['"sslpassword=hunter2"', '["hunter2"]', '{"sslpassword": {"hunter2": 1}}', '{"hunter2": null}']
)
def test_a_query_of_another_shape_is_refused_without_its_text(query: str) -> None:
    given = connection("postgres", host="db", extra=f'{{"sqlalchemy_query": {query}}}')
    with pytest.raises(UnusableExtra, match="The extra 'sqlalchemy_query' of the Airflow connection 'c' is not valid") as refused:
        store_url(given)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("extra", "query"),
    [
        ('{"sslmode": "require"}', {"sslmode": "require"}),
        ('{"sqlalchemy_query": {"connect_timeout": 5}}', {"connect_timeout": "5"}),
    ],
)
def test_options_of_the_driver_are_texts_in_the_query(extra: str, query: dict[str, str]) -> None:
    assert store_url(connection("postgres", host="db", extra=extra)).query == query


def test_every_extra_that_the_postgres_provider_reads_itself_is_kept_from_the_driver() -> None:
    from airflow.providers.postgres.hooks.postgres import PostgresHook

    assert PostgresHook.ignored_extra_options == NOT_FOR_THE_DRIVER


def test_a_store_with_iam_gets_its_token_from_the_postgres_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.providers.postgres.hooks.postgres import PostgresHook

    from airflow_snowpack.hooks.store import with_token

    # The provider asks AWS or Azure, which no test can reach.
    monkeypatch.setattr(PostgresHook, "get_iam_token", lambda _hook, _connection: ("role", "token", 5432))
    given = with_token(connection("postgres", host="db", login="u", extra='{"iam": true}'))
    assert (given.login, given.password, given.port) == ("role", "token", 5432)


@pytest.mark.parametrize(
    "fields",
    [
        {"host": "spark"},
        {"host": "sc://spark", "port": 15002},
        {"host": "spark", "login": "a b", "password": "t=;o/k", "extra": '{"use_ssl": true}'},
    ],
)
def test_the_address_of_a_connect_server_is_that_of_the_spark_provider(
    fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook

    given = connection("spark_connect", **fields)
    monkeypatch.setenv("AIRFLOW_CONN_C", given.as_json())
    assert SparkConnect.url(given) == SparkConnectHook("c").get_connection_url()


def test_a_store_is_a_sqlite_file_or_a_postgres_database() -> None:
    assert str(store_url(connection("sqlite", host="/var/lib/snowpack.db"))) == "sqlite:////var/lib/snowpack.db"
    with pytest.raises(IncompleteConnection, match="host"):
        store_url(connection("sqlite"))
    with pytest.raises(UnsuitableConnection, match="postgres, sqlite"):
        store_url(connection("mysql", host="db"))


def test_the_embedded_store_answers(installation: Path) -> None:
    ok, message = hooks.SnowpackHook().test_connection()

    assert ok
    assert "snowpack.db" in message


def test_without_a_connection_the_catalog_is_embedded_and_shared_with_spark(installation: Path) -> None:
    config = hooks.IcebergCatalogHook().config

    assert config.address == str(installation / "lake" / "catalog.db")
    assert hooks.IcebergSparkHook().config.catalogs == config.spark_conf()


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ({"conn_type": "iceberg", "host": "https://catalog.example.com/api"}, "https://catalog.example.com/api"),
        ({"conn_type": "http", "host": "catalog", "port": 8181}, "http://catalog:8181"),
        ({"conn_type": "http", "host": "catalog", "schema": "https"}, "https://catalog"),
    ],
)
def test_a_rest_connection_gives_the_catalogs_address(given: dict[str, Any], address: str) -> None:
    assert catalog_config(connection(**given), "lake").address == address


def test_a_rest_connection_gives_credentials_and_properties() -> None:
    extra = '{"warehouse": "wh", "properties": {"s3.endpoint": "http://s3"}, "spark_properties": {"io-impl": "x"}}'
    config = catalog_config(connection("iceberg", host="http://c", login="id", password="secret", extra=extra), "lake")

    assert config.warehouse == "wh"
    assert config.properties == {"s3.endpoint": "http://s3", "credential": "id:secret"}
    assert config.spark_properties == {"io-impl": "x"}
    assert "secret" not in repr(config)


def test_a_sql_catalog_needs_a_warehouse() -> None:
    with pytest.raises(IncompleteConnection, match="warehouse"):
        catalog_config(connection("postgres", host="db", schema="lake"), "lake")


@pytest.mark.parametrize(
    ("given", "master"),
    [
        ({"conn_type": "spark", "host": "local[4]"}, "local[4]"),
        ({"conn_type": "spark", "host": "spark://head", "port": 7077}, "spark://head:7077"),
        ({"conn_type": "spark", "host": "yarn"}, "yarn"),
    ],
)
def test_a_spark_connection_names_the_master(given: dict[str, Any], master: str) -> None:
    assert spark_master(connection(**given)) == master


def test_a_spark_connection_may_have_further_configuration_and_another_type_is_refused() -> None:
    given = connection("spark", host="yarn", extra='{"conf": {"spark.executor.instances": 4}}')
    assert connection_conf(given) == {"spark.executor.instances": "4"}
    with pytest.raises(UnsuitableConnection, match="spark, spark_connect"):
        engine_of(connection("ssh", host="head"))


@pytest.mark.parametrize(
    ("address", "kind", "reached"),
    [
        ("https://catalog.example.com/api", "rest", "https://catalog.example.com/api"),
        ("postgresql://db:5433/lake", "postgres", "db:5433/lake"),
        ("postgres://db/lake", "postgres", "db:5432/lake"),
        ("sqlite:////var/lib/catalog.db", "sqlite", "/var/lib/catalog.db"),
    ],
)
def test_the_beginning_of_an_address_says_of_which_kind_the_catalog_is(address: str, kind: str, reached: str) -> None:
    config = catalog_config(connection("snowpack_catalog", host=address, extra='{"warehouse": "wh"}'), "lake")

    assert (config.kind, config.address, config.warehouse) == (kind, reached, "wh")


@pytest.mark.parametrize(
    "address",
    ["catalog", "ftp://host", "https://user:hunter22@host/api", "postgresql://u:hunter22@db/lake", "postgresql://db:x/l"],
)
def test_an_address_that_names_no_catalog_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(UnusableAddress) as refused:
        catalog_config(connection("snowpack_catalog", host=address, extra='{"warehouse": "wh"}'), "lake")

    assert "hunter22" not in str(refused.value)


@pytest.mark.parametrize("properties", ['{"s3.endpoint": "http://s3"}', '"{\\"s3.endpoint\\": \\"http://s3\\"}"'])
def test_properties_are_an_object_or_the_text_of_one(properties: str) -> None:
    given = connection("snowpack_catalog", host="https://c", extra=f'{{"properties": {properties}}}')

    assert catalog_config(given, "lake").properties == {"s3.endpoint": "http://s3"}


@pytest.mark.parametrize("properties", ['"{oops"', "[1]", "7"])
def test_properties_of_another_shape_are_refused(properties: str) -> None:
    with pytest.raises(UnusableExtra, match="properties"):
        catalog_config(connection("snowpack_catalog", host="https://c", extra=f'{{"properties": {properties}}}'), "lake")


def test_the_form_of_the_store_gives_the_same_as_a_postgres_connection() -> None:
    fields = {"host": "db", "port": 5433, "schema": "jobs", "login": "u", "password": "p", "extra": '{"sslmode": "require"}'}

    assert store_url(connection("snowpack_store", **fields)) == store_url(connection("postgres", **fields))


def test_a_catalog_that_answers_tells_how_many_databases_it_has(installation: Path) -> None:
    hooks.IcebergCatalogHook().catalog.create_namespace("demo")

    assert hooks.IcebergCatalogHook().test_connection() == (
        True,
        f"The sqlite catalog at {installation / 'lake' / 'catalog.db'} answers; databases: 1; "
        "its warehouse can be written and read.",
    )
    assert list((installation / "lake" / "warehouse").rglob("snowpack-trial-*")) == []


def test_a_warehouse_that_cannot_be_written_is_named_though_the_catalog_answers(
    installation: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    extra = {"warehouse": f"file://{tmp_path}/file/warehouse"}
    given = {"conn_type": "snowpack_catalog", "host": f"sqlite:///{tmp_path}/catalog.db", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_FAR", json.dumps(given))
    ok, message = hooks.IcebergCatalogHook("far").test_connection()

    assert not ok
    assert f"a file in its warehouse 'file://{tmp_path}/file/warehouse' cannot be written and read: " in message


def test_the_fields_of_the_form_are_properties_of_the_storage_that_properties_override() -> None:
    extra = {
        "s3_region": "eu-central-1",
        "s3_endpoint": "http://s3",
        "s3_role_arn": "",
        "properties": {"s3.endpoint": "http://b"},
    }
    config = catalog_config(connection("snowpack_catalog", host="thrift://metastore:9083", extra=json.dumps(extra)), "lake")

    assert config.properties == {"s3.region": "eu-central-1", "s3.endpoint": "http://b"}


def test_the_login_of_a_glue_connection_is_the_key_of_glue_and_of_s3() -> None:
    given = {"host": "glue://eu-central-1", "login": "key", "password": "hunter22", "extra": "{}"}
    config = catalog_config(connection("snowpack_catalog", **given), "lake")

    for client in ("glue", "s3"):
        assert config.properties[f"{client}.access-key-id"] == "key"
        assert config.properties[f"{client}.secret-access-key"] == "hunter22"
    assert "hunter22" not in repr(config)
    assert (
        config.catalog_id
        == catalog_config(connection("snowpack_catalog", host="glue://eu-central-1", extra="{}"), "lake").catalog_id
    )


def test_several_metastores_are_one_catalog() -> None:
    config = catalog_config(connection("hive_metastore", host="a, b", extra="{}"), "lake")

    assert config.address == "thrift://a:9083,thrift://b:9083"


@pytest.mark.parametrize(
    ("hook", "uri"),
    [
        ("SnowpackHook", "postgres://u:hunter22@127.0.0.1:1/x"),
        ("IcebergCatalogHook", "snowpack-catalog://http://127.0.0.1:1/?token=hunter22"),
    ],
)
def test_a_store_or_catalog_that_does_not_answer_is_a_message_without_the_secret(
    installation: Path, monkeypatch: pytest.MonkeyPatch, hook: str, uri: str
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_FAR", uri)
    ok, message = getattr(hooks, hook)("far").test_connection()

    assert not ok
    assert "cannot be reached" in message
    assert "hunter22" not in message


@pytest.mark.parametrize("host", ["", "postgres-without-a-host"])
@pytest.mark.parametrize("hook", ["SnowpackHook", "IcebergCatalogHook"])
def test_rich_prints_the_message_of_a_connection_test_whole(
    hook: str, host: str, installation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`airflow connections test` prints it as Rich markup."""
    monkeypatch.setenv("AIRFLOW_CONN_FAR", f"postgres://u:secret@{host}/[/x]" if host else "sqlite:///")
    ok, message = getattr(hooks, hook)("far").test_connection()

    assert not ok
    assert Text.from_markup(message).plain == message


def test_a_catalog_without_its_connection_is_one_that_cannot_be_reached(
    installation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_snowpack.hooks.iceberg_catalog import reach_catalog

    monkeypatch.setenv("AIRFLOW_CONN_FAR", "snowpack-catalog://nowhere")

    with pytest.raises(CatalogUnreachable, match="UnusableAddress"):
        reach_catalog("far")
