"""Jars from Maven Central, downloaded once by the Ivy that is among pyspark's own jars.

    classpath = Jars(home).get("rest", ["org.postgresql:postgresql:42.7.14", "org.apache.iceberg:iceberg-core:1.11.0:tests"])

A coordinate is ``group:name:version`` or ``group:name:version:classifier``, and with ``!`` at its end without its dependencies.
"""

from __future__ import annotations

import fcntl
import subprocess
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from airflow_snowpack.spark.java import find_java
from airflow_snowpack.spark.runtimes import installed_runtime
from examples.cluster.errors import JarsMissing

if TYPE_CHECKING:
    from collections.abc import Sequence

PYSPARK_JARS = Path(str(distribution("pyspark").locate_file("pyspark/jars")))
HOME = Path(__file__).parents[2] / ".state" / "jars"
MAVEN = "{http://ant.apache.org/ivy/maven}"
ALONE = "!"
AWS_BUNDLE = f"org.apache.iceberg:iceberg-aws-bundle:{installed_runtime().iceberg}!"
"""The AWS SDK, which Iceberg's S3FileIO needs."""
DOWNLOAD_LIMIT_S = 900.0
SETTINGS = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""


class Jars:
    """A folder of jars, which stays: a second request downloads nothing.

    :param home: the folder; by default, one in the repository that ``make clean`` removes.
    """

    def __init__(self, home: Path = HOME) -> None:
        self._home = home

    def get(self, name: str, coordinates: Sequence[str]) -> list[Path]:
        """Return the jars of the coordinates and of what they depend on.

        :param name: the folder for these jars.
        :raises JarsMissing: the registry does not have them, or cannot be reached.
        """
        self._home.mkdir(parents=True, exist_ok=True)
        with (self._home / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # Ivy's cache is for one process at a time
            return self._get(name, coordinates)

    def _get(self, name: str, coordinates: Sequence[str]) -> list[Path]:
        folder, log = self._home / name, self._home / f"{name}.log"
        listed = self._home / f"{name}.xml"
        module = ElementTree.tostring(_module(coordinates), encoding="unicode")
        if not (listed.exists() and listed.read_text() == module):
            folder.mkdir(parents=True, exist_ok=True)
            settings, wanted = self._home / "ivysettings.xml", folder / "ivy.xml"
            settings.write_text(SETTINGS)
            wanted.write_text(module)
            (ivy,) = PYSPARK_JARS.glob("ivy-*.jar")
            command: list[Path | str] = [find_java().home / "bin" / "java", "-jar", ivy, "-settings", settings, "-ivy", wanted]
            command += ["-cache", self._home / "cache", "-retrieve", f"{folder}/[artifact]-[revision](-[classifier]).[ext]"]
            with log.open("w") as output:
                done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, timeout=DOWNLOAD_LIMIT_S, check=False)
            if done.returncode:
                missing = [line.strip(": \t") for line in log.read_text().splitlines() if "not found" in line]
                raise JarsMissing(name, missing, log)
            listed.write_text(module)
        return sorted(folder.glob("*.jar"))


def pyspark_jars(*names: str) -> list[Path]:
    """Return jars of pyspark by the beginnings of their names."""
    return [jar for name in names for jar in sorted(PYSPARK_JARS.glob(f"{name}-[0-9]*.jar"))]


def _module(coordinates: Sequence[str]) -> ElementTree.Element:
    """Return Ivy's description of a module that depends on the coordinates; artifacts of one module share its entry."""
    module = ElementTree.Element("ivy-module", version="2.0")
    ElementTree.SubElement(module, "info", organisation="snowpack", module="cluster")
    dependencies, entries = ElementTree.SubElement(module, "dependencies"), dict[str, ElementTree.Element]()
    for coordinate in coordinates:
        group, name, version, *classifier = coordinate.removesuffix(ALONE).split(":")
        if (key := f"{group}:{name}") not in entries:
            alone = "false" if coordinate.endswith(ALONE) else "true"
            entries[key] = ElementTree.SubElement(
                dependencies, "dependency", org=group, name=name, rev=version, transitive=alone, conf="default->default"
            )
        artifact = ElementTree.SubElement(entries[key], "artifact", name=name, type="jar", ext="jar")
        if classifier:
            artifact.set(f"{MAVEN}classifier", classifier[0])
    return module
