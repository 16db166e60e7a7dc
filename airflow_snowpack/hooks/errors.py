"""What can be wrong with the Airflow connection that a hook was given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.errors import SnowpackError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta


class ConnectionNotFound(SnowpackError):
    """No connection has this id, or the task cannot see it."""

    def __init__(self, conn_id: str, purpose: str, cause: Exception) -> None:
        super().__init__(
            f"The Airflow connection {conn_id!r} for {purpose} cannot be read: {cause}. "
            "Create it (`airflow connections add`, or AIRFLOW_CONN_… in the environment), or correct the id."
        )


class UnsuitableConnection(SnowpackError):
    """A connection of another type than the hook can use."""

    def __init__(self, conn_id: str, purpose: str, given: str | None, allowed: Sequence[str]) -> None:
        super().__init__(
            f"The Airflow connection {conn_id!r} has the type {given!r}, which cannot be used for {purpose}. "
            f"Use one of the types {', '.join(allowed)}."
        )


class InvalidRetention(SnowpackError):
    """A period after which nothing may be deleted yet."""

    def __init__(self, period: timedelta, shortest: timedelta) -> None:
        super().__init__(
            f"Rows that are only {period} old may still be needed. The shortest period is {shortest.days}d, and 180d is usual."
        )


class EmbeddedNotShared(SnowpackError):
    """Embedded files under an executor that runs tasks on other hosts."""

    def __init__(self, setting: str, what: str, place: str, executors: Sequence[str]) -> None:
        runs = f"{executors[0]} runs" if len(executors) == 1 else f"{' and '.join(executors)} run"
        super().__init__(
            f"{runs} tasks on other hosts, and [snowpack] {setting} names no connection: each host would have {what} of its own "
            f"at {place!r}, with its own locks. Name a connection that every host reaches, such as one of the type postgres. "
            "A connection of the type sqlite is accepted too: name a file on storage that all hosts share."
        )


class UnusableAddress(SnowpackError):
    """An address that names no catalog. It is not repeated here: a password may stand in it."""

    def __init__(self, conn_id: str, problem: str) -> None:
        super().__init__(
            f"The address in the Airflow connection {conn_id!r} cannot be used: {problem}. Write https://host/path for a REST "
            "catalog, postgresql://host:5432/database or sqlite:////path/to/file.db for a SQL catalog."
        )


class UnusableExtra(SnowpackError):
    """An extra that is not of the shape that the hook needs. Its value is not repeated here: it may be a secret."""

    def __init__(self, conn_id: str, extra: str, expected: str) -> None:
        super().__init__(f"The extra {extra!r} of the Airflow connection {conn_id!r} cannot be read. Give {expected}.")


class IncompleteConnection(SnowpackError):
    """A connection that lacks what the hook needs."""

    def __init__(self, conn_id: str, purpose: str, missing: str) -> None:
        super().__init__(f"The Airflow connection {conn_id!r} for {purpose} has no {missing}. Add it to the connection.")


class AirflowUnreachable(SnowpackError):
    """Airflow was asked and did not answer, or not so that anything could be done with it."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"Airflow cannot be asked: {problem.rstrip('.')}. It is asked again soon.")


class AirflowRefuses(AirflowUnreachable):
    """Airflow answered, but not to this question; to others it may."""


class OtherInstallation(SnowpackError):
    """A task would hand over tables where this installation's collector does not look."""

    def __init__(self, argument: str, given: str, known: str | None) -> None:
        super().__init__(
            f"{argument} = {given!r} is not the one of this installation, which is {known!r}: the collector would never drop "
            "what is handed over there, and no other task would find it. Leave the argument out, or change [snowpack] "
            f"{argument}; what is in another catalog can be read and written by the function itself."
        )


class OtherCatalog(SnowpackError):
    """A table of a catalog that this installation does not know under this name."""

    def __init__(self, asked: str, known: str) -> None:
        super().__init__(
            f"The catalog {asked!r} is not the one of this installation, which is called {known!r}. Its tables are for an "
            f"installation whose [snowpack] catalog_name is {asked!r}."
        )
