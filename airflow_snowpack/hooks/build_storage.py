"""The hook of the storage of builds: a folder, S3, Google Cloud Storage, Azure, or anything else that fsspec opens.

    hook = BuildStorageHook("minio")
    storage = hook.storage("s3://lake/builds/flights_by_tail")

A connection of the type ``aws``, ``google_cloud_platform``, ``wasb`` or ``adls`` has the fields of Airflow's providers, which
need not be installed; the extras of a ``generic`` one are the storage's options. Without a connection the machine's identity
applies. A setting that the storage's client does not support is refused, because a build would go elsewhere without it. Secrets
are masked in logs before they are used, and an address never contains one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.sdk import BaseHook
from airflow.sdk.log import mask_secret

from airflow_snowpack.builds.filesystems import refuse_secrets
from airflow_snowpack.builds.layout import check_dataset
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.connections.errors import IncompleteConnection, UnsuitableConnection, UnusableExtra
from airflow_snowpack.hooks.connections import read_connection, refuse_on_remote_executor
from airflow_snowpack.settings import Settings

if TYPE_CHECKING:
    from airflow.sdk import Connection

SECRET_NAMES = ("key", "secret", "token", "password", "credential", "connection_string")
PURPOSE = "the object storage of builds"
SCHEMES = {
    "aws": ("s3",),
    "google_cloud_platform": ("gs", "gcs"),
    "wasb": ("abfs", "abfss"),
    "adls": ("abfs", "abfss"),
}
ANY = "generic"
SHARED_STORAGE = "which the others cannot read. Set it to an object storage, or to a folder on storage that all hosts share."
LOCAL = ("", "file")
AZURE_FIELDS = {"account_name", "account_key", "sas_token", "tenant_id", "client_id", "client_secret"}


class BuildStorageHook(BaseHook):
    """Opens object storages and folders.

    :param storage_conn_id: a connection of the type ``aws``, ``google_cloud_platform``, ``wasb``, ``adls`` or ``generic``;
        ``None`` for ``[snowpack] builds_conn_id``. Local folders do not use it.
    """

    conn_name_attr = "storage_conn_id"
    hook_name = "Storage of builds"

    def __init__(self, storage_conn_id: str | None = None) -> None:
        super().__init__()
        self._given_conn_id = storage_conn_id

    @cached_property
    def settings(self) -> Settings:
        """:raises InvalidSetting: as :meth:`Settings.load`."""
        return Settings.load()

    def url_of(self, dataset: str) -> str:
        """Return the default location of a dataset: the folder with its name in ``[snowpack] builds_url``.

        :raises InvalidBuild: the name is not valid.
        :raises EmbeddedNotShared: the setting is empty, and tasks may run on other hosts.
        """
        if has_default_builds(self.settings):
            refuse_on_remote_executor("builds_url", "builds", self.settings.builds_url, SHARED_STORAGE)
        return f"{self.settings.builds_url.rstrip('/')}/{check_dataset(dataset)}"

    def options(self, url: str) -> Mapping[str, Any]:
        """Return the storage's options for a URL, and mask their secrets in logs.

        :raises ConnectionNotFound, UnsuitableConnection, UnusableExtra, IncompleteConnection: from the Airflow connection.
        :raises InvalidBuild: the URL contains a password, a key or a query.
        """
        refuse_secrets(url)
        conn_id = self._given_conn_id or self.settings.builds_conn_id
        if urlsplit(url).scheme in LOCAL or conn_id is None:
            return {}
        options = storage_options(read_connection(conn_id, PURPOSE), url)
        _mask(options)
        return options

    def storage(self, url: str) -> Storage:
        """Open the storage at a URL; raise :class:`InvalidBuild` if the URL is not supported."""
        return Storage(url, self.options(url))

    def get_conn(self) -> Storage:
        """Open the storage at ``[snowpack] builds_url``; Airflow's name for :meth:`storage`."""
        return self.storage(self.settings.builds_url)


def has_default_builds(settings: Settings) -> bool:
    """Return whether builds without a URL go to the default local folder."""
    return settings.builds_url == str(settings.home / "builds")


