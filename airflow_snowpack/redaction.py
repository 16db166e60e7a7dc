"""Removes secrets from addresses and messages before they are printed, logged or stored.

    >>> public_address("postgresql+psycopg://user:password@db:5432/snowpack?sslpassword=secret")
    'postgresql://db:5432/snowpack'
    >>> redacted("GET https://id:password@catalog/v1/config?token=secret failed")
    'GET https://catalog/v1/config failed'

    >>> os.environ["CRM_PASSWORD"] = "v3ry-s3cret"
    >>> remember_secrets({"s3.secret-access-key": "/wJalr/XUtn"})
    >>> redacted("cannot resolve 'v3ry-s3cret' with /wJalr/XUtn")
    "cannot resolve '***' with ***"

The invariant: an address is reduced to its scheme, hosts, ports and path or database. Nothing else (user, password, query,
fragment) is filtered by name: any of it may be a secret, now or in a driver's next release.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from urllib.parse import parse_qs, unquote

ADDRESS = re.compile(r"(?<![A-Za-z0-9+.-])[A-Za-z0-9+.-]+://[^\s'\"<>]+")
QUERY = re.compile(r"\?[^\s'\"<>?=]+=[^\s'\"<>)]*")
INSIDE = re.compile(r"(?:^(?:Bearer|Basic) +|\b(?:AccountKey|SharedAccessSignature)=)([^\s;]+)", re.IGNORECASE)
"""The secret in the value of a header, or in a connection string of Azure."""
PORT = re.compile(r":[^:\]]*$")
HIDDEN = "***"
SHORTEST_SECRET = 4  # a shorter one would match parts of words
SECRET_NAME = re.compile(
    r"passw|passphrase|secret|token|credential|authorization|(api|access).?key|connection.string|(?<![a-z])(key|pwd|sas|dsn|conn)(?![a-z])|_auth$",
    re.IGNORECASE,
)
"""The names of variables and fields whose values are secrets."""
ORDINARY_NAME = re.compile(r"^conn_type$|_CONN_ID$|_(FILE|PATH|DIR|CMD|ARN|NAMES?|BACKEND)$", re.IGNORECASE)
WORKING_DIRECTORY = "PWD"
"""Every shell sets this variable for its processes; connections use the name for a password."""
ORDINARY_VALUES = frozenset(
    {"airflow", "default", "disabled", "enabled", "localhost", "password", "postgres", "secret", "snowpack"}
)
SHORTEST_VALUE = 6
"""The value of a variable that is shorter may be part of a word."""
SHORTEST_NUMBER = 10
CONTAINER_SCHEMES = frozenset({"abfs", "abfss", "wasb", "wasbs"})


def public_address(address: str) -> str:
    """Return an address without user, password, query, fragment and parameters.

    :param address: a URL; a path is returned as it is, and of an SQLite file's URI (``file:…?…``) the path.
    :return: ``scheme://hosts:ports/path``; ``scheme://***`` for an address in which a password cannot be separated from the rest.
    """
    scheme, separator, rest = address.partition("://")
    if not separator or scheme.endswith(":/"):
        return address.partition("?")[0] if address.startswith("file:") else address
    dialect = scheme.partition("+")[0]
    if dialect == "sqlite":
        path = rest.partition("?")[0]
        return f"{dialect}://{path}"
    place, query = _split(rest)
    authority, slash, path = place.partition("/")
    user, at, host = authority.rpartition("@")
    if not at and "@" in rest and not _ends_in_a_port(host):
        return f"{scheme}://{HIDDEN}"  # an unquoted "/", "?" or "#" in the password
    if at and dialect in CONTAINER_SCHEMES and ":" not in user:
        host = authority  # Azure writes container@account
    return f"{dialect if dialect.startswith('postgres') else scheme}://{host or _hosts(dialect, query)}{slash}{path}"


def redacted(message: str, secrets: Iterable[str | None] = ()) -> str:
    """Return a message without secrets: servers and drivers repeat what they received.

    Addresses are reduced to their public part. Replaced are the secrets of the connections that this process has read, the values
    of environment variables such as ``AIRFLOW_CONN_CRM``, ``AWS_SECRET_ACCESS_KEY`` and ``DB_PASSWORD``, and the passwords and
    keys in a value that is an address or a connection as JSON.

    :param secrets: more secrets to replace.
    """
    given = tuple((name, os.environ[name]) for name in os.environ if name != WORKING_DIRECTORY and _names_secret(name))
    further = (each for each in secrets if each and len(each) >= SHORTEST_SECRET)
    for secret in (*sorted(further, key=len, reverse=True), *_secrets_in((*given, *_remembered))):
        message = message.replace(secret, HIDDEN)
    if "://" not in message and "?" not in message:
        return message
    return QUERY.sub("", ADDRESS.sub(lambda found: public_address(found.group()), message))


def remember_secrets(fields: Mapping[str, object]) -> None:
    """Redact the secrets of a connection in all later messages of this process.

    :param fields: its fields by name, such as ``password`` or ``s3.secret-access-key``; fields that are not secrets are ignored.
    """
    _remembered.update(dict.fromkeys(("", secret) for secret in _secret_fields(fields)))
    for oldest in [*_remembered][:-MOST_REMEMBERED]:
        _remembered.pop(oldest, None)


_remembered: dict[tuple[str, str], None] = {}
MOST_REMEMBERED = 1_000  # tokens are renewed again and again


@lru_cache(maxsize=4096)
def _names_secret(name: str) -> bool:
    return bool(SECRET_NAME.search(name)) and not ORDINARY_NAME.search(name)


@lru_cache(maxsize=2)
def _secrets_in(named: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Return the secrets, the longest first: each whole, by line, unquoted, and as JSON and Spark's SQL write it."""
    found = {secret for _, value in named for secret in _secrets_of(value)}
    found |= {unquote(secret) for secret in found}
    found |= {inner for secret in found for inner in INSIDE.findall(secret)}
    found |= {line.strip() for secret in found for line in (secret, *secret.splitlines())}
    in_sql = {secret.replace("\\", "\\\\").replace("'", "\\'") for secret in found}
    written = found | in_sql | {json.dumps(secret)[1:-1] for secret in found}
    return tuple(sorted(filter(_is_secret, written), key=len, reverse=True))


