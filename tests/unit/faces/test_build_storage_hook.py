"""What the connections of object storages become, and that none of their secrets gets out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import fs

from airflow_snowpack import hooks
from airflow_snowpack.builds.errors import InvalidBuild
from airflow_snowpack.builds.filesystems import refuse_secrets
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.connections.errors import IncompleteConnection, UnsuitableConnection, UnusableExtra

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow.sdk import Connection

    MakeConnection = Callable[[], Connection]

S3, GS, ABFS = "s3://lake/builds", "gs://lake/builds", "abfs://lake/builds"
AZURE_KEY = "QUJDREVGR0hJSktMTU5PUA=="


def connection(conn_type: str, *, extra: dict[str, Any] | None = None, **fields: Any) -> MakeConnection:
    """Return what makes a connection in a test, since Airflow is not imported to collect the tests."""

    def make() -> Connection:
        from airflow.sdk import Connection

        return Connection(conn_id="c", conn_type=conn_type, extra=json.dumps(extra or {}), **fields)

    return make


def options_of(given: MakeConnection, url: str) -> dict[str, Any]:
    from airflow_snowpack.hooks.build_storage import storage_options

    return storage_options(given(), url)


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (connection("aws"), {}),
        (connection("aws", login="AK", password="SK"), {"access_key": "AK", "secret_key": "SK"}),
        (
            connection("aws", extra={"aws_access_key_id": "AK", "aws_secret_access_key": "SK", "aws_session_token": "ST"}),
            {"access_key": "AK", "secret_key": "SK", "session_token": "ST"},
        ),
        (
            connection("aws", extra={"endpoint_url": "http://minio:9000/", "region_name": "eu-west-1"}),
            {"scheme": "http", "endpoint_override": "minio:9000", "region": "eu-west-1"},
        ),
        (
            connection("aws", extra={"endpoint_url": "http://all", "service_config": {"s3": {"endpoint_url": "https://s3only"}}}),
            {"scheme": "https", "endpoint_override": "s3only"},
        ),
        (
            connection("aws", extra={"role_arn": "arn:x", "assume_role_kwargs": {"ExternalId": "e"}}),
            {"role_arn": "arn:x", "external_id": "e"},
        ),
        (connection("generic", extra={"anonymous": True}), {"anonymous": True}),
        (
            connection("generic", login="AK", password="SK", extra={"scheme": "http"}),
            {"access_key": "AK", "secret_key": "SK", "scheme": "http"},
        ),
    ],
)
def test_a_connection_to_s3_becomes_options_of_arrows_client(given: MakeConnection, options: dict[str, Any]) -> None:
    assert options_of(given, S3) == options
    assert isinstance(Storage(S3, {"region": "us-east-1"} | options)._fs, fs.S3FileSystem)


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (connection("google_cloud_platform", extra={"project": "p"}), {"project_id": "p"}),
        (connection("google_cloud_platform", extra={"is_anonymous": True}), {"anonymous": True}),
        (connection("google_cloud_platform", extra={"impersonation_chain": "a@p"}), {"target_service_account": "a@p"}),
    ],
)
def test_a_google_connection_without_a_key_is_who_the_machine_is(given: MakeConnection, options: dict[str, Any]) -> None:
    assert options_of(given, GS) == options


def test_a_google_connection_with_a_key_goes_by_fsspec_and_says_what_is_missing() -> None:
    given = connection("google_cloud_platform", extra={"keyfile_dict": '{"private_key": "pk"}', "project": "p"})
    options = options_of(given, GS)

    assert options == {"fsspec": True, "token": {"private_key": "pk"}, "project": "p"}
    with pytest.raises(InvalidBuild, match="gcsfs"):
        Storage(GS, options)


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (
            connection("wasb", login="acct", password=AZURE_KEY),
            {"account_name": "acct", "account_key": AZURE_KEY},
        ),
        (
            connection("wasb", host="https://acct.blob.core.windows.net", extra={"sas_token": "sv=1&sig=x"}),
            {"account_name": "acct", "sas_token": "sv=1&sig=x"},
        ),
        (
            connection("adls", host="acct", login="app", password="pw", extra={"tenant_id": "t"}),
            {"account_name": "acct", "client_id": "app", "client_secret": "pw", "tenant_id": "t"},
        ),
        (
            connection("wasb", extra={"connection_string": f"AccountName=acct;AccountKey={AZURE_KEY};EndpointSuffix=x"}),
            {"account_name": "acct", "account_key": AZURE_KEY},
        ),
    ],
)
def test_an_azure_connection_becomes_options_of_arrows_client(given: MakeConnection, options: dict[str, Any]) -> None:
    assert options_of(given, ABFS) == options
    assert isinstance(Storage(ABFS, options)._fs, fs.AzureFileSystem)


def test_the_azure_account_may_stand_in_the_address() -> None:
    storage = Storage("abfss://lake@acct.dfs.core.windows.net/builds/x", {"account_key": AZURE_KEY})

    assert storage._base == "lake/builds/x"


def test_an_azure_address_without_an_account_is_refused() -> None:
    with pytest.raises(InvalidBuild, match="account_name"):
        Storage(ABFS)


@pytest.mark.parametrize(
    ("given", "url", "error"),
    [
        (connection("aws", login="AK", password="SK"), GS, UnsuitableConnection),
        (connection("postgres"), S3, UnsuitableConnection),
        (connection("aws", extra={"profile_name": "prod"}), S3, UnusableExtra),
        (connection("aws", login="AK", password="SK", extra={"role_arn": "arn:x"}), S3, UnusableExtra),
        (connection("aws", extra={"verify": False}), S3, UnusableExtra),
        (connection("aws", extra={"service_config": "[1"}), S3, UnusableExtra),
        (connection("google_cloud_platform", extra={"key_secret_name": "s"}), GS, UnusableExtra),
        (connection("wasb", login="a", extra={"account_host": "h"}), ABFS, UnusableExtra),
        (connection("wasb", extra={"connection_string": "AccountKey=hidden"}), ABFS, IncompleteConnection),
    ],
)
def test_what_a_connection_asks_for_and_cannot_have_is_refused_without_its_secrets(
    given: MakeConnection, url: str, error: type[Exception]
) -> None:
    with pytest.raises(error) as refused:
        options_of(given, url)

    assert not any(secret in str(refused.value) for secret in ("SK", "hidden"))


def test_an_option_that_the_client_does_not_know_is_named() -> None:
    with pytest.raises(InvalidBuild, match="acces_key"):
        Storage(S3, {"acces_key": "AK"})


def test_a_dataset_goes_below_the_installations_folder(installation: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hooks.BuildStorageHook().url_of("flights") == str(installation / "lake" / "builds" / "flights")
    monkeypatch.setenv("AIRFLOW__SNOWPACK__BUILDS_URL", "s3://lake/builds/")
    assert hooks.BuildStorageHook().url_of("flights") == "s3://lake/builds/flights"
    with pytest.raises(InvalidBuild):
        hooks.BuildStorageHook().url_of("../flights")


def test_a_local_folder_needs_no_connection_and_gets_none(installation: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__SNOWPACK__BUILDS_CONN_ID", "not_there")
    storage = hooks.BuildStorageHook().storage(str(installation / "set"))
    storage.write("one", b"1")

    assert storage.is_local


@pytest.mark.parametrize(
    "url",
    [
        "s3://AK:S3cr3t@lake/builds",
        "s3://S3cr3t@lake/builds",
        "s3://AK:S3cr/3t@lake/builds",
        "s3://lake/builds?secret_key=S3cr3t",
        "https://u:S3cr3t@host/x",
        "abfss://container:S3cr3t@account.dfs.core.windows.net/builds",
    ],
)
def test_an_address_with_a_secret_is_refused_and_not_repeated(installation: Path, url: str) -> None:
    with pytest.raises(InvalidBuild) as refused:
        hooks.BuildStorageHook().storage(url)
    with pytest.raises(InvalidBuild) as refused_without_a_hook:
        Storage(url)

    assert not any(part in str(refused.value) + str(refused_without_a_hook.value) for part in ("S3cr", "3t@"))


@pytest.mark.parametrize(
    "url", ["abfss://container@account.dfs.core.windows.net/b", "hdfs://me@name/b", "file:///a?b=c", "/a?b=c", "s3://lake/b@1?"]
)
def test_a_name_in_an_address_that_is_no_secret_is_accepted(url: str) -> None:
    refuse_secrets(url)


def test_a_secret_is_masked_in_logs(installation: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk._shared.secrets_masker import _secrets_masker

    given = {"conn_type": "generic", "extra": {"secret_key": "v3ry-s3cret", "access_key": "AKIAXXXX", "region": "eu-west-1"}}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_STORAGE", json.dumps(given))
    options = hooks.BuildStorageHook("lake_storage").options(S3)

    assert options["secret_key"] == "v3ry-s3cret"
    assert _secrets_masker().redact("a v3ry-s3cret b AKIAXXXX c eu-west-1") == "a *** b *** c eu-west-1"
