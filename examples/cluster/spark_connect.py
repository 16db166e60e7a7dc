"""A Spark Connect server, as an application of the standalone cluster.

    connect = SparkConnectServer(home, spark)
    connect.start()
    connect_session(connect.url, catalogs=config.spark_conf())

Clients send their catalog: the server has Iceberg's jars and extensions, and no catalog.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from airflow_snowpack.spark import connect_session
from examples.cluster.part import Part
from examples.cluster.process import LOCALHOST, ServerProcess, free_port
from examples.cluster.spark import spark_environment, spark_submit
from examples.cluster.spark_standalone import EXECUTOR_MEMORY, WORKERS, SparkStandalone

if TYPE_CHECKING:
    from pathlib import Path

MAIN_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
DRIVER_MEMORY = "900m"


class SparkConnectServer(Part):
    """The server, whose executors are on the cluster's workers.

    :param home: the folder of its log.
    """

    name: ClassVar[str] = "connect"
    needs: ClassVar[tuple[type[Part], ...]] = (SparkStandalone,)

    def __init__(self, home: Path, spark: SparkStandalone) -> None:
        super().__init__()
        self._home, self._spark = home, spark
        self.port = free_port()
        self.url = f"sc://{LOCALHOST}:{self.port}"

    def start(self) -> None:
        conf = {
            "spark.connect.grpc.binding.address": LOCALHOST,
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.executor.memory": EXECUTOR_MEMORY,
            "spark.sql.shuffle.partitions": str(2 * WORKERS),
        }
        server = ServerProcess(
            "Spark Connect",
            spark_submit(MAIN_CLASS, self._home, master=self._spark.master, memory=DRIVER_MEMORY, conf=conf),
            port=self.port,
            log=self._home / "log",
            environment=spark_environment(),
            folder=self._home,
        )
        self.run(server, self._answers)

    @property
    def addresses(self) -> dict[str, str]:
        return {"Spark Connect": self.url}

    def _answers(self) -> bool:
        session = connect_session(self.url)
        try:
            return session.range(10).count() == 10
        finally:
            session.stop()
