"""Iceberg's jar for Spark: which one fits the installed pyspark, and the error when it cannot be downloaded.

    >>> check_pyspark("4.0.1")
    Traceback (most recent call last):
    SparkUnavailable: pyspark 4.0.1 is installed, but …

The invariant: no JVM is started that could not run a procedure. Iceberg's runtime is built for one minor version of Spark, and
with another it fails in the middle of a query (``IncompatibleClassChangeError``).

Spark's own resolver downloads the jars once and keeps them. Going round it with the paths of the kept jars was measured and
gains less than the noise of a start (5.2 s against 5.5 s), so nothing is done about it.
"""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from airflow_snowpack.spark.errors import SparkUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SPARK_MINOR = "4.1"
SPARK_VERSION = "4.1.3"  # the newest that pyspark and pyspark-client both have; pyproject.toml pins it too
INSTALL = f"pip install --force-reinstall 'pyspark=={SPARK_VERSION}' 'pyspark-client=={SPARK_VERSION}'"
ICEBERG_VERSION = "1.12.0"
ICEBERG_RUNTIME = f"org.apache.iceberg:iceberg-spark-runtime-{SPARK_MINOR}_2.13:{ICEBERG_VERSION}"

UNRESOLVED = re.compile(r"unresolved dependency:|Server access error|UnknownHostException|not found: ")
# Ivy's table of what it could not find: "::: org.apache.iceberg#iceberg-spark-runtime-4.1_2.13;1.12.0: not found".
MISSING_MODULE = re.compile(r"(?P<group>[\w.-]+)#(?P<name>[\w.-]+);(?P<version>[\w.-]+): not found")


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
