"""Of an address only hosts, ports and the database are shown, wherever an address is shown."""

from __future__ import annotations

import asyncio
import doctest
import json
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from airflow_snowpack import redaction
from airflow_snowpack.api.app import open_ahead
from airflow_snowpack.api.services import LazyServices, Services
from airflow_snowpack.connections.catalog import catalog_config
from airflow_snowpack.hooks.api_client import AirflowRest
from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.iceberg.errors import CatalogUnreachable
from airflow_snowpack.redaction import public_address, redacted
from airflow_snowpack.store import Deadlines, StoreUnreachable, open_store
from airflow_snowpack.worker.environment import Environment

pytestmark = pytest.mark.one_database
SECRETS = ("hunter22", "tok-en", "n3xt")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql+psycopg://u:hunter22@db:5432/jobs?sslpassword=tok-en&new_option=n3xt", "postgresql://db:5432/jobs"),
        ("postgresql://u:hunter22@/jobs?host=a:1&host=b:2&sslpassword=n3xt", "postgresql://a:1,b:2/jobs"),
        ("postgresql://u@/jobs?host=a,b&port=5433&sslpassword=n3xt", "postgresql://a:5433,b:5433/jobs"),
        ("postgresql://u:hunt/er22@db/jobs", "postgresql://***"),
        ("https://u:hunt?er22@catalog/v1", "https://***"),
        ("https://id:hunter22@[::1]:8181/v1?token=tok-en#n3xt", "https://[::1]:8181/v1"),
        ("https://catalog/at@v1", "https://catalog/at@v1"),
        ("sc://spark:15002/;token=tok-en", "sc://spark:15002/"),
        ("s3://hunter22:tok-en@lake/builds", "s3://lake/builds"),
        ("abfss://container@account.dfs.core.windows.net/lake", "abfss://container@account.dfs.core.windows.net/lake"),
        ("abfss://container:hunter22@account.dfs.core.windows.net/lake", "abfss://account.dfs.core.windows.net/lake"),
        ("sqlite:////home/me@host/snowpack.db", "sqlite:////home/me@host/snowpack.db"),
        ("sqlite:///file:/snowpack.db?key=tok-en&uri=true", "sqlite:///file:/snowpack.db"),
        ("/home/me/lake?", "/home/me/lake?"),
    ],
)  # fmt: skip
def test_an_address_is_shown_without_user_password_and_query(address: str, shown: str) -> None:
    assert public_address(address) == shown
    assert not any(secret in shown for secret in SECRETS)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("no: Bearer hunter22!, id:hunter22", "no: Bearer ***!, ***"),
        ("Invalid URL 'https://id:tok-en@catalog/v1?a=n3xt'.", "Invalid URL 'https://catalog/v1'."),
        ("Max retries with url: /v1/config?token=tok-en (Caused by …)", "Max retries with url: /v1/config (Caused by …)"),
        ("Is the server up? Try port = 5432.", "Is the server up? Try port = 5432."),
    ],
)  # fmt: skip
def test_a_message_is_shown_without_known_secrets_and_without_those_in_addresses(message: str, shown: str) -> None:
    assert redacted(message, ["hunter22", "id:hunter22", None, "", "no"]) == shown


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("AIRFLOW_CONN_CRM", "postgres://crm:h%40nter22@db:5432/crm?sslpassword=tok-en-n3xt", "h@nter22"),
        ("AIRFLOW_CONN_CRM", "postgres://crm:h%40nter22@db:5432/crm?sslpassword=tok-en-n3xt", "h%40nter22"),
        ("AIRFLOW_CONN_CRM", "postgres://crm:h%40nter22@db:5432/crm?sslpassword=tok-en-n3xt", "tok-en-n3xt"),
        ("AIRFLOW_CONN_CRM", '{"password": "hunter22", "extra": {"a": [{"api_key": "n3xt-n3xt"}]}}', "hunter22"),
        ("AIRFLOW_CONN_CRM", '{"password": "hunter22", "extra": {"a": [{"api_key": "n3xt-n3xt"}]}}', "n3xt-n3xt"),
        ("AIRFLOW_CONN_CRM", '{"conn_type": "http", "extra": "{\\"client_secret\\": \\"a\\\\nb-n3xt\\"}"}', "a\nb-n3xt"),
        ("AIRFLOW_CONN_CRM", "http://host/?__extra__=%7B%22token%22%3A+%22tok-en-n3xt%22%7D", "tok-en-n3xt"),
        ("AIRFLOW_CONN_CRM", '{"extra": {"properties": {"header.Authorization": "Bearer tok-en-n3xt"}}}', "tok-en-n3xt"),
        (
            "AIRFLOW_CONN_CRM",
            '{"extra": {"properties": {"adls.connection-string": "BlobEndpoint=https://a.b;AccountKey=n3xt-n3xt==;EndpointSuffix=c"}}}',
            "n3xt-n3xt==",
        ),
        ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "postgresql+psycopg2://airflow:hunter22@db/airflow", "hunter22"),
        ("AIRFLOW__CORE__FERNET_KEY", "8Xx_fernet-key=", "8Xx_fernet-key="),
        ("AWS_SECRET_ACCESS_KEY", "/wJalr/XUtn", "/wJalr/XUtn"),
        ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7", "AKIAIOSFODNN7"),
        ("db_pwd", "1234567890", "1234567890"),
        ("SNOWFLAKE_PASSWORD", 'a"quoted"one', 'a\\"quoted\\"one'),
        ("SNOWFLAKE_PASSWORD", "it's\\quoted", "it\\'s\\\\quoted"),
        ("SPARK_CONN", "http://https://id:hunter22@catalog:8181/", "hunter22"),
        ("CLIENT_CREDENTIAL", "client:n3xt-n3xt", "n3xt-n3xt"),
    ],
)  # fmt: skip
def test_a_message_is_shown_without_the_secrets_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, secret: str
) -> None:
    monkeypatch.setenv(name, value)
    assert redacted(f"cannot resolve {secret}: {value}") == "cannot resolve ***: ***"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOME", "/home/me/lake"),
        ("AWS_REGION", "eu-central-1"),
        ("AWS_ENDPOINT_URL", "http://minio:9000"),
        ("AWS_S3_BUCKET", "flights-lake"),
        ("AWS_ROLE_SESSION_NAME", "departures"),
        ("DB_SECRET_ARN", "arn:aws:secretsmanager:eu-central-1:1:secret:db"),
        ("CRM_SECRET_NAME", "departures"),
        ("AIRFLOW__SECRETS__BACKEND", "airflow.providers.vault.VaultBackend"),
        ("ADMIN_PASSWORD", "admin"),
        ("USE_TOKEN", "true"),
        ("POSTGRES_PASSWORD", "postgres"),
        ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "sqlite:////home/me/airflow.db"),
        ("AIRFLOW__SNOWPACK__SPARK_CONN_ID", "spark_default"),
        ("AIRFLOW__CORE__AUTH_MANAGER", "airflow.api_fastapi.SimpleAuthManager"),
        ("TOKEN_LIFETIME", "86400"),
        ("CRM_PASSWORD", "short"),
        ("CRM_PASSWORD_FILE", "/run/secrets/crm"),
        ("CRM_PASSWORD", ""),
    ],
)  # fmt: skip
def test_what_is_no_secret_of_the_environment_stays(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    assert redacted(f"cannot resolve {value}") == f"cannot resolve {value}"


def test_the_type_and_the_host_of_a_connection_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", '{"conn_type": "iceberg", "host": "catalog.example.com", "password": "hunter22"}')
    message = "the iceberg catalog at catalog.example.com refused hunter22"
    assert redacted(message) == "the iceberg catalog at catalog.example.com refused ***"


def test_the_working_directory_stays_and_a_password_of_that_name_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PWD", "/opt/airflow")
    monkeypatch.setenv("AIRFLOW_CONN_CRM", '{"conn_type": "odbc", "extra": {"PWD": "hunter22"}}')
    assert redacted("no table in /opt/airflow with hunter22") == "no table in /opt/airflow with ***"


def test_the_examples_of_the_module_are_true(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {})  # one of them sets a variable
    assert doctest.testmod(redaction) == doctest.TestResults(0, 5)


def test_no_error_or_log_line_of_a_store_repeats_its_password_or_a_part_of_its_query(caplog: pytest.LogCaptureFixture) -> None:
    url = "postgresql://u:hunter22@127.0.0.1:1/jobs?sslmode=disable&sslpassword=tok-en"

    def open_services() -> Services:
        open_store(url, deadlines=Deadlines())
        raise AssertionError("nothing listens on port 1")

    with caplog.at_level(logging.DEBUG):
        asyncio.run(open_ahead(LazyServices(open_services)))
    with pytest.raises(StoreUnreachable, match=r"store at postgresql://127\.0\.0\.1:1/jobs cannot") as failed:
        open_store(url)

    log = caplog.text + "".join(caplog.handler.format(record) for record in caplog.records)
    assert "postgresql://127.0.0.1:1/jobs" in log
    assert not any(secret in log + str(failed.value) for secret in SECRETS)


def test_no_representation_of_a_catalog_or_a_client_of_airflow_has_the_secrets_of_its_address() -> None:
    address = "https://id:hunter22@127.0.0.1:1/v1?token=tok-en"
    config, rest = CatalogConfig.rest("lake", address, warehouse="s3://n3xt:hunter22@lake"), AirflowRest(address, "u")

    assert repr(config) == "CatalogConfig(name='lake', kind='rest', where='https://127.0.0.1:1/v1', warehouse='s3://lake')"
    assert not any(secret in repr(rest) + rest.where for secret in SECRETS)


def test_the_secrets_of_a_connection_of_a_worker_are_in_no_message_of_its_process(tmp_path: Path) -> None:
    with rest_that_repeats_the_token() as address:
        file = tmp_path / "worker.cfg"
        file.write_text(f"[connections]\nlake = http://{address}/?token=tok-en-n3xt\n")
        config = catalog_config(Environment({}, file).connection("lake", "the catalog"), "lake")
        with pytest.raises(CatalogUnreachable, match=r"the token \*\*\* is not valid") as failed:
            config.load()

    assert "tok-en" not in str(failed.value)


@contextmanager
def rest_that_repeats_the_token() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            token = str(self.headers["Authorization"]).removeprefix("Bearer ")
            error = {"message": f"the token {token} is not valid", "type": "NotAuthorizedException", "code": 401}
            body = json.dumps({"error": error}).encode()
            self.send_response(401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
