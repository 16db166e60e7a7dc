"""A Spark Thrift Server with a catalog of the tests.

server = TestedThriftServer(home, SparkConfig(catalogs=lake.spark_conf(), packages=lake.spark_packages()))
server.start()
server.connect().cursor().execute("SELECT 1")
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from airflow_snowpack.spark import SparkConfig
from examples.cluster.process import LOCALHOST, ServerProcess, free_port
from examples.cluster.spark import SPARK_HOME, spark_environment

MAIN_CLASS = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
# The metastore of its own default catalog stays in memory: on the disk, a second server in the same folder could not open it.
CONF = {
    "spark.hadoop.hive.server2.thrift.bind.host": LOCALHOST,
    "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:memory:thrift;create=true",
    "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
    "spark.hadoop.hive.metastore.schema.verification": "false",
}


class TestedThriftServer:
    """The server, which accepts any user from this machine. It can be started again after it was killed.

    :param home: where it runs and keeps its log and scratch files.
    :param config: its master, memory, jars and catalogs.
    """

    __test__ = False

    def __init__(self, home: Path, config: SparkConfig) -> None:
        home.mkdir(parents=True)
        self.port = free_port()
        conf = {**config.launch_conf(), **config.session_conf(), **CONF}
        conf |= {"spark.hadoop.hive.server2.thrift.port": str(self.port), "spark.sql.warehouse.dir": str(home / "warehouse")}
        properties = home / "spark.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in conf.items()))
        submit = SPARK_HOME / "bin" / "spark-submit"
        self.process = ServerProcess(
            "Spark Thrift Server",
            [submit, "--properties-file", properties, "--class", MAIN_CLASS, "spark-internal"],
            port=self.port,
            log=home / "log",
            environment={**spark_environment(), "SPARK_LOCAL_DIRS": str(home)},
            folder=home,
        )

    def start(self) -> None:
        self.process.start(self._answers)

    def connect(self) -> Any:
        """Return a DB-API connection."""
        from impala.dbapi import connect

        return connect(LOCALHOST, self.port, auth_mechanism="PLAIN", user="tests", password="any")

    def _answers(self) -> bool:
        with closing(self.connect()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute("SELECT 1")
            return list(cursor.fetchall()) == [(1,)]
