"""docs/entries.md: its examples run, in processes for real, and up to the runner in containers and pods."""

from __future__ import annotations

import linecache
import re
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from handed_tables import handed, rows

from airflow_snowpack.runners.exchange import KNOBS
from airflow_snowpack.runners.output_lines import MAX_LINE_BYTES
from tests.unit.faces.conftest import Runner

PAGE = (Path(__file__).parents[3] / "docs" / "entries.md").read_text()
FLIGHTS = pa.table({"carrier": ["AA", "AA", "UA"], "delay": [5.0, 15.0, -3.0], "distance": [1, 2, 3]})

SCORE = f"""#!{sys.executable}
import argparse, pyarrow.parquet as pq
parser = argparse.ArgumentParser()
parser.add_argument("--in", dest="source")
parser.add_argument("--out")
given = parser.parse_args()
pq.write_table(pq.read_table(given.source).slice(0, 2), given.out)
"""


def section(heading: str) -> str:
    return PAGE.partition(f"### {heading}\n")[2].partition("\n##")[0]


def operators_of(text: str, flights: Any) -> list[Any]:
    """The tasks that the examples of a part of the page declare."""
    from airflow.sdk import DAG, task

    def clean() -> Any:
        return flights

    with DAG("guard", schedule=None) as dag:
        for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
            file = f"<entries.md {hash(block)}>"
            # A DAG file has a source, which the function of an entry is copied from.
            linecache.cache[file] = (len(block), None, block.splitlines(keepends=True), file)
            exec(compile(block, file, "exec"), {"task": task, "flights": flights, "clean": clean})
    return list(dag.tasks)


@pytest.fixture
def flights(run_operator: Runner) -> dict[str, Any]:
    """The reference of an interim table of flights."""
    return handed(run_operator, FLIGHTS, "clean")


def ran(run_operator: Runner, heading: str, flights: dict[str, Any]) -> list[Any]:
    """The results of the tasks of a section."""
    outcomes = [run_operator(operator) for operator in operators_of(section(heading), flights)]
    assert [outcome.error for outcome in outcomes] == [None] * len(outcomes)
    return [rows(outcome.xcom) for outcome in outcomes]


def test_the_function_in_a_process_runs(run_operator: Runner, flights: dict[str, Any]) -> None:
    assert ran(run_operator, "A function in a process", flights) == [[{"carrier": "AA", "delay_mean": 10.0}]]


def test_the_programs_in_a_process_run(
    run_operator: Runner, flights: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "bin" / "score"
    program.parent.mkdir()
    program.write_text(SCORE)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")

    found = ran(run_operator, "A program in a process", flights)

    assert [[row["delay"] for row in each] for each in found] == [[5.0, 15.0]] * 2


@pytest.mark.parametrize(
    ("heading", "runner"),
    [
        ("A function in a container", "docker"),
        ("A program in a container", "docker"),
        ("A function in a pod", "kubernetes"),
        ("A program in a pod", "kubernetes"),
    ],
)
def test_the_examples_of_containers_and_pods_are_declared_as_the_page_says(
    flights: dict[str, Any], heading: str, runner: str
) -> None:
    from airflow_snowpack.operators.entries.base import RunsEntry

    (operator,) = operators_of(section(heading), flights)

    assert isinstance(operator, RunsEntry)
    assert operator.runner == runner
    assert (operator.image is None) != (operator.build is None)
    assert (getattr(operator, "command", None) is not None) == heading.startswith("A program")


def test_the_first_example_is_declared(flights: dict[str, Any]) -> None:
    (operator,) = operators_of(PAGE.partition("\n## Examples\n")[0], flights)
    assert (operator.runner, operator.image) == ("docker", "acme/score:1.4")


def test_the_page_lists_every_argument_what_of_the_context_is_passed_on_and_the_limits() -> None:
    import inspect

    from airflow_snowpack.decorators.entry_task import PASSED_ON
    from airflow_snowpack.operators import RunEntryOperator
    from airflow_snowpack.operators.entries.base import RunsEntry

    arguments = {*inspect.signature(RunsEntry.__init__).parameters, *inspect.signature(RunEntryOperator.__init__).parameters}
    table = PAGE.partition("\n## Arguments\n")[2].partition("\n### ")[0]
    assert [name for name in arguments - {"self", "kwargs"} if f"`{name}`" not in table] == []
    assert [name for name in KNOBS if f"`{name}`" not in PAGE] == []
    assert f"longer than\n{MAX_LINE_BYTES // 1024} KiB" in PAGE or f"longer than {MAX_LINE_BYTES // 1024} KiB" in PAGE
    named = re.findall(r"`(\w+)`", PAGE.partition("may have the parameters")[2].partition("Pass other")[0])
    assert set(named) <= PASSED_ON
