"""Errors of Airflow's API, and of other installations."""

from __future__ import annotations

from airflow_snowpack.errors import Kind, SnowpackError


class AirflowUnreachable(SnowpackError, kind=Kind.UNAVAILABLE):
    """Airflow does not answer."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"The request to Airflow failed: {problem.rstrip('.')}. It is retried soon.")


class AirflowRefuses(AirflowUnreachable, kind=Kind.UNAVAILABLE):
    """Airflow refused the request."""


class OtherInstallation(SnowpackError, kind=Kind.INVALID):
    """The connection belongs to another installation."""

    def __init__(self, argument: str, given: str, known: str | None) -> None:
        super().__init__(
            f"{argument} = {given!r} differs from this installation's, {known!r}: the collector would never drop interim tables "
            f"there, and no other task would find them. Omit the argument, or change [snowpack] {argument}. Functions can read "
            "and write tables of other catalogs themselves."
        )


class OtherCatalog(SnowpackError, kind=Kind.MISCONFIGURED):
    """The catalog belongs to another installation."""

    def __init__(self, asked: str, known: str) -> None:
        super().__init__(
            f"The catalog {asked!r} is not this installation's, {known!r}. Its interim tables belong to an installation with "
            f"[snowpack] catalog_name = {asked!r}."
        )
