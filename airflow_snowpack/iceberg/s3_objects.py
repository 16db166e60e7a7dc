"""Objects on S3 in requests for up to 1,000 of them, which PyArrow has only for whole folders.

    objects = s3_objects(table.location(), table.io.properties)      # None: only PyArrow reaches these files
    found = objects.stat(["s3://lake/db/flights/data/1.parquet"])
    problems = objects.delete(found)

The invariant: a key is what is written in a path, with each of its characters; and an object that was not deleted is reported.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from os.path import commonprefix
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_snowpack.iceberg.locations import scheme_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

MOST_KEYS = 1_000
"""How many objects one request deletes at most; a limit of S3."""
WORTH_A_PAGE = 50
"""A listing may have a page for each so many objects. Pages come one after the other, and take longer than a request for one."""
THREADS = 16
CONNECT_LIMIT_S = 10
OTHER_ACCESS = tuple(
    f"{kind}.{name}" for kind in ("s3", "client") for name in ("role-arn", "profile-name", "signer", "anonymous", "proxy-uri")
)
"""Properties by which PyIceberg reaches a bucket, but this module cannot."""
NOT_IN_BULK = frozenset({400, 405, 411, 501})
"""Responses of services that have S3's other requests and not this one, such as Google Cloud Storage."""
ABSENT = frozenset({"NoSuchKey", "404"})
NOT_IN_XML = re.compile(r"[\x00-\x1f\ufffe\uffff]|\s\Z")
"""In a key that a request in bulk may not contain, or that a server may read as another one."""


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


class FoundObject(NamedTuple):
    """An object; its modification time is in whole seconds, which headers have."""

    bytes: int
    modified_at: datetime


