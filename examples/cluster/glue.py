"""AWS Glue as moto has it, with its tables on the cluster's S3.

    glue = Glue(home, s3)
    glue.start()
    config = glue.catalog("lake")                   # for PyIceberg and Spark

It accepts a commit to a version of a table that has been replaced: two writers may lose rows here, and do not in AWS.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import httpx

from airflow_snowpack.iceberg import CatalogConfig
from examples.cluster.part import Part
from examples.cluster.process import LOCALHOST, ServerProcess, free_ports
from examples.cluster.seaweedfs import BUCKET, REGION, SeaweedFS

if TYPE_CHECKING:
    from collections.abc import Mapping

MOTO = Path(sys.executable).with_name("moto_server")


class Glue(Part):
    """One server.

    :param home: the folder of its log.
    :param s3: where tables are.
    """

    name: ClassVar[str] = "glue"
    needs: ClassVar[tuple[type[Part], ...]] = (SeaweedFS,)

    def __init__(self, home: Path, s3: SeaweedFS) -> None:
        super().__init__()
        self._home = home
        self._s3 = s3
        (self._port,) = free_ports(1)
        self.endpoint = f"http://{LOCALHOST}:{self._port}"

    def start(self) -> None:
        command: list[str | Path] = [MOTO, "-H", LOCALHOST, "-p", str(self._port)]
        server = ServerProcess("Glue (moto)", command, port=self._port, log=self._home / "log")
        self.run(server, lambda: httpx.get(f"{self.endpoint}/moto-api/data.json").is_success)

    @property
    def addresses(self) -> dict[str, str]:
        return {"Glue": self.endpoint}

    def catalog(self, name: str) -> CatalogConfig:
        """Return the catalog under a name. Spark's client of Glue has the AWS identity of its process."""
        return CatalogConfig.glue(name, REGION, warehouse=f"s3://{BUCKET}/glue", properties=self._properties)

    @property
    def _properties(self) -> Mapping[str, str]:
        keys = {"glue.access-key-id": self._s3.access_key, "glue.secret-access-key": self._s3.secret_key}
        return {**self._s3.s3_properties, **keys, "glue.endpoint": self.endpoint}
