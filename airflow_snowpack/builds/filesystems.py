"""File systems of storages, and compare-and-set for objects on S3.

    filesystem, path = open_filesystem("s3://lake/builds/flights", options)
    writes = conditional_writes("s3", options)              # None if the storage or this machine does not support it
    data, version = writes.read("lake", "builds/flights/_CURRENT")
    writes.replace("lake", "builds/flights/_CURRENT", changed, version)     # ChangedSince if another process was faster

Arrow's file system cannot send ``If-Match`` and ``If-None-Match``, so compare-and-set uses botocore, which is optional. It takes
the options of Arrow's file system, and raises ``OSError`` when the storage fails.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from pyarrow import fs

from airflow_snowpack.builds.errors import InvalidBuild
from airflow_snowpack.iceberg.s3_objects import as_os_errors
from airflow_snowpack.redaction import HIDDEN, QUERY, public_address

log = logging.getLogger(__name__)

NATIVE = {"s3": fs.S3FileSystem, "gs": fs.GcsFileSystem, "gcs": fs.GcsFileSystem}
AZURE = ("abfs", "abfss")
ABSENT = ""
"""The version of an object that does not exist."""
KNOWN = {
    *("access_key", "secret_key", "session_token", "region", "scheme", "endpoint_override", "force_virtual_addressing"),
    *("role_arn", "session_name", "external_id", "load_frequency", "tls_ca_file_path", "request_timeout", "connect_timeout"),
    *("background_writes", "allow_bucket_creation", "allow_bucket_deletion", "check_directory_existence_before_creation"),
}
"""Arrow's options that this client applies or may ignore; any other option disables compare-and-set."""
CHANGED = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}
UNSUPPORTED = {"NotImplemented", "501"}
MISSING = {"NoSuchKey", "404"}


class ChangedSince(OSError):
    """The object has changed since it was read."""


class ConditionalWrites:
    """Reads and replaces objects of a storage; thread-safe. Options are Arrow's, all in ``KNOWN``."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options

    def read(self, bucket: str, key: str) -> tuple[bytes | None, str]:
        """Return an object's bytes and version; ``None`` and ``ABSENT`` if it does not exist."""
        with as_os_errors():
            try:
                answer = self._client.get_object(Bucket=bucket, Key=key)
            except Exception as error:
                if _error_code(error) in MISSING:
                    return None, ABSENT
                raise
            return answer["Body"].read(), answer["ETag"]

    def replace(self, bucket: str, key: str, data: bytes, version: str) -> None:
        """Replace an object that has this version, or create it if that is ``ABSENT``; raise :class:`ChangedSince` otherwise."""
        condition = {"IfNoneMatch": "*"} if version == ABSENT else {"IfMatch": version}
        with as_os_errors():
            try:
                self._client.put_object(Bucket=bucket, Key=key, Body=data, **condition)
            except Exception as error:
                if _error_code(error) in CHANGED or (_error_code(error) in MISSING and version != ABSENT):
                    raise ChangedSince(f"it changed after it was read ({error})") from error
                if _error_code(error) not in UNSUPPORTED:
                    raise
                log.info("no_conditional_writes: %s rejects the condition; only the dataset's lock protects the object", bucket)
                self._client.put_object(Bucket=bucket, Key=key, Body=data)

    @cached_property
    def _client(self) -> Any:
        with as_os_errors():
            return _connect(self._options)


def conditional_writes(scheme: str, options: Mapping[str, Any]) -> ConditionalWrites | None:
    """Return a storage's compare-and-set; ``None`` if it has none, botocore is missing, or an option is unknown."""
    if scheme != "s3" or not KNOWN.issuperset(options):
        return None
    try:
        import botocore  # noqa: F401
    except ImportError:
        return None
    return ConditionalWrites(options)


