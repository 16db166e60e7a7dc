"""Spark's Thrift server, which speaks the protocol of HiveServer2, with the OAuth2 REST catalog as ``lake``.

thrift = SparkThriftServer(home, s3)
thrift.start()
with thrift.connection() as connection, connection.cursor() as cursor:
    cursor.execute("CALL lake.system.rewrite_data_files(table => 'lake.demo.flights')")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from examples.cluster.part import Part
from examples.cluster.process import LOCALHOST, ServerProcess, free_port
from examples.cluster.seaweedfs import SeaweedFS
from examples.cluster.spark import spark_environment, spark_submit

if TYPE_CHECKING:
    from pathlib import Path

MAIN_CLASS = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
CATALOG = "lake"
MEMORY = "700m"
# In memory: a folder on the disk could be opened by one process only.
SESSION_CATALOG = {
    "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:memory:thrift;create=true",
    "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
    "spark.hadoop.hive.metastore.schema.verification": "false",
}


class SparkThriftServer(Part):
    """The server, with two threads of its own for the work.

    :param home: the folder of its log, settings and scratch files.
    """

    name: ClassVar[str] = "thrift"
    needs: ClassVar[tuple[type[Part], ...]] = (SeaweedFS,)

    def __init__(self, home: Path, s3: SeaweedFS) -> None:
        super().__init__()
        self._home, self._s3 = home, s3
        self.port = free_port()

    def start(self) -> None:
        conf = {
            "spark.hadoop.hive.server2.thrift.port": str(self.port),
            "spark.hadoop.hive.server2.thrift.bind.host": LOCALHOST,
            **SESSION_CATALOG,
            **self._s3.catalog(CATALOG).spark_conf(),
        }
        server = ServerProcess(
            "Spark Thrift server",
            spark_submit(MAIN_CLASS, self._home, master="local[2]", memory=MEMORY, conf=conf),
            port=self.port,
            log=self._home / "log",
            environment=spark_environment(),
            folder=self._home,
        )
        self.run(server, self._answers)

    @property
    def addresses(self) -> dict[str, str]:
        return {"Thrift (HiveServer2)": f"{LOCALHOST}:{self.port}, any user and password"}

    def connection(self) -> Any:
        """Connect a client; return a DB-API connection."""
        from impala.dbapi import connect

        return connect(host=LOCALHOST, port=self.port, auth_mechanism="PLAIN", user="snowpack", password="unchecked")

    def _answers(self) -> bool:
        with self.connection() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            return bool(cursor.fetchall() == [(1,)])