def _is_secret(value: str) -> bool:
    return len(value) >= (SHORTEST_NUMBER if value.isdigit() else SHORTEST_VALUE) and value.lower() not in ORDINARY_VALUES


def _secrets_of(value: str) -> Iterator[str]:
    """Yield the value and the secrets in it; nothing for an address without a user and a query, which has none."""
    if value.lstrip().startswith("{"):
        yield value
        with suppress(ValueError):
            yield from _secret_fields(json.loads(value))
        return
    _, *places = value.split("://")  # a connection's host may contain a scheme
    if not places:
        yield value
        yield value.partition(":")[2]  # a client and its secret
    for rest in places:
        _, query = _split(rest)
        user, at, _ = rest.rpartition("@")
        if at or query:
            yield value
        yield user.partition(":")[2]
        yield from _secret_fields(parse_qs(query))


def _secret_fields(value: object, name: str = "") -> Iterator[str]:
    """Yield the texts of a connection's secret fields, at any depth."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _secret_fields(item, str(key))
    elif isinstance(value, list):
        for item in value:
            yield from _secret_fields(item, name)
    elif isinstance(value, str) and value.lstrip().startswith("{"):
        with suppress(ValueError):
            yield from _secret_fields(json.loads(value))
    elif isinstance(value, str) and _names_secret(name):
        yield value


def _split(rest: str) -> tuple[str, str]:
    """Return the part before a query, a fragment or parameters (``;token=…`` of Spark Connect), and the rest."""
    place, *query = re.split(r"[?#;]", rest, maxsplit=1)
    return place, "".join(query)


def _ends_in_a_port(host: str) -> bool:
    port = PORT.search(host)
    return port is None or port.group()[1:].isdigit()


def _hosts(dialect: str, query: str) -> str:
    """Return the hosts that the query of a Postgres address names, as addresses with several servers do."""
    if not dialect.startswith("postgres"):
        return ""
    given = parse_qs(query)
    hosts = [host for value in given.get("host", []) for host in value.split(",")]
    ports = [port for value in given.get("port", []) for port in value.split(",")]
    if len(ports) == 1:
        ports *= len(hosts)
    return ",".join(f"{host}:{port}" if port else host for host, port in zip(hosts, ports or [""] * len(hosts), strict=False))
