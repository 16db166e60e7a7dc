"""The versions of Spark that the package runs on, and Iceberg's runtime for each.

    >>> runtime = installed_runtime()
    >>> runtime.spark, runtime.iceberg
    ('4.1', '1.12.0')

The invariant: no JVM starts that could not run a procedure. Iceberg's runtime is built for one minor version of Spark, and with
another it fails in the middle of a query (``IncompatibleClassChangeError``).

Airflow's Spark provider installs ``pyspark-client`` from its version 6 on, which writes 358 of the files that ``pyspark`` writes.
Only with one version of both it does not matter which was unpacked last, so :func:`check_pyspark` refuses two different ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, version
from importlib.util import find_spec

from airflow_snowpack.spark.errors import SparkUnavailable

ICEBERG = "org.apache.iceberg"


@dataclass(frozen=True, slots=True)
class Runtime:
    """Iceberg's runtime for a minor version of Spark.

    :param tested: the version of pyspark that was tested, for messages.
    """

    spark: str
    scala: str
    iceberg: str
    tested: str

    @property
    def artifact(self) -> str:
        return f"iceberg-spark-runtime-{self.spark}_{self.scala}"

    @property
    def coordinates(self) -> str:
        """Return its Maven coordinates."""
        return f"{ICEBERG}:{self.artifact}:{self.iceberg}"


RUNTIMES = {
    each.spark: each
    for each in (
        Runtime("3.5", "2.12", "1.12.0", tested="3.5.9"),
        Runtime("4.0", "2.13", "1.11.0", tested="4.0.5"),
        Runtime("4.1", "2.13", "1.12.0", tested="4.1.3"),
    )
}
NEWEST = RUNTIMES["4.1"]


def installed_runtime() -> Runtime:
    """Return the runtime for the installed pyspark; :data:`NEWEST` if there is none or it is not supported."""
    return RUNTIMES.get(_minor(_installed_pyspark() or ""), NEWEST)


def check_pyspark(installed: str | None = None, client: str | None = None) -> str:
    """Return the installed pyspark's version.

    :param installed: instead of the version of the installed pyspark; ``client`` likewise of pyspark-client.
    :raises SparkUnavailable: there is none, there is no runtime for its minor version, or the pyspark-client beside it has
        another version.
    """
    found = installed or _installed_pyspark()
    # Beside the pyspark of a Spark installation, the client is in another folder, and hidden.
    beside = client or (_version_of("pyspark-client") if found == _version_of_package() else None)
    if found is None:
        raise SparkUnavailable(f"pyspark is not installed. Install it: pip install 'pyspark=={NEWEST.tested}'.")
    if _minor(found) not in RUNTIMES:
        supported = ", ".join(RUNTIMES)
        raise SparkUnavailable(
            f"pyspark {found} is installed, but Iceberg runs here on Spark {supported}. "
            f"Install one of them: pip install --force-reinstall 'pyspark=={NEWEST.tested}'{_beside(beside, NEWEST.tested)}."
        )
    if beside not in (None, found):
        both = NEWEST.tested if _minor(found) == NEWEST.spark else found
        raise SparkUnavailable(
            f"pyspark {found} and pyspark-client {beside} are installed, which overwrite each other's files. Install one version "
            f"of both: pip install --force-reinstall 'pyspark=={both}'{_beside(beside, both)}."
        )
    return found


def _beside(client: str | None, fitting: str) -> str:
    return "" if client is None else f" 'pyspark-client=={fitting}'"


def _minor(found: str) -> str:
    return ".".join(found.split(".")[:2])


def _installed_pyspark() -> str | None:
    """Return the version of what is imported: the package, or a Spark installation, whose path ``spark-submit`` puts first."""
    found = _version_of_package()
    if found is None and find_spec("pyspark") is not None:
        from pyspark import __version__ as found
    return found


def _version_of_package() -> str | None:
    """Return the version of the package; ``None`` if there is none, or another pyspark hides it."""
    try:
        package, spec = distribution("pyspark"), find_spec("pyspark")
    except PackageNotFoundError:
        return None
    return package.version if spec and spec.origin == str(package.locate_file("pyspark/__init__.py")) else None


def _version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
