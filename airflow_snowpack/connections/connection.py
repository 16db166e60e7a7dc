"""The fields of an Airflow connection, as in Airflow's own class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Connection(Protocol):
    """An address with its credentials, under the id that settings name."""

    @property
    def conn_id(self) -> str: ...

    @property
    def conn_type(self) -> str | None: ...

    @property
    def host(self) -> str | None: ...

    @property
    def login(self) -> str | None: ...

    @property
    def password(self) -> str | None: ...

    @property
    def schema(self) -> str | None: ...

    @property
    def port(self) -> int | None: ...

    @property
    def extra_dejson(self) -> dict[str, Any]: ...


ReadConnection = Callable[[str, str], Connection]
"""Returns the connection of an id or raises ``ConnectionNotFound``; the second argument is its purpose, for messages."""
