"""A Hive Metastore out of pyspark's own jars, with an embedded database.

    metastore = Metastore(home)
    metastore.start()
    config = metastore.catalog("lake")              # for PyIceberg and Spark

It creates the folders of tables itself, so its warehouse is a folder of this machine.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar
from xml.sax.saxutils import escape

from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.spark.java import find_java
from examples.cluster.jars import PYSPARK_JARS
from examples.cluster.part import Part
from examples.cluster.process import LOCALHOST, ServerProcess, free_ports

if TYPE_CHECKING:
    from pathlib import Path

# Without it, the server looks for a library of Log4j's that is not among the jars.
LOGGING = "-Dlog4j2.contextSelector=org.apache.logging.log4j.core.selector.ClassLoaderContextSelector"
MAIN = "org.apache.hadoop.hive.metastore.HiveMetaStore"


class Metastore(Part):
    """One metastore.

    :param home: the folder of its database, its configuration and its warehouse.
    """

    name: ClassVar[str] = "metastore"

    def __init__(self, home: Path) -> None:
        super().__init__()
        self._home = home
        (self._port,) = free_ports(1)
        self.uri = f"thrift://{LOCALHOST}:{self._port}"

    def start(self) -> None:
        """Start the server, after a first start that creates the tables of locks."""
        self._start(is_first=True)
        self._lock_once()
        self.stop()
        self._start(is_first=False)

    @property
    def addresses(self) -> dict[str, str]:
        return {"Hive Metastore": self.uri}

    def catalog(self, name: str) -> CatalogConfig:
        """Return the catalog under a name."""
        return CatalogConfig.hive(name, self.uri, warehouse=f"file://{self._home / 'warehouse'}")

    def _start(self, *, is_first: bool) -> None:
        settings = {
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={self._home / 'metastore'};create=true",
            "datanucleus.schema.autoCreateAll": "true",
            # The default pool is not among the jars.
            "datanucleus.connectionPoolingType": "HikariCP",
            "hive.metastore.schema.verification": "false",
            "hive.metastore.warehouse.dir": f"file://{self._home / 'warehouse'}",
            "hive.metastore.thrift.bind.host": LOCALHOST,
            # The tables of locks are created by the mode for tests only, which refuses Iceberg's locks afterwards.
            "hive.in.test": str(is_first).lower(),
        }
        conf = self._home / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        lines = (f"<property><name>{name}</name><value>{escape(value)}</value></property>" for name, value in settings.items())
        (conf / "hive-site.xml").write_text(f"<configuration>{''.join(lines)}</configuration>")
        java = str(find_java().home / "bin" / "java")
        command = [
            java,
            "-Xmx384m",
            "-XX:TieredStopAtLevel=1",
            LOGGING,
            f"-Djava.io.tmpdir={self._home}",
            "-cp",
            f"{conf}:{PYSPARK_JARS}/*",
            MAIN,
        ]
        server = ServerProcess(
            "Hive Metastore", [*command, "-p", str(self._port)], port=self._port, log=self._home / "log", folder=self._home
        )
        self.run(server, self._answers)

    def _answers(self) -> bool:
        with self._catalog()._client as client:
            return bool(client.get_all_databases())

    def _lock_once(self) -> None:
        from hive_metastore.ttypes import LockComponent, LockLevel, LockRequest, LockType

        wanted = [LockComponent(level=LockLevel.TABLE, type=LockType.EXCLUSIVE, dbname="default", tablename="none")]
        with self._catalog()._client as client, suppress(Exception):
            # It may be refused: asking creates the tables.
            client.lock(LockRequest(component=wanted, user="snowpack", hostname=socket.gethostname()))

    def _catalog(self) -> Any:
        return self.catalog("probe").load()
