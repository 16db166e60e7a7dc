"""Iceberg's own REST catalog server, the one of its tests, which gives its S3 keys to clients that request vended credentials.

    rest = IcebergRest(home, postgres, s3)
    rest.start()
    config = rest.catalog("lake")                   # without keys

It refuses no client, its keys do not expire, and it listens on all interfaces: it is for tests. The keys are of an S3 server that
listens on 127.0.0.1 only.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar

import httpx

from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.iceberg.catalog import POSTGRES_JDBC
from airflow_snowpack.spark.java import find_java
from examples.cluster.jars import Jars, pyspark_jars
from examples.cluster.part import Part
from examples.cluster.postgres import Postgres
from examples.cluster.process import LOCALHOST, ServerProcess, free_port
from examples.cluster.seaweedfs import BUCKET, FILE_IO, REGION, SeaweedFS

if TYPE_CHECKING:
    from pathlib import Path

VERSION = "1.11.0"
"""The newest whose test jars Maven Central has; clients of 1.12 work with it."""
JETTY = "12.1.5"
COORDINATES = (
    f"org.apache.iceberg:iceberg-open-api:{VERSION}:test-fixtures!",
    f"org.apache.iceberg:iceberg-core:{VERSION}",
    f"org.apache.iceberg:iceberg-core:{VERSION}:tests",
    f"org.apache.iceberg:iceberg-aws:{VERSION}!",
    f"org.apache.iceberg:iceberg-aws-bundle:{VERSION}!",
    "dev.failsafe:failsafe:3.3.2!",
    f"org.eclipse.jetty.ee10:jetty-ee10-servlet:{JETTY}",
    f"org.eclipse.jetty.compression:jetty-compression-server:{JETTY}",
    f"org.eclipse.jetty.compression:jetty-compression-gzip:{JETTY}",
    f"{POSTGRES_JDBC}!",
)
OF_PYSPARK = ("hadoop-client-api", "hadoop-client-runtime", "log4j-api", "log4j-core", "log4j-slf4j2-impl")
HEAP = "-Xmx256m"


class IcebergRest(Part):
    """The server, with its list of tables in Postgres and its files on S3.

    :param home: the folder of its log.
    """

    name: ClassVar[str] = "rest"
    needs: ClassVar[tuple[type[Part], ...]] = (Postgres, SeaweedFS)

    def __init__(self, home: Path, postgres: Postgres, s3: SeaweedFS) -> None:
        super().__init__()
        self._home, self._postgres, self._s3 = home, postgres, s3
        self._port = free_port()
        self.url = f"http://{LOCALHOST}:{self._port}"

    def start(self) -> None:
        jars = [*Jars().get(self.name, COORDINATES), *pyspark_jars(*OF_PYSPARK)]
        classpath = ":".join(map(str, jars))
        java = find_java().home / "bin" / "java"
        server = ServerProcess(
            "Iceberg's REST catalog",
            [java, HEAP, "-cp", classpath, "org.apache.iceberg.rest.RESTCatalogServer"],
            port=self._port,
            log=self._home / "log",
            environment=os.environ | self._environment(),
        )
        self.run(server, lambda: httpx.get(f"{self.url}/v1/config").is_success)

    @property
    def addresses(self) -> dict[str, str]:
        return {"REST catalog with vended keys": self.url}

    def catalog(self, name: str) -> CatalogConfig:
        """Return the catalog under a name: the server vends the S3 keys."""
        vended = {"header.X-Iceberg-Access-Delegation": "vended-credentials", **self._s3.place}
        return CatalogConfig.rest(name, self.url, properties=vended, spark_properties=self._s3.spark_properties)

    def _environment(self) -> dict[str, str]:
        """Return the catalog's settings as the server reads them: ``_`` is a dot, ``__`` a dash."""
        database = self._postgres.new_database("iceberg_rest")
        settings = {
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri": f"jdbc:postgresql://{database.host}:{database.port}/{database.database}",
            "jdbc.user": database.username or "",
            "jdbc.password": "",
            "jdbc.schema-version": "V1",
            "warehouse": f"s3://{BUCKET}/rest",
            "io-impl": FILE_IO,
            "include-credentials": "true",
            "client.region": REGION,
            **self._s3.s3_properties,
        }
        names = {key: key.replace("-", "__").replace(".", "_").upper() for key in settings}
        environment = {f"CATALOG_{names[key]}": value for key, value in settings.items()}
        return environment | {"CATALOG_REST_PORT": str(self._port), "REST_PORT": str(self._port), "AWS_REGION": REGION}
