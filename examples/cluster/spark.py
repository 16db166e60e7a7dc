"""What the servers of Spark have in common: the environment of their processes, and Iceberg's jars.

ServerProcess("Spark master", spark_class("org.apache.spark.deploy.master.Master"), environment=spark_environment(), …)
"""

from __future__ import annotations

import os
import sys

from airflow_snowpack.spark.config import ICEBERG_EXTENSIONS, ICEBERG_RUNTIME, SUBSTITUTION
from airflow_snowpack.spark.java import find_java
from examples.cluster.jars import AWS_BUNDLE, PYSPARK_JARS, Jars
from examples.cluster.process import LOCALHOST

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


def spark_submit(main_class: str, *, master: str, memory: str, conf: dict[str, str]) -> list[str]:
    """Return the command of a server that is an application of Spark, with Iceberg.

    :param memory: of the driver, such as ``700m``.
    :raises JarsMissing: Iceberg's jars cannot be downloaded.
    """
    settings = {
        "spark.sql.extensions": ICEBERG_EXTENSIONS,
        "spark.sql.session.timeZone": "UTC",
        SUBSTITUTION: "false",
        "spark.driver.host": LOCALHOST,
        "spark.driver.bindAddress": LOCALHOST,
        "spark.ui.enabled": "false",
        **PATIENCE,
        "spark.jars": ",".join(map(str, Jars().get("spark", (f"{ICEBERG_RUNTIME}!", AWS_BUNDLE)))),
        **conf,
    }
    flags = [flag for key, value in settings.items() for flag in ("--conf", f"{key}={value}")]
    submit = [str(SPARK_HOME / "bin" / "spark-submit"), "--class", main_class, "--master", master, "--driver-memory", memory]
    return [*submit, *flags, "spark-internal"]
