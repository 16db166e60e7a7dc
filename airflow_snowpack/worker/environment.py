"""Settings and connections of a worker without Airflow, spelled as Airflow spells them.

    AIRFLOW__SNOWPACK__STORE_CONN_ID=snowpack_store
    AIRFLOW_CONN_SNOWPACK_STORE=postgres://snowpack:secret@db/snowpack

One secret or ConfigMap therefore serves both Airflow and its workers. Both can also come from a file in the format of
``airflow.cfg``, with the sections ``[snowpack]`` and ``[connections]`` (read only here). The environment overrides the file.

Settings are expanded as in Airflow: ``%%`` and ``%(option)s`` in the file, ``$VARIABLE`` and ``~`` in both. Connections are not
expanded, because passwords and URIs contain these characters.
"""

from __future__ import annotations

import json
import re
from configparser import ConfigParser, Error, InterpolationError
from dataclasses import dataclass, field
from os.path import expanduser
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from airflow_snowpack.connections.errors import ConnectionNotFound
from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.provider_info import SECTION
from airflow_snowpack.redaction import remember_secrets

if TYPE_CHECKING:
    from collections.abc import Mapping

CONNECTIONS = "connections"
EXTRA = "__extra__"
"""Airflow's name for the extra in a URI when it is not a flat list of strings."""
VARIABLE = re.compile(r"\$(?:(\w+)|\{([^}]*)\})", re.ASCII)
MAX_EXPANSIONS = 10
"""How many times variables within values are replaced; limits a variable that refers to itself."""


class UnreadableConfig(SnowpackError, kind=Kind.MISCONFIGURED):
    """Unreadable configuration file of a worker."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"The configuration file {path} cannot be read: {problem}. It has the format of airflow.cfg.")


class InvalidConnection(SnowpackError, kind=Kind.MISCONFIGURED):
    """Invalid connection in a worker's environment."""

    def __init__(self, conn_id: str, problem: str) -> None:
        # The text itself is left out because it contains secrets.
        super().__init__(
            f"The connection {conn_id!r} of this worker is not valid: {problem}. Use a URI such as "
            "postgres://user:password@host:5432/database, or a JSON object with conn_type, host, login, password, schema, port "
            "and extra."
        )


@dataclass(frozen=True)
class EnvironmentConnection:
    conn_id: str
    conn_type: str | None = None
    host: str | None = None
    login: str | None = None
    password: str | None = field(default=None, repr=False)
    schema: str | None = None
    port: int | None = None
    extra_dejson: dict[str, Any] = field(default_factory=dict, repr=False)


class Environment:
    """Settings and connections of a process without Airflow.

    :param config: a file in the format of ``airflow.cfg``.
    :raises UnreadableConfig: the file is missing or has another format.
    """

    def __init__(self, variables: Mapping[str, str], config: Path | None = None) -> None:
        self._variables = variables
        self._file, self._path = ConfigParser(), config
        if config is not None:
            try:
                self._file.read_string(config.read_text("utf-8"))
            except (OSError, UnicodeDecodeError) as problem:
                raise UnreadableConfig(config, str(getattr(problem, "strerror", None) or problem)) from problem
            except Error as problem:
                raise UnreadableConfig(config, _place(problem)) from None

    def read_again(self) -> Environment:
        """Return the settings and connections as they are now; raise :class:`UnreadableConfig` as the class does."""
        return Environment(self._variables, self._path)

    @property
    def home(self) -> Path:
        return Path(self._expanded(self._variables.get("AIRFLOW_HOME") or "~/airflow")).absolute()

    def text(self, key: str) -> str | None:
        """Return an option of ``[snowpack]``, or ``None`` if it is not set.

        :raises UnreadableConfig: the option has an invalid percent sign.
        """
        text = self._variables.get(f"AIRFLOW__{SECTION.upper()}__{key.upper()}")
        if text is None:
            text = self._option(key)
        return None if text is None else self._expanded(text)

    def _option(self, key: str) -> str | None:
        try:
            return self._file.get(SECTION, key, fallback=None)
        except InterpolationError:
            assert self._path is not None, "the option is from the file"
            problem = f"[{SECTION}] {key} has a percent sign with another meaning than %% or %(option)s"
            raise UnreadableConfig(self._path, f"{problem}; write a percent sign as %%") from None  # the text may have secrets

    def _expanded(self, text: str) -> str:
        for _ in range(MAX_EXPANSIONS):
            before, text = text, expanduser(VARIABLE.sub(self._value_of, text))
            if text == before:
                break
        return text

    def _value_of(self, variable: re.Match[str]) -> str:
        return self._variables.get(variable[1] or variable[2] or "", variable[0])

    def connection(self, conn_id: str, purpose: str) -> EnvironmentConnection:
        """Return a connection.

        :param purpose: what the connection is for, used in messages.
        :raises ConnectionNotFound: no connection has this id.
        :raises InvalidConnection: it is neither a URI nor a JSON object, or needs an Airflow provider.
        """
        written = self._file.get(CONNECTIONS, conn_id, raw=True, fallback=None)
        text = self._variables.get(f"AIRFLOW_CONN_{conn_id.upper()}") or written
        if not text:
            way_out = f"Set AIRFLOW_CONN_{conn_id.upper()}, add it to [{CONNECTIONS}] in the file of --config, or correct the id."
            raise ConnectionNotFound(conn_id, purpose, "it is not set", way_out)
        remember_secrets({"conn": text})
        connection = parse_connection(conn_id, text)
        if connection.extra_dejson.get("iam"):
            raise InvalidConnection(conn_id, "the extra iam needs Airflow's Postgres provider, which a worker does not have")
        return connection


