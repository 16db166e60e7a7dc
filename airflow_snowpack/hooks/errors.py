"""Errors of the Airflow connections that hooks use, and of Airflow's own API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.errors import Kind, SnowpackError

if TYPE_CHECKING:
    from collections.abc import Sequence


class ConnectionNotFound(SnowpackError, kind=Kind.FAILED):
    """Airflow connection not found."""

    def __init__(self, conn_id: str, purpose: str, cause: Exception) -> None:
        super().__init__(
            f"The Airflow connection {conn_id!r} for {purpose} cannot be read: {cause}. "
            "Create it (`airflow connections add`, or AIRFLOW_CONN_… in the environment), or correct the id."
        )


class UnsuitableConnection(SnowpackError, kind=Kind.MISCONFIGURED):
    """Unsuitable type of Airflow connection."""

    def __init__(self, conn_id: str, purpose: str, given: str | None, allowed: Sequence[str]) -> None:
        super().__init__(
            f"The Airflow connection {conn_id!r} has the type {given!r}, which cannot be used for {purpose}. "
            f"Use one of the types {', '.join(allowed)}."
        )


class EmbeddedNotShared(SnowpackError, kind=Kind.MISCONFIGURED):
    """An embedded file cannot be shared between hosts."""

    def __init__(self, setting: str, what: str, place: str, executors: Sequence[str]) -> None:
        runs = f"{executors[0]} runs" if len(executors) == 1 else f"{' and '.join(executors)} run"
        super().__init__(
            f"{runs} tasks on other hosts, and [snowpack] {setting} names no connection: each host would have {what} of its own "
            f"at {place!r}, with its own locks. Name a connection that every host reaches, such as one of the type postgres. "
            "A connection of the type sqlite is accepted too: name a file on storage that all hosts share."
        )


class UnusableAddress(SnowpackError, kind=Kind.MISCONFIGURED):
    """Invalid catalog address."""

    def __init__(self, conn_id: str, problem: str) -> None:
        super().__init__(
            f"The address in the Airflow connection {conn_id!r} cannot be used: {problem}. Write https://host/path for a REST "
            "catalog, postgresql://host:5432/database or sqlite:////path/to/file.db for a SQL catalog."
        )


class UnusableExtra(SnowpackError, kind=Kind.MISCONFIGURED):
    """Invalid extra in an Airflow connection."""

    def __init__(self, conn_id: str, extra: str, expected: str) -> None:
        super().__init__(f"The extra {extra!r} of the Airflow connection {conn_id!r} cannot be read. Give {expected}.")


class IncompleteConnection(SnowpackError, kind=Kind.MISCONFIGURED):
    """Incomplete Airflow connection."""

    def __init__(self, conn_id: str, purpose: str, missing: str) -> None:
        super().__init__(f"The Airflow connection {conn_id!r} for {purpose} has no {missing}. Add it to the connection.")


class AirflowUnreachable(SnowpackError, kind=Kind.UNAVAILABLE):
    """Airflow does not answer."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"Airflow cannot be asked: {problem.rstrip('.')}. It is asked again soon.")


class AirflowRefuses(AirflowUnreachable, kind=Kind.UNAVAILABLE):
    """Airflow refused the request."""


class OtherInstallation(SnowpackError, kind=Kind.INVALID):
    """The connection belongs to another installation."""

    def __init__(self, argument: str, given: str, known: str | None) -> None:
        super().__init__(
            f"{argument} = {given!r} is not the one of this installation, which is {known!r}: the collector would never drop "
            "what is handed over there, and no other task would find it. Leave the argument out, or change [snowpack] "
            f"{argument}; what is in another catalog can be read and written by the function itself."
        )


class OtherCatalog(SnowpackError, kind=Kind.MISCONFIGURED):
    """The catalog belongs to another installation."""

    def __init__(self, asked: str, known: str) -> None:
        super().__init__(
            f"The catalog {asked!r} is not the one of this installation, which is called {known!r}. Its tables are for an "
            f"installation whose [snowpack] catalog_name is {asked!r}."
        )
