"""What a Spark session is made of.

    >>> config = SparkConfig(catalogs=catalog.spark_conf(), packages=catalog.spark_packages())
    >>> session = local_session(config)

Settings fall into two kinds. What the JVM starts with (memory, jars, extensions) cannot change afterwards; what belongs to a
session (catalogs) can, and is set after the start, so that no catalog's password is ever on the JVM's command line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_snowpack.spark.jars import ICEBERG_RUNTIME

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

CATALOG_PREFIX = "spark.sql.catalog."
ICEBERG_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkConfig:
    """One Spark session.

    :param catalogs: ``spark.sql.catalog.*``, as ``CatalogConfig.spark_conf()`` gives it; may hold secrets.
    :param master: ``local[2]``, or a cluster's address.
    :param driver_memory: heap of the JVM; with a local master it is all the memory that Spark has.
    :param packages: Maven coordinates beside Iceberg's runtime, such as the catalog's JDBC driver. They are downloaded once.
    :param jars: local jar files to use **instead** of any download; Iceberg's runtime must be one of them.
    :param conf: any other Spark setting; it wins over the defaults here.
    :param java_home: a Java to use instead of looking for one.
    """

    catalogs: Mapping[str, str] = field(default_factory=dict, repr=False)
    master: str = "local[2]"
    app_name: str = "airflow-snowpack"
    driver_memory: str = "1g"
    packages: tuple[str, ...] = ()
    jars: tuple[Path, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    java_home: Path | None = None

    def launch_conf(self) -> dict[str, str]:
        """What the JVM starts with."""
        conf = {
            "spark.master": self.master,
            "spark.app.name": self.app_name,
            "spark.driver.memory": self.driver_memory,
            "spark.sql.extensions": ICEBERG_EXTENSIONS,
            "spark.sql.session.timeZone": "UTC",
            "spark.ui.enabled": "false",
            # A progress bar is noise in a task's log.
            "spark.ui.showConsoleProgress": "false",
        }
        if self.is_local:
            # Spark's 200 shuffle partitions are made for clusters; a local session would spend its time on empty tasks.
            conf |= {
                "spark.sql.shuffle.partitions": "8",
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
            }
        conf |= self._jar_conf()
        return conf | {key: value for key, value in self.conf.items() if not key.startswith(CATALOG_PREFIX)}

    def session_conf(self) -> dict[str, str]:
        """What a session gets after the start."""
        return {**self.catalogs, **{key: value for key, value in self.conf.items() if key.startswith(CATALOG_PREFIX)}}

    @property
    def is_local(self) -> bool:
        return self.master.startswith("local")

    def _jar_conf(self) -> dict[str, str]:
        if self.jars:
            return {"spark.jars": ",".join(str(jar) for jar in self.jars)}
        return {"spark.jars.packages": ",".join(dict.fromkeys((ICEBERG_RUNTIME, *self.packages)))}
