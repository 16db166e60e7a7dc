"""Errors of Spark."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_snowpack.errors import Kind, SnowpackError


class SparkUnavailable(SnowpackError, kind=Kind.FAILED):
    """Spark is not available."""


class CatalogNotConfigured(SparkUnavailable, kind=Kind.MISCONFIGURED):
    """The Spark session has no such catalog."""

    def __init__(self, catalog: str) -> None:
        super().__init__(
            f"The Spark session has no Iceberg catalog named {catalog!r}. Set spark.sql.catalog.{catalog} and its properties "
            "(CatalogConfig.spark_conf() gives them) in the session, or on the server if the session is on one."
        )


class SubstitutionRequested(SparkUnavailable, kind=Kind.MISCONFIGURED):
    """Spark's variable substitution cannot be turned on."""

    def __init__(self, setting: str, value: object) -> None:
        super().__init__(
            f"The Spark setting {setting} is {value!r}, and must be 'false' or absent: with it, text such as "
            "${env:AIRFLOW_CONN_X} in a predicate reads the environment of the process. Remove it from [snowpack] spark_conf "
            "and from the extra 'conf' of the Spark connection."
        )


class OrphanStillRunning(SparkUnavailable, kind=Kind.FAILED):
    """Spark still runs the work of an earlier attempt."""

    def __init__(self, server: str, statements: int) -> None:
        super().__init__(
            f"{statements} statement{'s' if statements > 1 else ''} of an earlier attempt may still run on the Spark server "
            f"at {server} after being interrupted. Wait until they end, or end them on the server."
        )


class SparkInterrupted(SnowpackError, kind=Kind.FAILED):
    """The Spark work was interrupted."""

    def __init__(self) -> None:
        super().__init__(
            "The Spark work was interrupted. What it had committed until then stays; everything else is as it was. Run it again."
        )


@dataclass(frozen=True, slots=True)
class JavaCause:
    """One exception of the chain.

    :param class_name: such as ``org.apache.iceberg.exceptions.ValidationException``.
    """

    class_name: str
    message: str

    @property
    def short_name(self) -> str:
        return self.class_name.rpartition(".")[2]

    def __str__(self) -> str:
        return f"{self.short_name}: {self.message}" if self.message else self.short_name


class SparkFailed(SnowpackError, kind=Kind.FAILED):
    """The Spark work failed.

    :param causes: the Java exceptions, the outermost first; empty when the failure did not come from Java.
    """

    def __init__(self, message: str, causes: tuple[JavaCause, ...] = ()) -> None:
        super().__init__(message)
        self.causes = causes


class SparkDied(SparkFailed, kind=Kind.FAILED):
    """Spark ended unexpectedly."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"Spark's JVM is gone: {reason}. Run the work again; a new JVM starts. If that one dies too, give it more memory "
            "([snowpack] spark_driver_memory) or more room on its machine."
        )


class ServerLost(SparkFailed, kind=Kind.FAILED):
    """The connection to the Spark server was lost."""

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(
            f"The connection to the Spark server at {server} was lost while a statement ran: {reason}. The server cancels the "
            "statement of a lost client. Check that the server is up, and run the work again."
        )