def _mask(options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if isinstance(value, dict):
            _mask(value)
        elif value and any(part in name.lower() for part in SECRET_NAMES):
            mask_secret(str(value))


def storage_options(connection: Connection, url: str) -> dict[str, Any]:
    """Return the options for the storage at a URL. They may contain secrets.

    :raises UnsuitableConnection: the connection's type does not fit the URL.
    :raises UnusableExtra, IncompleteConnection: a setting is not supported or missing.
    """
    scheme, kind = urlsplit(url).scheme, connection.conn_type
    if kind == ANY:
        return _generic(connection, scheme)
    if scheme not in SCHEMES.get(kind or "", ()):
        suitable = [name for name, schemes in SCHEMES.items() if scheme in schemes]
        raise UnsuitableConnection(connection.conn_id, f"{PURPOSE} at {scheme}://", kind, [*suitable, ANY])
    made = {"aws": _aws, "google_cloud_platform": _google}.get(kind or "", _azure)(connection)
    return {name: value for name, value in made.items() if value not in (None, "")}


def _generic(connection: Connection, scheme: str) -> dict[str, Any]:
    """Return the extras as options; login and password may be S3's key pair."""
    keys = {"access_key": connection.login, "secret_key": connection.password} if scheme == "s3" and connection.login else {}
    return {**keys, **connection.extra_dejson}


def _aws(connection: Connection) -> dict[str, Any]:
    extra = connection.extra_dejson
    key, secret = connection.login, connection.password
    if not (key and secret):
        key, secret = extra.get("aws_access_key_id"), extra.get("aws_secret_access_key")
    if extra.get("profile_name"):
        raise UnusableExtra(connection.conn_id, "profile_name", "a key or a role, or set AWS_PROFILE where the tasks run")
    role = extra.get("role_arn")
    if role and key:
        raise UnusableExtra(connection.conn_id, "role_arn", "either a key, or a role that the machine's own identity may assume")
    if extra.get("verify") is False:
        raise UnusableExtra(connection.conn_id, "verify", "the path of a file with the certificates to trust")
    services = _object(connection, "service_config")
    styles = _object(connection, "config_kwargs").get("s3") or {}
    return {
        "access_key": key,
        "secret_key": secret,
        "session_token": extra.get("aws_session_token"),
        "region": extra.get("region_name"),
        "role_arn": role,
        "external_id": _object(connection, "assume_role_kwargs").get("ExternalId"),
        "force_virtual_addressing": True if styles.get("addressing_style") == "virtual" else None,
        "tls_ca_file_path": extra.get("verify") if isinstance(extra.get("verify"), str) else None,
        **_endpoint((services.get("s3") or {}).get("endpoint_url") or extra.get("endpoint_url")),
    }


def _endpoint(address: str | None) -> dict[str, str | None]:
    if not address:
        return {}
    parts = urlsplit(address if "://" in address else f"https://{address}")
    return {"scheme": parts.scheme, "endpoint_override": f"{parts.netloc}{parts.path.rstrip('/')}"}


def _google(connection: Connection) -> dict[str, Any]:
    """Use gcsfs with a key, which Arrow's client does not support, and the machine's identity without one."""
    extra = connection.extra_dejson
    if extra.get("key_secret_name"):
        raise UnusableExtra(connection.conn_id, "key_secret_name", "the key itself (keyfile_dict), or its path (key_path)")
    token = _object(connection, "keyfile_dict") or extra.get("key_path") or extra.get("credential_config_file")
    chain = extra.get("impersonation_chain")
    if chain and (token or not isinstance(chain, str)):
        raise UnusableExtra(connection.conn_id, "impersonation_chain", "one account, and no key beside it")
    if token:
        return {"fsspec": True, "token": token, "project": extra.get("project")}
    anonymous = True if extra.get("is_anonymous") else None
    return {"anonymous": anonymous, "target_service_account": chain, "project_id": extra.get("project")}


def _azure(connection: Connection) -> dict[str, Any]:
    extra = connection.extra_dejson
    if text := extra.get("connection_string"):
        return _azure_string(connection, str(text))
    if extra.get("account_host"):
        raise UnusableExtra(connection.conn_id, "account_host", "a generic connection with blob_storage_authority instead")
    host = connection.host or ""
    account = (urlsplit(host).hostname or host).partition(".")[0] or None
    service = bool(extra.get("tenant_id"))  # for Airflow's own hooks, this indicates a service principal
    return {
        "account_name": account if account or service else connection.login,
        "account_key": None if service else connection.password,
        "client_id": connection.login if service else extra.get("managed_identity_client_id"),
        "client_secret": connection.password if service else None,
        **{name: extra[name] for name in AZURE_FIELDS if extra.get(name)},
    }


def _azure_string(connection: Connection, text: str) -> dict[str, Any]:
    parts = dict(part.partition("=")[::2] for part in text.split(";") if part)
    if not parts.get("AccountName"):
        raise IncompleteConnection(connection.conn_id, PURPOSE, "AccountName in its connection_string")
    return {
        "account_name": parts["AccountName"],
        "account_key": parts.get("AccountKey"),
        "sas_token": parts.get("SharedAccessSignature"),
    }


def _object(connection: Connection, extra: str) -> dict[str, Any]:
    """Return an extra that is an object or its text."""
    value = connection.extra_dejson.get(extra) or {}
    try:
        return dict(json.loads(value) if isinstance(value, str) else value)
    except (ValueError, TypeError):
        raise UnusableExtra(connection.conn_id, extra, "a JSON object") from None
