"""What a Spark session is made of: its settings, and the jar of Iceberg that fits the installed pyspark.

    >>> config = SparkConfig(catalogs=catalog.spark_conf(), packages=catalog.spark_packages())
    >>> session = local_session(config)

Settings fall into two kinds. What the JVM starts with (memory, jars, extensions) cannot change afterwards; what belongs to a
session (catalogs) can, and is set after the start, so that no catalog's password is ever on the JVM's command line.

The invariant: no JVM is started that could not run a procedure. Iceberg's runtime is built for one minor version of Spark, and
with another it fails in the middle of a query (``IncompatibleClassChangeError``).

Spark's own resolver downloads the jars once and keeps them. Going round it with the paths of the kept jars was measured and
gains less than the noise of a start (5.2 s against 5.5 s), so nothing is done about it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from airflow_snowpack.redaction import SECRET_NAME
from airflow_snowpack.spark.errors import SparkUnavailable, SubstitutionRequested

CATALOG_PREFIX = "spark.sql.catalog."
SUBSTITUTION = "spark.sql.variable.substitute"
"""Whether Spark replaces ``${env:X}`` and ``${system:X}`` in the text of a statement or predicate by secrets of its process."""
REDACTION, REDACTED = "spark.redaction.regex", f"(?i){SECRET_NAME.pattern}"
"""What Spark hides; its own expression matches neither an OAuth2 credential nor an account's key."""
ICEBERG_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
SPARK_MINOR = "4.1"
SPARK_VERSION = "4.1.3"  # the newest that pyspark and pyspark-client both have; pyproject.toml pins it too
INSTALL = f"pip install --force-reinstall 'pyspark=={SPARK_VERSION}' 'pyspark-client=={SPARK_VERSION}'"
ICEBERG_VERSION = "1.12.0"
ICEBERG_RUNTIME = f"org.apache.iceberg:iceberg-spark-runtime-{SPARK_MINOR}_2.13:{ICEBERG_VERSION}"

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
        return {"spark.jars.packages": ",".join(dict.fromkeys((ICEBERG_RUNTIME, *self.packages)))}


def check_pyspark(installed: str | None = None, client: str | None = None) -> str:
    """The installed pyspark's version.

    :param installed: instead of the version of the installed pyspark; ``client`` likewise of pyspark-client.
    :raises SparkUnavailable: there is none, its minor version is not the one that Iceberg's runtime is built for, or the
        pyspark-client beside it is of another version: the two write the same files.
    """
    found, beside = installed or _version_of("pyspark"), client or _version_of("pyspark-client")
    if found is None:
        raise SparkUnavailable(f"pyspark is not installed. Install it: {INSTALL}.")
    if found.split(".")[:2] != SPARK_MINOR.split("."):
        raise SparkUnavailable(
            f"pyspark {found} is installed, but Iceberg {ICEBERG_VERSION} runs on Spark {SPARK_MINOR} here. "
            f"Install the version that fits: {INSTALL}."
        )
    if beside not in (None, found):
        raise SparkUnavailable(
            f"pyspark {found} and pyspark-client {beside} are installed, which overwrite each other's files. "
            f"Install one version of both: {INSTALL}."
        )
    return found


def _version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def check_jars(jars: Sequence[Path]) -> None:
    """See that local jars exist and that Iceberg's runtime is among them.

    :raises SparkUnavailable: one does not exist, or none is Iceberg's runtime for this Spark.
    """
    for jar in jars:
        if not jar.is_file():
            raise SparkUnavailable(
                f"The jar {str(jar)!r} does not exist. Correct `jars`, or leave it out to have them downloaded."
            )
    fitting = f"iceberg-spark-runtime-{SPARK_MINOR}_"
    if jars and not any(fitting in jar.name for jar in jars):
        names = ", ".join(jar.name for jar in jars)
        raise SparkUnavailable(
            f"None of the jars {names} is Iceberg's runtime for Spark {SPARK_MINOR}. Add {ICEBERG_RUNTIME} to `jars`."
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
