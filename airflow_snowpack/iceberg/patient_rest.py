"""A REST catalog whose requests end: PyIceberg gives them no time limit, and a silent server would block its caller for ever.

The limit is for the connection and then for each wait for data from the server, as ``requests`` counts it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from requests.adapters import HTTPAdapter

from airflow_snowpack.iceberg.guarded_catalogs import GuardedRestCatalog

if TYPE_CHECKING:
    from datetime import timedelta

    from requests import PreparedRequest, Response, Session


class PatientAdapter(HTTPAdapter):
    """Sends requests without a limit with the adapter's own."""

    def __init__(self, limit_seconds: float) -> None:
        super().__init__()
        self._limit = limit_seconds

    def send(self, request: PreparedRequest, stream: bool = False, timeout: Any = None, *rest: Any, **named: Any) -> Response:
        return super().send(request, stream, self._limit if timeout is None else timeout, *rest, **named)


class PatientRestCatalog(GuardedRestCatalog):
    """A REST catalog with a limit for each request, including that for its token, but not those that are signed for AWS."""

    def __init__(self, name: str, limit: timedelta, **properties: str) -> None:
        self._limit = limit.total_seconds()
        super().__init__(name, **properties)

    def _config_headers(self, session: Session) -> None:
        # PyIceberg does this first with each of its sessions, before it requests a token.
        for scheme in ("https://", "http://"):
            session.mount(scheme, PatientAdapter(self._limit))
        super()._config_headers(session)
