"""SeaweedFS, from PyPI: an S3 server and, on the same tables, a REST catalog that requires OAuth2.

    s3 = SeaweedFS(home)
    s3.start()
    config = s3.catalog("lake")                     # for PyIceberg and Spark
    s3.s3_properties                                # for a catalog of another server whose files are on this S3

The bucket ``lake`` is empty; the tables of the REST catalog are in the table bucket ``icelake``.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import httpx

from airflow_snowpack.iceberg import CatalogConfig
from examples.cluster.part import Part
from examples.cluster.process import LOCALHOST, ServerProcess, free_ports

if TYPE_CHECKING:
    from collections.abc import Mapping

WEED = Path(sys.executable).with_name("weed")
BUCKET, TABLE_BUCKET = "lake", "icelake"
REGION = "us-east-1"
USER = "admin"
# With -s3.port.iceberg they are all ports that it opens; each has a port of its own for gRPC.
SERVICES = ("master", "volume", "filer", "s3", "admin")
SHELL_LIMIT_S = 120.0
FILE_IO = "org.apache.iceberg.aws.s3.S3FileIO"


class SeaweedFS(Part):
    """One SeaweedFS with one user.

    :param home: the folder of its data.
    """

    name: ClassVar[str] = "s3"

    def __init__(self, home: Path) -> None:
        super().__init__()
        self._home = home
        self.access_key, self.secret_key = secrets.token_hex(10), secrets.token_hex(20)
        ports = free_ports(2 * len(SERVICES) + 1)
        self._ports = dict(zip((*SERVICES, *(f"{each}.grpc" for each in SERVICES), "iceberg"), ports, strict=True))
        self.endpoint = f"http://{LOCALHOST}:{self._ports['s3']}"
        self.catalog_url = f"http://{LOCALHOST}:{self._ports['iceberg']}"
        self.token_url = f"{self.catalog_url}/v1/oauth/tokens"
        self.filer = f"{LOCALHOST}:{self._ports['filer.grpc']}"

    def start(self) -> None:
        """Start the server and create its buckets."""
        data, config = self._home / "data", self._home / "s3.json"
        data.mkdir(parents=True)
        key = {"accessKey": self.access_key, "secretKey": self.secret_key}
        actions = ["Admin", "Read", "List", "Tagging", "Write"]
        config.write_text(json.dumps({"identities": [{"name": USER, "credentials": [key], "actions": actions}]}))
        config.chmod(0o600)
        ports = [
            f"-{name.removesuffix('.grpc')}.port{'.grpc' if name.endswith('.grpc') else ''}={port}"
            for name, port in self._ports.items()
            if name != "iceberg"
        ]
        command: list[Path | str] = [WEED, "mini", f"-dir={data}", f"-ip={LOCALHOST}", f"-ip.bind={LOCALHOST}", *ports]
        command += [f"-s3.port.iceberg={self._ports['iceberg']}", "-s3.port.lance=0", "-webdav=false", "-admin.ui=false"]
        command += [f"-s3.config={config}", f"-bucket={BUCKET}"]
        server = ServerProcess("SeaweedFS", command, port=self._ports["s3"], log=self._home / "log", folder=self._home)
        self.run(server, self._issues_tokens)
        self._shell(f"s3tables.bucket -create -name {TABLE_BUCKET} -account {USER}")

    @property
    def addresses(self) -> dict[str, str]:
        return {"S3": self.endpoint, "REST catalog with OAuth2": f"{self.catalog_url} (warehouse s3://{TABLE_BUCKET})"}

    @property
    def s3_properties(self) -> dict[str, str]:
        """Return the settings by which PyIceberg and Spark reach the files; they contain the keys."""
        return {**self.place, "s3.access-key-id": self.access_key, "s3.secret-access-key": self.secret_key}

    @property
    def place(self) -> dict[str, str]:
        """Return the settings by which PyIceberg and Spark find the server, without keys."""
        return {"s3.endpoint": self.endpoint, "s3.region": REGION, "s3.path-style-access": "true"}

    @property
    def spark_properties(self) -> Mapping[str, str]:
        """Return the settings that Spark needs in addition."""
        return {"io-impl": FILE_IO, "client.region": REGION}

    def catalog(self, name: str) -> CatalogConfig:
        """Return the OAuth2 REST catalog under a name."""
        return CatalogConfig.rest(
            name,
            self.catalog_url,
            warehouse=f"s3://{TABLE_BUCKET}",
            credential=f"{self.access_key}:{self.secret_key}",
            properties={**self.s3_properties, "oauth2-server-uri": self.token_url},
            spark_properties={**self.spark_properties, "rest.auth.type": "oauth2"},
        )

    def _issues_tokens(self) -> bool:
        form = {"grant_type": "client_credentials", "client_id": self.access_key, "client_secret": self.secret_key}
        return httpx.post(self.token_url, data=form).is_success

    def _shell(self, command: str) -> None:
        master = f"{LOCALHOST}:{self._ports['master']}.{self._ports['master.grpc']}"
        subprocess.run(
            [WEED, "shell", "-master", master],
            input=f"{command}\n",
            text=True,
            capture_output=True,
            check=True,
            timeout=SHELL_LIMIT_S,
        )
