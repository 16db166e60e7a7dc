"""How Spark reaches the storage that PyIceberg's properties describe: their Java names, the file access, and its Maven bundle."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

ASSUME_ROLE = "org.apache.iceberg.aws.AssumeRoleAwsClientFactory"
REGIONS = ("client.region", "s3.region", "glue.region")
DELETED_AT_ONCE = "1000"
"""How many objects a request deletes: S3's limit, of which Iceberg uses a quarter by default."""
ROLES = ("client.role-arn", "s3.role-arn", "glue.role-arn")


class _Storage(NamedTuple):
    prefixes: tuple[str, ...]
    io: str
    bundle: str

    def is_named(self, properties: Mapping[str, str]) -> bool:
        """Return whether a property is for this storage."""
        return any(name.startswith(self.prefixes) for name in properties)


AWS = _Storage(("s3.", "client.", "glue."), "org.apache.iceberg.aws.s3.S3FileIO", "iceberg-aws-bundle")
GCP = _Storage(("gcs.",), "org.apache.iceberg.gcp.gcs.GCSFileIO", "iceberg-gcp-bundle")
AZURE = _Storage(("adls.",), "org.apache.iceberg.azure.adlsv2.ADLSFileIO", "iceberg-azure-bundle")
BY_SCHEME = {"s3": AWS, "s3a": AWS, "s3n": AWS, "gs": GCP, "abfs": AZURE, "abfss": AZURE, "wasb": AZURE, "wasbs": AZURE}


def storage_properties(warehouse: str | None, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that Spark needs beside PyIceberg's own; they may contain secrets."""
    found = _of_warehouse(warehouse, properties)
    access = {} if found is None else {"io-impl": found.io}
    if found is AWS or AWS.is_named(properties):
        access["s3.delete.batch-size"] = DELETED_AT_ONCE
    return {**access, **_aws(properties), **_azure(properties)}


def storage_packages(warehouse: str | None, properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return the storage's clients as Maven coordinates without Iceberg's version; none for local files and HDFS."""
    named = (each for each in (AWS, GCP, AZURE) if each.is_named(properties))
    found = _of_warehouse(warehouse, properties) or next(named, None)
    return () if found is None else (f"org.apache.iceberg:{found.bundle}",)


def _of_warehouse(warehouse: str | None, properties: Mapping[str, str]) -> _Storage | None:
    """Return what opens the warehouse; ``None`` for Hadoop, which has file systems for all schemes but ``s3``."""
    scheme = urlsplit(warehouse or "").scheme.lower()
    found = BY_SCHEME.get(scheme)
    return found if found is not None and (scheme == "s3" or found.is_named(properties)) else None


def _aws(properties: Mapping[str, str]) -> dict[str, str]:
    region, role = _first(properties, REGIONS), _first(properties, ROLES)
    found = {"client.region": region} if region else {}
    if role:
        found |= {"client.factory": ASSUME_ROLE, "client.assume-role.arn": role}
        found |= {"client.assume-role.region": region} if region else {}
    # With an endpoint of its own, PyIceberg puts the bucket into the path by default, and Java into the host's name.
    is_virtual = properties.get("s3.force-virtual-addressing", "false").lower() == "true"
    if "s3.endpoint" in properties and not is_virtual:
        found["s3.path-style-access"] = "true"
    return found


def _azure(properties: Mapping[str, str]) -> dict[str, str]:
    account, host = properties.get("adls.account-name"), properties.get("adls.account-host")
    found: dict[str, str] = {}
    if account is None:
        return found
    host = host or f"{account}.dfs.core.windows.net"
    if key := properties.get("adls.account-key"):
        found |= {"adls.auth.shared-key.account.name": account, "adls.auth.shared-key.account.key": key}
    if token := properties.get("adls.sas-token"):
        found[f"adls.sas-token.{host}"] = token
    if text := properties.get("adls.connection-string"):
        found[f"adls.connection-string.{host}"] = text
    return found


def _first(properties: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((properties[name] for name in names if properties.get(name)), None)
