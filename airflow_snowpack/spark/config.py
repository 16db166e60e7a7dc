"""What a Spark session is made of: its settings and jars.

    >>> config = SparkConfig(catalogs=catalog.spark_conf(), packages=catalog.spark_packages())
    >>> session = local_session(config)

Settings fall into two kinds. What the JVM starts with (memory, jars, extensions) cannot change afterwards; what belongs to a
session (catalogs) can, and is set after the start, so that no catalog's password is ever on the JVM's command line.

Spark's own resolver downloads the jars once and keeps them. Going round it with the paths of the kept jars was measured and
gains less than the noise of a start (5.2 s against 5.5 s), so nothing is done about it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from airflow_snowpack.redaction import SECRET_NAME
from airflow_snowpack.spark.errors import SparkUnavailable, SubstitutionRequested
from airflow_snowpack.spark.runtimes import ICEBERG, installed_runtime

CATALOG_PREFIX = "spark.sql.catalog."
SUBSTITUTION = "spark.sql.variable.substitute"
"""Whether Spark replaces ``${env:X}`` and ``${system:X}`` in the text of a statement or predicate by secrets of its process."""
REDACTION, REDACTED = "spark.redaction.regex", f"(?i){SECRET_NAME.pattern}"
"""What Spark hides; its own expression matches neither an OAuth2 credential nor an account's key."""
ICEBERG_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
UNRESOLVED = re.compile(r"unresolved dependency:|Server access error|UnknownHostException|not found: ")
# Ivy's table of what it could not find: "::: org.apache.iceberg#iceberg-spark-runtime-4.1_2.13;1.12.0: not found".
MISSING_MODULE = re.compile(r"(?P<group>[\w.-]+)#(?P<name>[\w.-]+);(?P<version>[\w.-]+): not found")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkConfig:
    """One Spark session.

    :param catalogs: ``spark.sql.catalog.*``, as ``CatalogConfig.spark_conf()`` gives it; may hold secrets.
    :param master: ``local[2]``, or a cluster's address.
    :param driver_memory: heap of the JVM; with a local master it is all the memory that Spark has.
    :param packages: Maven coordinates beside Iceberg's runtime, such as the catalog's JDBC driver. They are downloaded once.
        One of Iceberg without a version gets the runtime's.
    :param jars: local jar files to use **instead** of any download; Iceberg's runtime must be one of them.
    :param conf: any other Spark setting; it wins over the defaults here.
    :param java_home: a Java to use instead of looking for one.
    :raises SubstitutionRequested: ``conf`` turns on the substitution of variables.
    """

    catalogs: Mapping[str, str] = field(default_factory=dict, repr=False)
    master: str = "local[2]"
    app_name: str = "airflow-snowpack"
    driver_memory: str = "1g"
    packages: tuple[str, ...] = ()
    jars: tuple[Path, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    java_home: Path | None = None

    def __post_init__(self) -> None:
        if str(self.conf.get(SUBSTITUTION, "false")).strip().lower() != "false":
            raise SubstitutionRequested(SUBSTITUTION, self.conf[SUBSTITUTION])

    def launch_conf(self) -> dict[str, str]:
        """What the JVM starts with."""
        conf = {
            "spark.master": self.master,
            "spark.app.name": self.app_name,
            "spark.driver.memory": self.driver_memory,
            "spark.sql.extensions": ICEBERG_EXTENSIONS,
            "spark.sql.session.timeZone": "UTC",
            SUBSTITUTION: "false",
            REDACTION: REDACTED,
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
        return {"spark.jars.packages": ",".join(self.coordinates())}

    def coordinates(self) -> tuple[str, ...]:
        """Return the Maven coordinates of Iceberg's runtime and of the packages, each once."""
        runtime = installed_runtime()
        unversioned = re.compile(rf"{re.escape(ICEBERG)}:[^:]+")
        packages = (f"{each}:{runtime.iceberg}" if unversioned.fullmatch(each) else each for each in self.packages)
        return tuple(dict.fromkeys((runtime.coordinates, *packages)))


def check_jars(jars: Sequence[Path]) -> None:
    """See that local jars exist and that Iceberg's runtime is among them.

    :raises SparkUnavailable: one does not exist, or none is Iceberg's runtime for this Spark.
    """
    for jar in jars:
        if not jar.is_file():
            raise SparkUnavailable(
                f"The jar {str(jar)!r} does not exist. Correct `jars`, or leave it out to have them downloaded."
            )
    runtime = installed_runtime()
    if jars and not any(runtime.artifact in jar.name for jar in jars):
        names = ", ".join(jar.name for jar in jars)
        raise SparkUnavailable(
            f"None of the jars {names} is Iceberg's runtime for Spark {runtime.spark}. Add {runtime.coordinates} to `jars`."
        )


def explain_download(log: Sequence[str], packages: str) -> str | None:
    """Return an explanation when the JVM ended because a package could not be downloaded; otherwise ``None``."""
    if not any(UNRESOLVED.search(line) for line in log):
        return None
    missing = dict.fromkeys(":".join(match.groups()) for line in log for match in MISSING_MODULE.finditer(line))
    return (
        f"Spark could not download {', '.join(missing) or packages}. It needs them once, from Maven Central, and keeps them. "
        "Let this machine reach repo1.maven.org, name your mirror in the Spark setting spark.jars.repositories, or give the "
        "jar files themselves in `jars`."
    )