@dataclass(frozen=True)
class S3Objects:
    """Objects that PyIceberg's properties reach. Each method raises ``OSError`` if the server does not answer or refuses.

    :param properties: see :func:`s3_objects`.
    """

    properties: Mapping[str, str]

    def stat(self, paths: Collection[str]) -> dict[str, FoundObject]:
        """Return the objects that exist, by path; a key with a slash at its end is a folder.

        It lists what begins like all of the paths, and requests by itself what a short listing does not reach.
        """
        found = {(bucket, key): each for bucket, keys in _by_bucket(paths) for key, each in self._stat(bucket, keys).items()}
        return {path: found[split(path)] for path in paths if split(path) in found}

    def _stat(self, bucket: str, all_keys: Collection[str]) -> dict[str, FoundObject]:
        keys = {key for key in all_keys if not key.endswith("/")}
        found: dict[str, FoundObject] = {}
        prefix = commonprefix(list(keys))  # noqa: RUF071 - a listing takes characters and not folders
        with as_os_errors(), ThreadPoolExecutor(THREADS, "snowpack-stat") as pool:
            pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
            for page in islice(pages, len(keys) // WORTH_A_PAGE):
                _check_listing(page)
                listed = (each for each in page.get("Contents", ()) if each["Key"] in keys)
                found |= {each["Key"]: _found(each["Size"], each["LastModified"]) for each in listed}
                if not page.get("IsTruncated"):
                    return found
            left = [key for key in keys if key not in found]
            heads = zip(left, pool.map(lambda key: self._head(bucket, key), left), strict=True)
            return found | {key: head for key, head in heads if head is not None}

    def _head(self, bucket: str, key: str) -> FoundObject | None:
        from botocore.exceptions import ClientError

        try:
            head = self.client.head_object(Bucket=bucket, Key=key)
        except ClientError as error:
            if error.response["Error"]["Code"] in ABSENT:
                return None
            raise
        return _found(head["ContentLength"], head["LastModified"])

    def delete(self, paths: Collection[str]) -> dict[str, str]:
        """Delete objects; missing ones count as deleted. In a bucket with versions, each gets a delete marker.

        :returns: why objects could not be deleted, by path.
        """
        failed: dict[tuple[str, str], str] = {}
        for bucket, keys in _by_bucket(paths):
            rest = iter(keys)
            while some := list(islice(rest, MOST_KEYS)):
                failed |= {(bucket, key): why for key, why in self._delete(bucket, some).items()}
        return {path: failed[split(path)] for path in paths if split(path) in failed}

    def delete_folder(self, location: str) -> bool:
        """Delete everything below a folder; return whether there was anything."""
        bucket, prefix = split(location.rstrip("/") + "/")
        found = False
        with as_os_errors():
            for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
                _check_listing(page)
                if keys := [each["Key"] for each in page.get("Contents", ())]:
                    found = True
                    if problems := self._delete(bucket, keys):
                        key, why = next(iter(problems.items()))
                        raise OSError(f"{len(problems)} objects could not be deleted, such as {key!r}: {why}")
        return found

    def _delete(self, bucket: str, keys: list[str]) -> dict[str, str]:
        alone = [key for key in keys if NOT_IN_XML.search(key)]
        rest = [key for key in keys if not NOT_IN_XML.search(key)] if alone else keys
        return self._delete_each(bucket, alone) | (self._delete_at_once(bucket, rest) if rest else {})

    def _delete_at_once(self, bucket: str, keys: list[str]) -> dict[str, str]:
        from botocore.exceptions import BotoCoreError, ClientError

        request = {"Objects": [{"Key": key} for key in keys]}  # not quiet: silence would be the answer of a proxy, too
        try:
            answer = self.client.delete_objects(Bucket=bucket, Delete=request)
        except ClientError as refusal:
            if refusal.response["ResponseMetadata"]["HTTPStatusCode"] not in NOT_IN_BULK:
                return dict.fromkeys(keys, str(refusal))
        except BotoCoreError as error:
            return dict.fromkeys(keys, str(error))
        else:
            return _not_deleted(keys, answer.get("Deleted", ()), answer.get("Errors", ()))
        return self._delete_each(bucket, keys)

    def _delete_each(self, bucket: str, keys: list[str]) -> dict[str, str]:
        from botocore.exceptions import BotoCoreError, ClientError

        problems: dict[str, str] = {}
        for key in keys:
            try:
                self.client.delete_object(Bucket=bucket, Key=key)
            except (BotoCoreError, ClientError) as error:
                if not isinstance(error, ClientError) or error.response["Error"]["Code"] not in ABSENT:
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
            endpoint_url=f"https://{endpoint}" if endpoint and "://" not in endpoint else endpoint,  # PyArrow takes both
            region_name=of("region"),
            aws_access_key_id=of("access-key-id"),
            aws_secret_access_key=of("secret-access-key"),
            aws_session_token=of("session-token"),
            config=Config(
                s3={"addressing_style": "virtual" if virtual else "path"},
                connect_timeout=CONNECT_LIMIT_S,
                max_pool_connections=THREADS,
                # Other S3 servers than Amazon's may not support the newer checksums.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )


def _by_bucket(paths: Iterable[str]) -> Iterator[tuple[str, Collection[str]]]:
    """Yield each bucket with its keys."""
    buckets: dict[str, dict[str, None]] = {}
    for path in paths:
        bucket, key = split(path)
        buckets.setdefault(bucket, {})[key] = None
    yield from buckets.items()


def _check_listing(page: Mapping[str, Any]) -> None:
    """:raises OSError: it is another document, as of a proxy, which would read as an empty listing."""
    if "IsTruncated" not in page and "Name" not in page:
        raise OSError("the server did not answer with a listing")


def _not_deleted(
    keys: Collection[str], deleted: Sequence[Mapping[str, str]], errors: Sequence[Mapping[str, str]]
) -> dict[str, str]:
    """Return why keys were not deleted; what the answer does not name is not, unless only the spelling of its key can differ."""
    failed = {
        each.get("Key", ""): f"{each.get('Code')}: {each.get('Message')}" for each in errors if each.get("Code") not in ABSENT
    }
    if len(deleted) + len(errors) >= len(keys) and failed.keys() <= {*keys}:
        return failed
    gone = {each.get("Key", "") for each in (*deleted, *errors)} - failed.keys()
    other = next((why for key, why in failed.items() if key not in keys), "the server did not report its deletion")
    return {key: failed.get(key, other) for key in keys if key not in gone}


def _found(size: int, modified_at: datetime) -> FoundObject:
    return FoundObject(size, modified_at.replace(microsecond=0))


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
