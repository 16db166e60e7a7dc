"""What can go wrong with Spark.

SparkUnavailable          there is no Spark to work with: no Java, a wrong pyspark, a jar that cannot be had
├── CatalogNotConfigured  there is one, and it does not know the Iceberg catalog
└── OrphanStillRunning    what a killed client left on a Spark Connect server has not ended yet
SparkInterrupted          the work was stopped on purpose
SparkFailed               the work was done and Spark refused or failed; the Java causes are in the message
└── SparkDied             its JVM is gone
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.errors import SnowpackError

if TYPE_CHECKING:
    from airflow_snowpack.spark.causes import JavaCause


class SparkUnavailable(SnowpackError):
    """There is no Spark to work with; the message says what was found, what is needed and what to do."""


class CatalogNotConfigured(SparkUnavailable):
    """The session does not know the catalog; Spark itself says "Catalog spark_catalog does not support procedures"."""

    def __init__(self, catalog: str) -> None:
        super().__init__(
            f"The Spark session has no Iceberg catalog named {catalog!r}. Set spark.sql.catalog.{catalog} and its properties "
            "(CatalogConfig.spark_conf() gives them) in the session, or on the server when this is Spark Connect."
        )


class OrphanStillRunning(SparkUnavailable):
    """What a client that is gone left running on a Spark Connect server has been interrupted and has not ended yet."""

    def __init__(self, server: str, statements: int) -> None:
        super().__init__(
            f"{statements} statement{'s' if statements > 1 else ''} of an earlier attempt still run on the Spark Connect server "
            f"at {server} after being interrupted. Wait until they end, or end them on the server."
        )


class SparkInterrupted(SnowpackError):
    """The work was stopped on purpose. What it had committed before stays."""

    def __init__(self) -> None:
        super().__init__(
            "The Spark work was interrupted. What it had committed until then stays; everything else is as it was. Run it again."
        )


class SparkFailed(SnowpackError):
    """Spark refused the work or failed in it.

    :param causes: the Java exceptions, the outermost first; empty when the failure did not come from Java.
    """

    def __init__(self, message: str, causes: tuple[JavaCause, ...] = ()) -> None:
        super().__init__(message)
        self.causes = causes


class SparkDied(SparkFailed):
    """Spark's JVM ended, or its connection was lost, while there was work for it. The work may be run again."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"Spark's JVM is gone: {reason}. Run the work again; a new JVM starts. If that one dies too, give it more memory "
            "([snowpack] spark_driver_memory) or more room on its machine."
        )
