"""Compare-and-set of one object on S3: it is replaced only if it is still the one that was read.

    writes = conditional_writes("s3", options)              # None where the storage or this machine has no such thing
    data, version = writes.read("lake", "builds/flights/_CURRENT")
    writes.replace("lake", "builds/flights/_CURRENT", changed, version)     # ChangedSince if another process was faster

Arrow's file system cannot send the headers ``If-Match`` and ``If-None-Match``, so this goes through botocore, which is optional.
It takes the same options as Arrow's, and raises ``OSError`` when the storage fails.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

log = logging.getLogger(__name__)

ABSENT = ""
"""The version of an object that does not exist."""
KNOWN = {
    *("access_key", "secret_key", "session_token", "region", "scheme", "endpoint_override", "force_virtual_addressing"),
    *("role_arn", "session_name", "external_id", "load_frequency", "tls_ca_file_path", "request_timeout", "connect_timeout"),
    *("background_writes", "allow_bucket_creation", "allow_bucket_deletion", "check_directory_existence_before_creation"),
}
"""Options of Arrow's that this client understands or that do not matter to it; with any other one there is no compare-and-set."""
CHANGED = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}
UNSUPPORTED = {"NotImplemented", "501"}
MISSING = {"NoSuchKey", "404"}


class ChangedSince(OSError):
    """The object is no longer the one that was read."""


class ConditionalWrites:
    """Reads and replaces objects of one storage; any number of threads may use it.

    :param connect: makes botocore's client; called once, before the first request.
    """

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._made: Any = None

    def read(self, bucket: str, key: str) -> tuple[bytes | None, str]:
        """Return an object's bytes and version; ``None`` and ``ABSENT`` if it does not exist."""
        with _as_os_errors():
            try:
                answer = self._client.get_object(Bucket=bucket, Key=key)
            except Exception as error:
                if _code(error) in MISSING:
                    return None, ABSENT
                raise
            return answer["Body"].read(), answer["ETag"]

    def replace(self, bucket: str, key: str, data: bytes, version: str) -> None:
        """Replace an object if it still has this version, or make it if the version is ``ABSENT``.

        :raises ChangedSince: another process replaced, made or deleted it.
        """
        condition = {"IfNoneMatch": "*"} if version == ABSENT else {"IfMatch": version}
        with _as_os_errors():
            try:
                self._client.put_object(Bucket=bucket, Key=key, Body=data, **condition)
            except Exception as error:
                if _code(error) in CHANGED or (_code(error) in MISSING and version != ABSENT):
                    raise ChangedSince(f"it changed after it was read ({error})") from error
                if _code(error) not in UNSUPPORTED:
                    raise
                log.info(
                    "no_conditional_writes: the storage of %s refuses the condition; the dataset's lock alone protects it", bucket
                )
                self._client.put_object(Bucket=bucket, Key=key, Body=data)

    @property
    def _client(self) -> Any:
        if self._made is None:
            with _as_os_errors():
                self._made = self._connect()
        return self._made


def conditional_writes(scheme: str, options: Mapping[str, Any]) -> ConditionalWrites | None:
    """The compare-and-set of a storage; ``None`` where it has none, botocore is missing, or an option is not understood."""
    if scheme != "s3" or not KNOWN.issuperset(options):
        return None
    try:
        import botocore  # noqa: F401
    except ImportError:
        return None
    return ConditionalWrites(lambda: _connected(options))


def _connected(options: Mapping[str, Any]) -> Any:
    from botocore.config import Config
    from botocore.session import get_session

    session = get_session()
    endpoint = options.get("endpoint_override")
    if endpoint and "://" not in endpoint:
        endpoint = f"{options.get('scheme', 'https')}://{endpoint}"
    virtual = options.get("force_virtual_addressing") or not endpoint
    config = Config(
        s3={"addressing_style": "virtual" if virtual else "path"},
        # The caller tries again, and first looks whether a try whose answer was lost had worked.
        retries={"total_max_attempts": 1},
        connect_timeout=options.get("connect_timeout", 10),
        read_timeout=options.get("request_timeout", 30),
        # Servers other than Amazon's may not know the newer checksums.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    keys = (options.get("access_key"), options.get("secret_key"), options.get("session_token"))
    region = options.get("region") or session.get_config_variable("region") or "us-east-1"
    if options.get("role_arn"):
        keys = _assumed(session, options, region)
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


def _assumed(session: Any, options: Mapping[str, Any], region: str) -> tuple[str, str, str]:
    """The keys of a role; a publication takes less time than they last."""
    asked = {"RoleArn": options["role_arn"], "RoleSessionName": options.get("session_name") or "airflow-snowpack"}
    if options.get("external_id"):
        asked["ExternalId"] = options["external_id"]
    keys = session.create_client("sts", region_name=region).assume_role(**asked)["Credentials"]
    return keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"]


def _code(error: BaseException) -> str | None:
    answer = getattr(error, "response", None)
    return str(answer.get("Error", {}).get("Code")) if isinstance(answer, dict) else None


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """What botocore raises for a storage or a network that fails, as ``OSError``."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise OSError(str(error)) from error
