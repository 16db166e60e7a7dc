"""Removes secrets from addresses and messages before they are printed, logged or stored.

    >>> public_address("postgresql+psycopg://user:password@db:5432/snowpack?sslpassword=secret")
    'postgresql://db:5432/snowpack'
    >>> redacted("GET https://id:password@catalog/v1/config?token=secret failed")
    'GET https://catalog/v1/config failed'

The invariant: of an address only the scheme, the hosts, the ports and the path or database are shown. Everything else (user,
password, query, fragment) may hold a secret, now or in a driver's next release, so nothing is filtered by its name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from collections.abc import Iterable

ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>]+")
QUERY = re.compile(r"\?[^\s'\"<>?=]+=[^\s'\"<>)]*")
PORT = re.compile(r":[^:\]]*$")
HIDDEN = "***"
SHORTEST_SECRET = 4  # a shorter one would take words apart
CONTAINER_SCHEMES = frozenset({"abfs", "abfss", "wasb", "wasbs"})


def public_address(address: str) -> str:
    """Return an address without user, password, query, fragment and parameters.

    :param address: a URL, or a path, which is returned as it is. Of an SQLite file's URI (``file:…?…``) the path remains.
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
    """Return a message without the secrets in it: servers and drivers repeat what they received.

    :param secrets: known secrets; each is replaced. Every address in the message is reduced to its public part in any case.
    """
    for secret in sorted((each for each in secrets if each and len(each) >= SHORTEST_SECRET), key=len, reverse=True):
        message = message.replace(secret, HIDDEN)
    if "://" not in message and "?" not in message:
        return message
    return QUERY.sub("", ADDRESS.sub(lambda found: public_address(found.group()), message))


def _split(rest: str) -> tuple[str, str]:
    """The part before a query, a fragment or parameters (``;token=…`` of Spark Connect), and what follows it."""
    place, *query = re.split(r"[?#;]", rest, maxsplit=1)
    return place, "".join(query)


def _ends_in_a_port(host: str) -> bool:
    port = PORT.search(host)
    return port is None or port.group()[1:].isdigit()


def _hosts(dialect: str, query: str) -> str:
    """The hosts of a Postgres address that names them in its query, as addresses of several servers do."""
    if not dialect.startswith("postgres"):
        return ""
    given = parse_qs(query)
    hosts = [host for value in given.get("host", []) for host in value.split(",")]
    ports = [port for value in given.get("port", []) for port in value.split(",")]
    if len(ports) == 1:
        ports *= len(hosts)
    return ",".join(f"{host}:{port}" if port else host for host, port in zip(hosts, ports or [""] * len(hosts), strict=False))
