"""The table of versions in the documentation, written from what the same tests and the same scenario gave on each of them.

python tests/support/compat/run.py                  # all cells: `make compat`
python tests/support/compat/run.py airflow-3.1      # one cell; the lines of the others stay

Each cell has an environment of its own. Airflow publishes constraints with each release: the newest versions of that day, which
``--exclude-newer`` gives as well, without a download from elsewhere. Then the package is installed as its users do it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[3]
sys.path.insert(0, str(REPOSITORY / "tests" / "support"))

from compat.scenario import without_chance  # noqa: E402 - it is below that folder, and the next one in it
from matrix import DOCS, PAGE, between  # noqa: E402

RESULTS = DOCS / "versions.json"
ENVIRONMENTS = REPOSITORY / ".state" / "compat"
BEGIN, END = "<!-- compat: begin -->", "<!-- compat: end -->"
REFERENCE = "airflow-3.3"
SAME = "the same"
LIMIT_S = 3600
FACES = ("tests/unit/faces", "--quiet", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "--numprocesses", "2")


@dataclass(frozen=True)
class Cell:
    """One environment.

    :param airflow: the version of Airflow.
    :param day: of its release; ``None`` for this repository's constraints.
    :param others: requirements that replace those of the constraints.
    """

    name: str
    airflow: str
    day: str | None = None
    others: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return ENVIRONMENTS / self.name

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def scenario(self) -> Path:
        return ENVIRONMENTS / f"{self.name}.json"


CELLS = (
    Cell("airflow-3.1", "3.1.8", "2026-03-12"),
    Cell("airflow-3.2", "3.2.2", "2026-05-30"),
    Cell(REFERENCE, "3.3.2"),
    # Before version 6 the Spark provider brings no pyspark-client, which has no Spark 3.5.
    Cell("spark-3.5", "3.3.2", others=("pyspark==3.5.9", "apache-airflow-providers-apache-spark<6")),
    Cell("spark-4.0", "3.3.2", others=("pyspark==4.0.5", "apache-airflow-providers-apache-spark<6")),
)


def build(cell: Cell) -> None:
    """Make the environment, unless it is there for the same requirements."""
    sources = [(REPOSITORY / name).read_text() for name in ("pyproject.toml", "constraints.txt")]
    digest = hashlib.sha256("\n".join([repr(cell), *sources]).encode()).hexdigest()
    stamp = cell.folder / "built-from"
    if stamp.exists() and stamp.read_text() == digest:
        return
    shutil.rmtree(cell.folder, ignore_errors=True)
    _uv("venv", "--python", sys.executable, str(cell.folder))
    into = ("pip", "install", "--python", str(cell.python))
    package = ("--editable", f".[{'demo,dev' if shutil.which('java') else 'demo,dev,jdk'}]")
    airflow = f"apache-airflow=={cell.airflow}"
    if cell.day is not None:
        _uv(*into, airflow, "--exclude-newer", cell.day)
        _uv(*into, airflow, *package)
    else:
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
            replaced = {re.split("[=<>]", other)[0] for other in cell.others}
            lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
            constraints.write("\n".join(line for line in lines if line.partition("==")[0] not in replaced))
            constraints.flush()
            _uv(*into, airflow, "--constraint", constraints.name, *cell.others, *package)
    stamp.write_text(digest)


def _uv(*arguments: str) -> None:
    """Run uv by its own path: as a module of this Python, it would install into the environment of this Python."""
    uv = [str(Path(sys.executable).with_name("uv")), *arguments, "--quiet"]
    subprocess.run(uv, cwd=REPOSITORY, timeout=LIMIT_S, check=True)


def run(cell: Cell) -> dict[str, Any]:
    """Return the versions of the environment, and what its tests and its scenario gave."""
    environ = os.environ | {"PATH": f"{cell.folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(REPOSITORY)}
    with tempfile.TemporaryDirectory(prefix="snowpack-compat-") as folder:
        report, home = Path(folder) / "report.xml", Path(folder) / "home"
        home.mkdir()
        _python(cell, environ, str(Path(__file__).with_name("scenario.py")), str(home), str(cell.scenario))
        _python(cell, environ, "-m", "pytest", *FACES, f"--junitxml={report}")
        counts = ET.parse(report).getroot()[0].attrib
    failed = int(counts["failures"]) + int(counts["errors"])
    skipped = int(counts["skipped"])
    passed = int(counts["tests"]) - failed - skipped
    packages = ("apache-airflow", "pyspark")
    asked = f"from importlib.metadata import version; print(*map(version, {packages!r}))"
    versions = subprocess.run([cell.python, "-c", asked], capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "versions": dict(zip(packages, versions.split(), strict=True)),
        "tests": {"passed": passed, "failed": failed, "skipped": skipped},
    }


def _python(cell: Cell, environ: dict[str, str], *arguments: str) -> None:
    """Run a program to its end; what it has printed shows why a test failed, and is no result."""
    print(f"{cell.name}: {' '.join(arguments[:3])}", flush=True)
    subprocess.run([str(cell.python), *arguments], cwd=REPOSITORY, env=environ, timeout=LIMIT_S, check=False)


def compared(cell: Cell) -> str:
    """Return which steps of the scenario gave something else than on the reference."""
    reference = next(each for each in CELLS if each.name == REFERENCE)
    if not cell.scenario.exists():
        return "did not end"
    if not reference.scenario.exists():
        return "not compared"
    ours, theirs = (without_chance(json.loads(each.scenario.read_text())) for each in (cell, reference))
    return ", ".join(f"`{step}` differs" for step in theirs if ours.get(step) != theirs[step]) or SAME


def table(results: dict[str, Any]) -> str:
    """Return the table in Markdown."""
    lines = [
        f"| `make compat` | Airflow | pyspark | on | unit tests of the operators | scenario beside {REFERENCE} |",
        "| --- " * 6 + "|",
    ]
    for name, cell in results.items():
        tests = cell["tests"]
        counted = ", ".join(f"{number} {outcome}" for outcome, number in tests.items() if number or outcome == "passed")
        versions = " | ".join(cell["versions"].values())
        lines.append(f"| {name} | {versions} | {cell['date']} | {counted} | {cell['scenario']} |")
    return "\n".join(lines)


def main(names: list[str]) -> int:
    """Run the named cells, or all; write the table."""
    if unknown := set(names) - {cell.name for cell in CELLS}:
        sys.exit(f"Unknown: {', '.join(sorted(unknown))}. The cells are: {', '.join(cell.name for cell in CELLS)}.")
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for cell in CELLS:
        if not names or cell.name in names:
            build(cell)
            cell.scenario.unlink(missing_ok=True)
            known[cell.name] = run(cell)
    results = {cell.name: known[cell.name] | {"scenario": compared(cell)} for cell in CELLS if cell.name in known}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    PAGE.write_text(between(PAGE.read_text(), BEGIN, END, table(results)))
    print(table(results))
    return int(any(each["tests"]["failed"] or each["scenario"] != SAME for each in results.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
