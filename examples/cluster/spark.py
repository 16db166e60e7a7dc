"""What the servers of Spark have in common: the environment of their processes, and Iceberg's jars.

ServerProcess("Spark master", spark_class("org.apache.spark.deploy.master.Master"), environment=spark_environment(), …)
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from airflow_snowpack.spark.config import ICEBERG_EXTENSIONS, SUBSTITUTION
from airflow_snowpack.spark.java import find_java
from airflow_snowpack.spark.runtimes import installed_runtime
from examples.cluster.jars import AWS_BUNDLE, PYSPARK_JARS, Jars
from examples.cluster.process import LOCALHOST

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SPARK_HOME = PYSPARK_JARS.parent
# A busy machine delays heartbeats.
PATIENCE = {"spark.network.timeout": "600s", "spark.executor.heartbeatInterval": "60s"}


def spark_environment() -> dict[str, str]:
    """Return the environment of a server of Spark: on 127.0.0.1 only, with the Java and the Python of the package."""
    return os.environ | {
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": LOCALHOST,
        "PYSPARK_PYTHON": sys.executable,
    }


def spark_class(name: str, *arguments: str) -> list[str]:
    """Return the command of one of Spark's own servers."""
    return [str(SPARK_HOME / "bin" / "spark-class"), name, *arguments]


def spark_submit(main_class: str, home: Path, *, master: str, memory: str, conf: Mapping[str, str]) -> list[str]:
    """Return the command of a server that is an application of Spark, with Iceberg.

    :param home: the folder of the file with its settings: a command line is for everybody on the machine to read.
    :param memory: of the driver, such as ``700m``.
    :raises JarsMissing: Iceberg's jars cannot be downloaded.
    """
    settings = {
        "spark.master": master,
        "spark.driver.memory": memory,
        "spark.sql.extensions": ICEBERG_EXTENSIONS,
        "spark.sql.session.timeZone": "UTC",
        SUBSTITUTION: "false",
        "spark.driver.host": LOCALHOST,
        "spark.driver.bindAddress": LOCALHOST,
        "spark.ui.enabled": "false",
        **PATIENCE,
        "spark.jars": ",".join(map(str, Jars().get("spark", (f"{installed_runtime().coordinates}!", AWS_BUNDLE)))),
        **conf,
    }
    home.mkdir(parents=True, exist_ok=True)
    file = home / "spark.properties"
    file.touch(mode=0o600)
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    submit = str(SPARK_HOME / "bin" / "spark-submit")
    return [submit, "--class", main_class, "--properties-file", str(file), "spark-internal"]
