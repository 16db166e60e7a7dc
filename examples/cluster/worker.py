"""A worker without Airflow, which runs the jobs of the queue on Spark Connect.

worker = QueueWorker(home, installation)
worker.start()
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import ClassVar

from examples.cluster.part import Part
from examples.cluster.process import ServerProcess, environment_without_airflow
from examples.cluster.snowpack import SnowpackInstallation

READY = "takes jobs from the store"


class QueueWorker(Part):
    """One ``snowpack-worker``.

    :param home: the folder of its log.
    """

    name: ClassVar[str] = "worker"
    needs: ClassVar[tuple[type[Part], ...]] = (SnowpackInstallation,)

    def __init__(self, home: Path, installation: SnowpackInstallation) -> None:
        super().__init__()
        self._home, self._installation = home, installation

    def start(self) -> None:
        log = self._home / "log"
        server = ServerProcess(
            "Snowpack worker",
            [Path(sys.executable).with_name("snowpack-worker"), "--poll", "1s"],
            port=None,
            log=log,
            environment=environment_without_airflow() | self._installation.environment,
            folder=self._home,
        )
        self.run(server, lambda: READY in log.read_text())

    @property
    def addresses(self) -> dict[str, str]:
        return {"log": str(self._home / "log")}
