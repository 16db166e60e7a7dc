"""What the files of a release contain, and what they must not: ``python tests/support/distribution.py dist``."""

from __future__ import annotations

import sys
import tarfile
import zipfile
from configparser import ConfigParser
from email import message_from_string
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "airflow_snowpack"
BESIDE_THE_PACKAGE = {"CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", ".gitignore", "constraints.txt", "pyproject.toml"}


def files_of_the_package() -> set[str]:
    """Return the files of the package in the repository."""
    found = (path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(PACKAGE.parent).as_posix() for path in found}


def check_wheel(path: Path) -> None:
    """:raises AssertionError: a file is missing or there for no reason, or the metadata lacks the licence or an entry point."""
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        metadata = {name.rpartition("/")[2]: name for name in names if ".dist-info/" in name}
        described = message_from_string(wheel.read(metadata["METADATA"]).decode())
        points = ConfigParser(delimiters="=")
        points.read_string(wheel.read(metadata["entry_points.txt"]).decode())
    assert names - set(metadata.values()) == files_of_the_package()
    assert "LICENSE" in metadata
    assert described["License-Expression"] == "Apache-2.0"
    assert {"apache_airflow_provider", "airflow.plugins", "console_scripts"} <= set(points.sections())


def check_sdist(path: Path) -> None:
    """:raises AssertionError: it has anything but the package and what describes it."""
    with tarfile.open(path) as sdist:
        names = {member.name.partition("/")[2] for member in sdist.getmembers() if member.isfile()}
    assert names == files_of_the_package() | BESIDE_THE_PACKAGE


def main(folder: Path) -> None:
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    check_wheel(wheel)
    check_sdist(sdist)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
