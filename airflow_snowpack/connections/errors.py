"""Errors of the Airflow connections that name the store, the catalog and Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.errors import Kind, SnowpackError

if TYPE_CHECKING:
    from collections.abc import Sequence


WITH_AIRFLOW = "Create it with `airflow connections add` or as AIRFLOW_CONN_… in the environment, or correct the id."


class ConnectionNotFound(SnowpackError, kind=Kind.FAILED):
    """Airflow connection not found."""

    def __init__(self, conn_id: str, purpose: str, cause: Exception | str, way_out: str = WITH_AIRFLOW) -> None:
        super().__init__(f"The Airflow connection {conn_id!r} for {purpose} cannot be read: {cause}. {way_out}")


class ConnectionUnreadable(SnowpackError, kind=Kind.UNAVAILABLE):
    """Airflow connection could not be read."""

    def __init__(self, conn_id: str, purpose: str, cause: str) -> None:
        super().__init__(
            f"The Airflow connection {conn_id!r} for {purpose} could not be read: {cause}. Try again; if it stays so, check "
            "Airflow's API server and secrets backends."
        )


class UnsuitableConnection(SnowpackError, kind=Kind.MISCONFIGURED):
    """Unsuitable type of Airflow connection."""

    def __init__(self, conn_id: str, purpose: str, given: str | None, allowed: Sequence[str]) -> None:
        super().__init__(
            f"The Airflow connection {conn_id!r} has the type {given!r}, which does not work for {purpose}. "
            f"Use one of these types: {', '.join(allowed)}."
        )


class StatementsOnly(SnowpackError, kind=Kind.MISCONFIGURED):
    """The Spark engine has no data frames."""

    def __init__(self, conn_id: str, conn_type: str) -> None:
        super().__init__(
            f"The Airflow connection {conn_id!r} has the type {conn_type!r}, which runs maintenance, but has no data frames for "
            "builds, interim tables and functions. Pass spark_conn_id with a connection of another type, such as spark."
        )


class OneCatalogOnly(SnowpackError, kind=Kind.MISCONFIGURED):
    """The Spark engine has one catalog."""

    def __init__(self, conn_id: str, conn_type: str) -> None:
        super().__init__(
            f"The Airflow connection {conn_id!r} has the type {conn_type!r}, whose server has one catalog under this name. "
            "Start a worker for each catalog, with a server that has it, or use a connection of the type spark."
        )


class UnusableEngine(SnowpackError, kind=Kind.MISCONFIGURED):
    """Unusable engine of another package."""

    def __init__(self, conn_type: str, problem: str) -> None:
        super().__init__(
            f"The engine {conn_type!r} is an entry point of another package, and {problem}. Fix or remove that package."
        )


SHARED_DATABASE = (
    "with its own locks. Set it to a connection that every host can reach, such as one of type postgres. "
    "A connection of type sqlite works as well, if its file is on storage that all hosts share."
)


class EmbeddedNotShared(SnowpackError, kind=Kind.MISCONFIGURED):
    """A local file or folder cannot be shared between hosts."""

    def __init__(self, setting: str, what: str, place: str, executors: Sequence[str], instead: str = SHARED_DATABASE) -> None:
        runs = f"{executors[0]} runs" if len(executors) == 1 else f"{' and '.join(executors)} run"
        super().__init__(
            f"{runs} tasks on other hosts, and [snowpack] {setting} is not set: each host would have {what} of its own at "
            f"{place!r}, {instead}"
        )


class UnusableAddress(SnowpackError, kind=Kind.MISCONFIGURED):
    """Invalid catalog address."""

    def __init__(self, conn_id: str, problem: str) -> None:
        super().__init__(
            f"The address in the Airflow connection {conn_id!r} is not valid: {problem}. Use https://host/path for a REST "
            "catalog, postgresql://host:5432/database or sqlite:////path/to/file.db for a SQL catalog, thrift://host:9083 for a "
            "Hive Metastore, or glue://region."
        )


class UnusableExtra(SnowpackError, kind=Kind.MISCONFIGURED):
    """Invalid extra in an Airflow connection."""

    def __init__(self, conn_id: str, extra: str, expected: str) -> None:
        super().__init__(f"The extra {extra!r} of the Airflow connection {conn_id!r} is not valid. Use {expected}.")


class IncompleteConnection(SnowpackError, kind=Kind.MISCONFIGURED):
    """Incomplete Airflow connection."""

    def __init__(self, conn_id: str, purpose: str, missing: str) -> None:
        super().__init__(f"The Airflow connection {conn_id!r} for {purpose} has no {missing}. Add it to the connection.")
