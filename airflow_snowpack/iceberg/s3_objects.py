"""Objects on S3 in requests for up to 1,000 of them, which PyArrow has only for whole folders.

    objects = s3_objects(table.location(), table.io.properties)      # None: only PyArrow reaches these files
    problems = objects.delete(["s3://lake/db/flights/data/1.parquet"])

The invariant: a key is what is written in a path, with each of its characters; and an object that was not deleted is reported.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from airflow_snowpack.iceberg.locations import scheme_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MOST_KEYS = 1_000
"""How many objects one request deletes at most; a limit of S3."""
OTHER_ACCESS = tuple(
    f"{kind}.{name}" for kind in ("s3", "client") for name in ("role-arn", "profile-name", "signer", "anonymous", "proxy-uri")
)
"""Properties by which PyIceberg reaches a bucket, but this module cannot."""
NOT_IN_BULK = frozenset({400, 405, 411, 501})
"""Responses of services that have S3's other requests and not this one, such as Google Cloud Storage."""
ABSENT = frozenset({"NoSuchKey", "404"})


def s3_objects(location: str, properties: Mapping[str, str]) -> S3Objects | None:
    """Return access to the objects below a location; ``None`` if it is not on S3, or without botocore's kind of access to it.

    :param properties: of the access to its files; may contain secrets.
    """
    return None if scheme_of(location) != "s3" or missing_access(properties) else S3Objects(properties)


def missing_access(properties: Mapping[str, str]) -> str | None:
    """Return why objects cannot be reached by the properties of PyIceberg's access; ``None`` if they can."""
    try:
        import botocore  # noqa: F401
    except ImportError:
        return "botocore is not installed (airflow-snowpack[s3])"
    other = next((name for name in OTHER_ACCESS if properties.get(name)), None)
    return None if other is None else f"the property {other} is set"


@dataclass(frozen=True)
class S3Objects:
    """Objects that PyIceberg's properties reach. Each method raises ``OSError`` if the server does not answer or refuses.

    :param properties: see :func:`s3_objects`.
    """

    properties: Mapping[str, str]

    def delete(self, paths: Iterable[str]) -> dict[str, str]:
        """Delete objects; missing ones count as deleted. In a bucket with versions, each gets a delete marker.

        :returns: why objects could not be deleted, by path.
        """
        problems: dict[str, str] = {}
        buckets: dict[str, list[tuple[str, str]]] = {}
        for path in paths:
            bucket, key = split(path)
            buckets.setdefault(bucket, []).append((key, path))
        for bucket, found in buckets.items():
            rest = iter(found)
            while some := dict(islice(rest, MOST_KEYS)):
                problems |= {some[key]: why for key, why in self._delete(bucket, list(some)).items()}
        return problems

    def delete_folder(self, location: str) -> bool:
        """Delete everything below a folder; return whether there was anything."""
        bucket, prefix = split(location.rstrip("/") + "/")
        found = False
        with as_os_errors():
            for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
                if keys := [each["Key"] for each in page.get("Contents", ())]:
                    found = True
                    if problems := self._delete(bucket, keys):
                        key, why = next(iter(problems.items()))
                        raise OSError(f"{len(problems)} objects could not be deleted, such as {key!r}: {why}")
        return found

    def _delete(self, bucket: str, keys: list[str]) -> dict[str, str]:
        from botocore.exceptions import BotoCoreError, ClientError

        request = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
        try:
            answer = self.client.delete_objects(Bucket=bucket, Delete=request)
        except ClientError as refusal:
            if refusal.response["ResponseMetadata"]["HTTPStatusCode"] not in NOT_IN_BULK:
                return dict.fromkeys(keys, str(refusal))
        except BotoCoreError as error:
            return dict.fromkeys(keys, str(error))
        else:
            failed = (each for each in answer.get("Errors", ()) if each.get("Code") not in ABSENT)
            return {each["Key"]: f"{each.get('Code')}: {each.get('Message')}" for each in failed}
        problems: dict[str, str] = {}
        for key in keys:
            try:
                self.client.delete_object(Bucket=bucket, Key=key)
            except (BotoCoreError, ClientError) as error:
                problems[key] = str(error)
        return problems

    @cached_property
    def client(self) -> Any:
        """The client of botocore."""
        from botocore.config import Config
        from botocore.session import get_session

        def of(name: str) -> str | None:
            return self.properties.get(f"s3.{name}") or self.properties.get(f"client.{name}")

        endpoint = self.properties.get("s3.endpoint")
        virtual = str(self.properties.get("s3.force-virtual-addressing", "")).lower() == "true" or not endpoint
        return get_session().create_client(
            "s3",
            endpoint_url=endpoint,
            region_name=of("region"),
            aws_access_key_id=of("access-key-id"),
            aws_secret_access_key=of("secret-access-key"),
            aws_session_token=of("session-token"),
            config=Config(s3={"addressing_style": "virtual" if virtual else "path"}),
        )


def split(path: str) -> tuple[str, str]:
    """Return the bucket and the key of ``s3://bucket/key``."""
    bucket, _, key = path.partition("://")[2].partition("/")
    return bucket, key


@contextmanager
def as_os_errors() -> Iterator[None]:
    """Raise botocore's storage and network errors as ``OSError``."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise OSError(str(error)) from error