def _connect(options: Mapping[str, Any]) -> Any:
    from botocore.config import Config
    from botocore.session import get_session

    session = get_session()
    endpoint = options.get("endpoint_override")
    if endpoint and "://" not in endpoint:
        endpoint = f"{options.get('scheme', 'https')}://{endpoint}"
    virtual = options.get("force_virtual_addressing") or not endpoint
    config = Config(
        s3={"addressing_style": "virtual" if virtual else "path"},
        # The caller retries, after checking whether a try whose response was lost had succeeded.
        retries={"total_max_attempts": 1},
        connect_timeout=options.get("connect_timeout", 10),
        read_timeout=options.get("request_timeout", 30),
        # Other S3 servers than Amazon's may not support the newer checksums.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    keys = (options.get("access_key"), options.get("secret_key"), options.get("session_token"))
    region = options.get("region") or session.get_config_variable("region") or "us-east-1"
    if options.get("role_arn"):
        keys = _assume_role(session, options, region)
    return session.create_client(
        "s3",
        region_name=region,
        endpoint_url=endpoint,
        aws_access_key_id=keys[0],
        aws_secret_access_key=keys[1],
        aws_session_token=keys[2],
        verify=options.get("tls_ca_file_path"),
        config=config,
    )


def _assume_role(session: Any, options: Mapping[str, Any], region: str) -> tuple[str, str, str]:
    """Return the credentials of a role, which outlast a publication."""
    request = {"RoleArn": options["role_arn"], "RoleSessionName": options.get("session_name") or "airflow-snowpack"}
    if options.get("external_id"):
        request["ExternalId"] = options["external_id"]
    keys = session.create_client("sts", region_name=region).assume_role(**request)["Credentials"]
    return keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"]


def _error_code(error: BaseException) -> str | None:
    answer = getattr(error, "response", None)
    return str(answer.get("Error", {}).get("Code")) if isinstance(answer, dict) else None


def refuse_secrets(url: str) -> None:
    """Raise :class:`InvalidBuild` if the URL has a password, a key or a query: the store records URLs and the pages show them."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme == "file":
        return
    user = rest.partition("/")[0].rpartition("@")[0]
    shown = public_address(url)
    # A user alone is a container of Azure or a user of HDFS; only on S3 it is an access key.
    if ":" in user or (user and scheme == "s3") or HIDDEN in shown or QUERY.search(url):
        problem = "it contains a password, a key or a query; use a connection (storage_conn_id) or options instead"
        raise InvalidBuild("url", shown, problem)


def open_filesystem(url: str, options: Mapping[str, Any]) -> tuple[fs.FileSystem, str]:
    """Return a URL's file system and the path on it; raise :class:`InvalidBuild` if none is known or the URL has a secret."""
    refuse_secrets(url)
    scheme, separator, rest = url.partition("://")
    if not separator:
        return fs.LocalFileSystem(), str(Path(url).absolute())
    if scheme == "file":
        return fs.LocalFileSystem(), rest
    given = dict(options)
    by_fsspec = given.pop("fsspec", False)
    try:
        if scheme in NATIVE and not by_fsspec:
            return NATIVE[scheme](**given), rest
        if scheme in AZURE and not by_fsspec:
            return _open_azure(rest, given)
        import fsspec

        return fs.PyFileSystem(fs.FSSpecHandler(fsspec.filesystem(scheme, **given))), rest
    except (TypeError, ValueError, ImportError) as error:
        raise InvalidBuild("url", url, f"the file system of {scheme}:// cannot be opened ({error})") from error


def _open_azure(rest: str, options: dict[str, Any]) -> tuple[fs.FileSystem, str]:
    """Open ``container@account.dfs.core.windows.net/path``, or ``container/path`` with the account in the options."""
    container, slash, path = rest.partition("/")
    container, _, host = container.partition("@")
    account = options.pop("account_name", None) or host.partition(".")[0]
    if not account:
        raise ValueError("the account is missing; write container@account.dfs.core.windows.net, or set the option account_name")
    return fs.AzureFileSystem(account_name=account, **options), f"{container}{slash}{path}"
