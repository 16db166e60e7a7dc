"""Spark's own cluster manager: a master, and two workers with a core each.

spark = SparkStandalone(home)
spark.start()
spark.master                                    # spark://127.0.0.1:…
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

import httpx

from examples.cluster.part import Part
from examples.cluster.process import LOCALHOST, ServerProcess, free_ports
from examples.cluster.spark import spark_class, spark_environment

if TYPE_CHECKING:
    from pathlib import Path

WORKERS = 2
DAEMON_MEMORY = "256m"
CORES = 1
EXECUTOR_MEMORY = "700m"
"""What a worker offers: one executor of this size."""


class SparkStandalone(Part):
    """The master and its workers; applications of Python run in client mode only.

    :param home: the folder of logs and of the workers' scratch files.
    """

    name: ClassVar[str] = "spark"

    def __init__(self, home: Path) -> None:
        super().__init__()
        self._home = home
        self._port, self._page = free_ports(2)
        self.master = f"spark://{LOCALHOST}:{self._port}"

    def start(self) -> None:
        master = self._process("master", "master.Master", self._port, self._page)
        self.run(master, partial(self._has_workers, 0))
        for number in range(1, WORKERS + 1):
            name = f"worker-{number}"
            size = ("--cores", str(CORES), "--memory", EXECUTOR_MEMORY, "--work-dir", str(self._home / name))
            port, page = free_ports(2)
            worker = self._process(name, "worker.Worker", port, page, *size, self.master)
            self.run(worker, partial(self._has_workers, number))

    @property
    def addresses(self) -> dict[str, str]:
        return {"Spark master": self.master, "its page": f"http://{LOCALHOST}:{self._page}"}

    def _process(self, name: str, role: str, port: int, page: int, *options: str) -> ServerProcess:
        places = ("--host", LOCALHOST, "--port", str(port), "--webui-port", str(page))
        return ServerProcess(
            f"Spark {name}",
            spark_class(f"org.apache.spark.deploy.{role}", *places, *options),
            port=page,
            log=self._home / f"{name}.log",
            environment={**spark_environment(), "SPARK_DAEMON_MEMORY": DAEMON_MEMORY},
            folder=self._home,
        )

    def _has_workers(self, count: int) -> bool:
        return bool(httpx.get(f"http://{LOCALHOST}:{self._page}/json/").json()["aliveworkers"] == count)
