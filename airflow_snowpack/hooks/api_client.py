"""A client of Airflow's REST API, for processes that are not tasks.

    with AirflowRest.from_connection("snowpack_airflow") as rest:
        rest.ask("GET", "/dags/maintain_page_views")

The connection has the type ``http``: host, scheme and port of the API server, and login and password of a user or the extra
``token``. The client requests a new token when its own has expired.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

from airflow_snowpack.connections.errors import IncompleteConnection
from airflow_snowpack.hooks.errors import AirflowRefuses, AirflowUnreachable
from airflow_snowpack.redaction import public_address, redacted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    import httpx
    from airflow.sdk import Connection

PURPOSE = "Airflow's REST API"
TIMEOUT = timedelta(seconds=15)
UNAUTHORIZED, NOT_FOUND, OK = 401, 404, range(200, 300)
REFUSED = range(400, 500)


@dataclass(frozen=True, slots=True)
class Answer:
    """A response of the API; the parsed body is ``None`` if it is not JSON."""

    status: int
    body: Any

    @property
    def is_ok(self) -> bool:
        return self.status in OK

    def reports_missing(self, name: str) -> bool:
        """Return whether Airflow itself has nothing with this name: its 404 contains the name, a proxy's does not."""
        detail = self.body.get("detail") if isinstance(self.body, dict) else None
        return self.status == NOT_FOUND and isinstance(detail, str) and name in detail

    @property
    def reason(self) -> str:
        """The reason in the API's response, for people."""
        detail = self.body.get("detail") if isinstance(self.body, dict) else None
        if isinstance(detail, dict):
            detail = detail.get("message") or detail.get("reason")
        return str(detail or f"HTTP {self.status}")[:500]

    def required(self, method: str, path: str) -> Any:
        """Return the body; raise :class:`AirflowRefuses` if the API refused the request to this path."""
        if not self.is_ok:
            raise AirflowRefuses(f"{method} {path} was refused: {self.reason}")
        return self.body


def pages(key: str, read: Callable[[int], Any]) -> Iterator[list[Any]]:
    """Yield the pages of a list, which may be shorter than requested: Airflow has a limit.

    :param key: of the entries in the body of a page.
    :param read: takes the number of entries read so far, and returns the body of the next page.
    """
    seen = 0
    while page := (body := read(seen))[key]:
        yield page
        seen += len(page)
        if seen >= body["total_entries"]:
            return


@dataclass
class AirflowRest:
    """A client of the API, version 2, for any number of threads.

    :param address: of the API server, such as ``http://airflow-api:8080``.
    :param token: a token that outlives the client, instead of login and password.
    """

    address: str = field(repr=False)
    login: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    _client: httpx.Client | None = field(default=None, init=False, repr=False)
    _fetched: str | None = field(default=None, init=False, repr=False)
    _opening: Lock = field(default_factory=Lock, init=False, repr=False)

    @classmethod
    def from_connection(cls, conn_id: str) -> Self:
        """:raises ConnectionNotFound, IncompleteConnection: from the Airflow connection."""
        from airflow_snowpack.hooks.connections import read_connection  # loads Airflow

        connection = read_connection(conn_id, PURPOSE)
        token = connection.extra_dejson.get("token")
        if not connection.host:
            raise IncompleteConnection(conn_id, PURPOSE, "host (the address of the API server)")
        if not token and not (connection.login and connection.password):
            raise IncompleteConnection(conn_id, PURPOSE, "login and password, nor an extra `token`")
        return cls(_address(connection), connection.login, connection.password, token)

    @property
    def where(self) -> str:
        """The address without secrets, for messages."""
        return public_address(self.address)

    def ask(self, method: str, path: str, *, params: Any = None, body: Any = None) -> Answer:
        """Send a request.

        :param path: below ``/api/v2``.
        :returns: the response, even a refusal (4xx).
        :raises AirflowUnreachable: no response, or one of 401 or 5xx.
        """
        answer = self._send(method, f"/api/v2{path}", params=params, json=body, token=self._token())
        if answer.status == UNAUTHORIZED and self._fetched is not None:
            self._fetched = None
            answer = self._send(method, f"/api/v2{path}", params=params, json=body, token=self._token())
        if answer.is_ok or (answer.status in REFUSED and answer.status != UNAUTHORIZED):
            return answer
        problem = AirflowUnreachable if answer.status == UNAUTHORIZED else AirflowRefuses
        raise problem(f"{self.where} answered {answer.status} to {method} {path}: {answer.reason}")

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def _token(self) -> str:
        if self.token is not None:
            return self.token
        if self._fetched is None:
            response = self._send("POST", "/auth/token", json={"username": self.login, "password": self.password})
            if not response.is_ok:
                raise AirflowUnreachable(f"{self.where} refuses {self.login} a token: {response.reason}")
            self._fetched = str(response.body["access_token"])
        return self._fetched

    def _send(self, method: str, path: str, *, token: str | None = None, **arguments: Any) -> Answer:
        import httpx

        with self._opening:  # threads send requests concurrently
            if self._client is None:
                self._client = httpx.Client(base_url=self.address, timeout=TIMEOUT.total_seconds())
            client = self._client
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            response = client.request(method, path, headers=headers, **arguments)
        except httpx.HTTPError as error:
            raise AirflowUnreachable(f"{self.where} does not answer: {type(error).__name__}: {redacted(str(error))}") from error
        try:
            return Answer(response.status_code, response.json())
        except ValueError:
            return Answer(response.status_code, None)


def _address(connection: Connection) -> str:
    host = str(connection.host).rstrip("/")
    scheme = "" if "://" in host else f"{connection.schema or 'http'}://"
    return f"{scheme}{host}:{connection.port}" if connection.port else f"{scheme}{host}"
