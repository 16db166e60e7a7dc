"""Real catalogs and object storage for the tests of maintenance: each server starts once in a session, when a test needs it.

config = servers.catalog("rest")            # SeaweedFS's OAuth2 REST catalog; or "hive", "glue", "sql", "vended"
servers.s3.endpoint
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.iceberg.s3_objects import S3Objects
from examples.cluster.glue import Glue
from examples.cluster.iceberg_rest import IcebergRest
from examples.cluster.metastore import Metastore
from examples.cluster.part import Part
from examples.cluster.postgres import Postgres
from examples.cluster.seaweedfs import BUCKET, SeaweedFS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

P = TypeVar("P", bound=Part)
SECOND_BUCKET = f"{BUCKET}2"


class CatalogServers:
    """The servers of a session.

    :param home: the folder of their data.
    :param spark: gets the catalogs, under the names of their kinds.
    :param database: is created in each catalog.
    """

    def __init__(self, home: Path, spark: SparkSession, database: str) -> None:
        self._home, self._spark, self._database = home, spark, database
        self._running = ExitStack()
        self._configs: dict[str, CatalogConfig] = {}

    def catalog(self, kind: str) -> CatalogConfig:
        """Return the catalog of a kind, whose name in Spark is the kind."""
        if kind not in self._configs:
            start = {
                "rest": lambda: self.s3.catalog("rest"),
                "hive": self._hive,
                "glue": self._glue,
                "sql": self._sql,
                "vended": self._vended,
            }[kind]
            self._configs[kind] = config = self.add_to_spark(start())
            config.load().create_namespace(self._database)
        return self._configs[kind]

    def add_to_spark(self, config: CatalogConfig) -> CatalogConfig:
        for key, value in config.spark_conf().items():
            self._spark.conf.set(key, value)
        return config

    def stop(self) -> None:
        self._running.close()

    @cached_property
    def s3(self) -> SeaweedFS:
        """The server, with a second bucket whose name begins like the first one's."""
        server = self._started(SeaweedFS(self._home / "s3"))
        S3Objects(server.s3_properties).client.create_bucket(Bucket=SECOND_BUCKET)
        return server

    @property
    def arrow_options(self) -> dict[str, str]:
        """Return the options by which PyArrow reaches the files on S3."""
        scheme, _, place = self.s3.endpoint.partition("://")
        access = {"access_key": self.s3.access_key, "secret_key": self.s3.secret_key}
        return {"endpoint_override": place, "scheme": scheme, "region": self.s3.place["s3.region"], **access}

    def _sql(self) -> CatalogConfig:
        warehouse = f"s3://{BUCKET}/sql"
        return CatalogConfig.sqlite("sql", self._home / "sql.db", warehouse=warehouse, properties=self.s3.s3_properties)

    def _vended(self) -> CatalogConfig:
        """Return the catalog of Iceberg's own server, which gives its keys of S3 to its clients."""
        # PostgreSQL's user may not enter the folders of the tests.
        folder = Path(self._running.enter_context(TemporaryDirectory(prefix="snowpack-vended-")))
        folder.chmod(0o755)
        postgres = self._started(Postgres(folder / "postgres"))
        return self._started(IcebergRest(self._home / "rest", postgres, self.s3)).catalog("vended")

    def _hive(self) -> CatalogConfig:
        return self._started(Metastore(self._home / "hive")).catalog("hive")

    def _glue(self) -> CatalogConfig:
        glue = self._started(Glue(self._home / "glue", self.s3))
        system: Any = self._spark._jvm.java.lang.System  # type: ignore[union-attr]
        for name, value in (("accessKeyId", self.s3.access_key), ("secretAccessKey", self.s3.secret_key)):
            system.setProperty(f"aws.{name}", value)
        return glue.catalog("glue")

    def _started(self, part: P) -> P:
        self._running.callback(part.stop)
        part.start()
        return part