def _place(problem: Error) -> str:
    """Return the problem and its line number, without the line itself, which may contain a password."""
    errors: list[tuple[int, str]] = getattr(problem, "errors", [])
    return f"{type(problem).__name__} in line {errors[0][0] if errors else getattr(problem, 'lineno', '?')}"


def parse_connection(conn_id: str, text: str) -> EnvironmentConnection:
    """Parse a connection as Airflow does, from a JSON object or a URI.

    :raises InvalidConnection: the text is neither.
    """
    read, problem = (
        _from_uri,
        "its URI cannot be read; write / # ? [ in user and password as %2F %23 %3F %5B",
    )
    if text.lstrip().startswith("{"):
        read, problem = _from_json, "its JSON cannot be read, or has other fields"
    try:
        return EnvironmentConnection(conn_id, **read(text))
    except (TypeError, ValueError, AttributeError):
        raise InvalidConnection(conn_id, problem) from None


def _from_json(text: str) -> dict[str, Any]:
    given = json.loads(text)
    extra, port = given.pop("extra", None) or {}, given.pop("port", None)
    given.pop("description", None)
    return {
        **given,
        "conn_type": _type(given.get("conn_type")),
        "port": int(port) if port else None,
        "extra_dejson": _object(extra),
    }


def _from_uri(text: str) -> dict[str, Any]:
    """Parse a URI, whose host may itself have a scheme: ``http://https://catalog:8181/``."""
    kind, separator, rest = text.partition("://")
    if not separator:
        raise ValueError("no scheme")
    scheme, nested, place = rest.partition("://")
    if not nested:
        scheme, place = "", rest
    elif "@" in scheme or ":" in scheme:
        raise ValueError("more than one address")
    parts = urlsplit(f"//{place}")
    host = _host(parts)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    return {
        "conn_type": _type(kind),
        "host": f"{scheme}://{host}" if scheme and host else host,
        "login": unquote(parts.username) if parts.username else None,
        "password": unquote(parts.password) if parts.password else None,
        "schema": unquote(parts.path[1:]) or None,
        "port": parts.port,
        "extra_dejson": _object(query.get(EXTRA, query)),
    }


def _object(extra: object) -> dict[str, Any]:
    value = json.loads(extra) if isinstance(extra, str) else extra
    if not isinstance(value, dict):
        raise ValueError("the extra is not a JSON object")
    return value


def _host(parts: SplitResult) -> str | None:
    """Return the host; a quoted file path keeps its upper-case letters."""
    host = unquote(parts.hostname or "")
    if "/" in host:
        host = unquote(parts.netloc.rpartition("@")[2].partition(":")[0])
    return host or None


def _type(text: str | None) -> str | None:
    if text is None:
        return None
    return "postgres" if text == "postgresql" else text.replace("-", "_")
