"""Entries in processes of their own, run by Airflow's task runner on a real store and catalog, with tables in and out."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from handed_tables import NUMBERS, handed, left_behind, rows

from airflow_snowpack import operators
from airflow_snowpack.interim import InterimRegistry, TableRef, read_ref
from airflow_snowpack.interim.model import TableState
from airflow_snowpack.interim.refs import named_table
from tests.unit.faces.conftest import Outcome, Runner

Run = Callable[..., Outcome]

COPY = """
import os, sys, pyarrow.parquet as pq
source, target = sys.argv[1:]
files = sorted(os.listdir(source))
rows = pq.read_table(os.path.join(source, files[0]))
pq.write_table(rows.slice(1), target)
"""


@pytest.fixture
def run_entry(run_operator: Runner) -> Run:
    """Run a :class:`RunEntryOperator` of the runner ``subprocess``, with a task after it."""
    from airflow.sdk import DAG, task

    def run(task_id: str = "score", /, *, options: dict[str, Any] | None = None, **arguments: Any) -> Outcome:
        with DAG("guard", schedule=None):
            operator = operators.RunEntryOperator(task_id=task_id, runner="subprocess", **arguments)

            @task(task_id="after")
            def after(handed: Any) -> None: ...

            after(operator.output)
        return run_operator(operator, **(options or {}))

    return run


@pytest.fixture
def run_task(run_operator: Runner) -> Run:
    """Run a function as ``@task.snowpack(runner="subprocess", **arguments)`` with these arguments of its own."""
    from airflow.sdk import DAG, task

    def run(function: Callable[..., Any], *args: Any, arguments: dict[str, Any] | None = None, **kwargs: Any) -> Outcome:
        with DAG("guard", schedule=None, params={"day": "monday"}):
            called = task.snowpack(**{"runner": "subprocess", **(arguments or {})})(function)(*args, **kwargs)
        return run_operator(called.operator, params={"day": "monday"})

    return run


def test_a_command_that_succeeds_returns_nothing_and_one_that_fails_is_retried_if_that_may_help(
    run_entry: Run,
) -> None:
    outcome = run_entry(command=["true"])

    assert (outcome.state, outcome.xcom) == ("success", None), outcome.error
    assert left_behind() == []

    outcome = run_entry(command=["sh", "-c", "exit 3"])

    assert outcome.state == "up_for_retry"
    assert "The entry ended with exit code 3" in str(outcome.error)
    assert left_behind() == []

    outcome = run_entry(command=["no-such-program-here"])

    assert outcome.state == "failed"
    assert "no-such-program-here" in str(outcome.error)

    outcome = run_entry(command=["true"], inputs={"numbers": 7})

    assert outcome.state == "failed"
    assert "inputs = 'numbers' is not usable: its value is of type int, and an input is one table" in str(outcome.error)


def test_a_function_runs_with_the_interpreter_that_the_task_names(run_task: Run, tmp_path: Path) -> None:
    interpreter = tmp_path / "python"
    interpreter.write_text(f'#!/bin/sh\nINTERPRETER=its-own exec {sys.executable} "$@"\n')
    interpreter.chmod(0o755)

    def which() -> str:
        import os

        return os.environ["INTERPRETER"]

    outcome = run_task(which, arguments={"python": str(interpreter)})

    assert (outcome.state, outcome.xcom) == ("success", "its-own"), outcome.error


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "n" * 5000])
def test_a_table_under_a_key_that_the_store_cannot_keep_is_refused(run_task: Run, name: str) -> None:
    def score(name: str) -> dict[str, Any]:
        import pyarrow

        return {name: pyarrow.table({"n": [1]})}

    outcome = run_task(score, name)

    assert outcome.state == "failed"
    assert "cannot become an interim table: the name of a table in a result has at most 250 characters" in str(outcome.error)


def test_a_command_reads_and_writes_tables(run_entry: Run, numbers: dict[str, Any], registry: InterimRegistry) -> None:
    outcome = run_entry(
        command=[sys.executable, "-c", COPY, "{inputs}/numbers", "{outputs}/scored.parquet"],
        inputs={"numbers": numbers},
        outputs=["scored"],
    )

    assert outcome.state == "success", outcome.error
    assert rows(outcome.xcom) == [{"number": 2}, {"number": 3}]
    table = registry.table(outcome.xcom["table_id"])
    assert (table.state, table.producer.output, table.pins) == (TableState.READY, "scored", ("guard/run1/after",))
    assert registry.table(numbers["table_id"]).readers == 0
    assert left_behind() == []


def test_several_outputs_of_a_command_are_a_dictionary(run_entry: Run, numbers: dict[str, Any]) -> None:
    program = f"{COPY}\nos.mkdir(target[:-8])\npq.write_table(rows, target[:-8] + '/part.parquet')\nopen(target + '.log', 'w')"
    arguments = [sys.executable, "-c", program, "{inputs}/numbers", "{outputs}/few.parquet"]
    renamed = [argument.replace("target[:-8]", "target.replace('few.parquet', 'all')") for argument in arguments]

    outcome = run_entry(command=renamed, inputs={"numbers": numbers}, outputs=["few", "all"])

    assert outcome.state == "success", outcome.error
    assert {name: len(rows(ref)) for name, ref in outcome.xcom.items()} == {"few": 2, "all": 3}


def test_what_an_output_lacks_or_a_failed_command_has_written_is_not_committed(
    run_entry: Run, numbers: dict[str, Any], registry: InterimRegistry
) -> None:
    arguments = [sys.executable, "-c", COPY, "{inputs}/numbers", "{outputs}/other.parquet"]
    outcome = run_entry(command=arguments, inputs={"numbers": numbers}, outputs=["scored"])

    assert outcome.state == "up_for_retry"
    assert "has not written its output 'scored'" in str(outcome.error)
    assert [table.producer.task_id for table in registry.tables()] == ["made"]

    program = f"{COPY}\nsys.exit(1)"
    arguments = [sys.executable, "-c", program, "{inputs}/numbers", "{outputs}/scored.parquet"]
    outcome = run_entry(command=arguments, inputs={"numbers": numbers}, outputs=["scored"])

    assert outcome.state == "up_for_retry"
    assert [table.producer.task_id for table in registry.tables()] == ["made"]
    assert left_behind() == []


def test_a_named_table_and_a_view_are_inputs(run_entry: Run, run_operator: Runner) -> None:
    view = read_ref(handed(run_operator, NUMBERS, "features", name="features")).order_by("number desc").limit(2).to_json()
    named, top = (
        run_entry(
            command=[sys.executable, "-c", COPY, "{inputs}/numbers", "{outputs}/scored.parquet"],
            inputs={"numbers": value},
            outputs=["scored"],
        )
        for value in (named_table("features"), view)
    )

    assert [len(rows(named.xcom)), rows(top.xcom)] == [2, [{"number": 2}]], (named.error, top.error)


def test_a_function_of_a_module_receives_and_returns_tables(run_entry: Run, numbers: dict[str, Any]) -> None:
    outcome = run_entry(function="tests.support.entry_functions:scored", op_kwargs={"numbers": numbers, "factor": "{{ 5 + 5 }}"})

    assert outcome.state == "success", outcome.error
    assert (rows(outcome.xcom["scored"])[0], outcome.xcom["count"]) == ({"number": 10}, 3)
    assert left_behind() == []


def test_a_decorated_function_runs_in_a_process_of_its_own(run_task: Run, numbers: dict[str, Any]) -> None:
    def scored(numbers: pd.DataFrame, few: pl.DataFrame, ref: TableRef, rest: list[pa.Table], params: Any = None) -> Any:
        import os

        import pyarrow as pa

        types = [type(numbers).__module__.partition(".")[0], type(few).__module__.partition(".")[0], type(rest[0]).__name__]
        return {"rows": pa.table({"n": numbers["number"] * 2}), "types": types, "pid": os.getpid(), "ref": ref, "of": params}

    outcome = run_task(scored, numbers, few=numbers, ref=numbers, rest=[numbers, numbers])

    assert outcome.state == "success", outcome.error
    assert [row["n"] for row in rows(outcome.xcom["rows"])] == [2, 4, 6]
    assert outcome.xcom["types"] == ["pandas", "polars", "Table"]
    assert outcome.xcom["pid"] > 0
    assert outcome.xcom["ref"] == numbers
    assert outcome.xcom["of"] == {"day": "monday"}


def test_a_decorated_function_receives_what_of_the_context_its_parameters_name(run_task: Run) -> None:
    def received(run_id: Any, try_number: Any, params: Any, data_interval_end: Any = None) -> Any:
        return [run_id, try_number, params]

    assert run_task(received).xcom == ["run1", 1, {"day": "monday"}]


def test_a_decorated_function_with_a_command_does_not_run(run_task: Run, numbers: dict[str, Any]) -> None:
    def scored(numbers: Any) -> None:
        raise AssertionError

    command = [sys.executable, "-c", COPY, "{inputs}/numbers", "{outputs}/scored.parquet"]
    outcome = run_task(scored, numbers, arguments={"command": command, "outputs": ["scored"]})

    assert outcome.state == "success", outcome.error
    assert len(rows(outcome.xcom)) == 2


def test_what_a_function_raises_is_retried_and_a_result_or_a_function_that_cannot_be_used_fails_for_good(
    run_task: Run, run_entry: Run
) -> None:
    def failing() -> None:
        raise LookupError("no such flight")

    def made() -> object:
        return object()

    for outcome, state, problem in [
        (run_task(failing), "up_for_retry", "raised LookupError: no such flight"),
        (run_task(made), "failed", "object"),
        (run_entry(function="json:no_such_function"), "failed", "The function 'json:no_such_function' was not found"),
    ]:
        assert outcome.state == state
        assert problem in str(outcome.error)
    assert left_behind() == []


def test_a_reference_that_the_entry_did_not_receive_is_refused(run_task: Run, numbers: dict[str, Any]) -> None:
    def forged(text: str) -> Any:
        import json

        return json.loads(text)

    outcome = run_task(forged, json.dumps(numbers))

    assert outcome.state == "failed"
    assert "it has a reference to a table that is not among its arguments" in str(outcome.error)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ('ref.where(\'reflect("java.lang.System", "getenv") is null\')', "a view that is not among its arguments"),
        ("ref.order_by('(select max(secret) from other.table)')", "a view that is not among its arguments"),
        ("named_table('features', 'global')", "it has the name of a table, which a later task would look up"),
        ("{'tables': [(1, named_table('features'))]}", "it has the name of a table, which a later task would look up"),
    ],
)
def test_an_entry_cannot_have_a_later_task_read_other_tables_for_it(
    run_task: Run, numbers: dict[str, Any], change: str, problem: str
) -> None:
    def changed(numbers: TableRef, change: str) -> Any:
        from airflow_snowpack.interim.refs import TableRef, ViewRef, named_table, read_ref

        found = eval(change, {"ref": read_ref(numbers), "named_table": named_table})
        return found.to_json() if isinstance(found, TableRef | ViewRef) else found

    outcome = run_task(changed, numbers, change)

    assert outcome.state == "failed"
    assert problem in str(outcome.error)


def test_a_view_that_an_entry_received_is_passed_on(run_task: Run, numbers: dict[str, Any]) -> None:
    def same(top: TableRef, others: Any) -> Any:
        return [top, others]

    top = read_ref(numbers).order_by("number desc").limit(2).to_json()
    outcome = run_task(same, top, [top, numbers])

    assert outcome.state == "success", outcome.error
    assert outcome.xcom == [top, [top, numbers]]


def test_a_name_is_for_one_new_table(run_task: Run, registry: InterimRegistry) -> None:
    def nothing() -> int:
        return 7

    def one() -> Any:
        import pyarrow as pa

        return pa.table({"n": [1]})

    def twice() -> Any:
        import pyarrow as pa

        return [pa.table({"n": [1]})] * 2

    refused = [run_task(function, arguments={"name": "features"}) for function in (nothing, twice)]
    named = run_task(one, arguments={"name": "features"})

    assert ["returned 0 new tables" in str(refused[0].error), "returned 2 new tables" in str(refused[1].error)] == [True, True]
    assert [table.is_named for table in registry.tables()] == [True], named.error


def test_a_later_try_takes_the_output_over_and_the_earlier_one_hands_nothing_on(
    run_operator: Runner, registry: InterimRegistry, tmp_path: Path
) -> None:
    """The earlier try is in its entry while the later one runs to its end."""
    from airflow.sdk import DAG

    program = (
        "import os, sys, time, pyarrow as pa, pyarrow.parquet as pq\n"
        "pq.write_table(pa.table({'try': [int(sys.argv[2])]}), sys.argv[1])\n"
        "print('written', flush=True)\n"
        "while sys.argv[2] == '1' and not os.path.exists(sys.argv[3]): time.sleep(0.05)\n"
    )
    go_on = tmp_path / "go_on"
    command = [sys.executable, "-c", program, "{outputs}/made.parquet", "{{ ti.try_number }}", str(go_on)]
    with DAG("guard", schedule=None):
        operator = operators.RunEntryOperator(task_id="score", runner="subprocess", command=command, outputs=["made"])
    later: list[Outcome] = []
    written: list[str] = []

    def when_written(line: Any) -> None:
        written.append(line.text)
        if written == ["written"]:  # and not when the later try has written
            later.append(run_operator(operator, try_number=2))
            go_on.touch()

    operator.__dict__["_log_line"] = when_written
    earlier = run_operator(operator, try_number=1)

    assert later[0].state == "success", later[0].error
    assert rows(later[0].xcom) == [{"try": 2}]
    assert earlier.state in ("up_for_retry", "failed")
    assert [table.try_number for table in registry.tables(state=TableState.READY)] == [2]
    assert left_behind() == []
