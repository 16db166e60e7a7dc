"""``@task.snowpack`` in Airflow's own task runner, with a real store and catalog and no Spark: Arrow's tables and references."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from handed_tables import NUMBERS, rows

from airflow_snowpack.interim import InterimRegistry, TableRef, ViewRef, read_ref
from airflow_snowpack.interim.model import TableState
from airflow_snowpack.interim.refs import named_table
from airflow_snowpack.preservation import Preservation
from tests.unit.faces.conftest import Outcome, Runner

Run = Callable[..., Outcome]


@pytest.fixture
def run_task(run_operator: Runner) -> Run:
    """Run a function as ``@task.snowpack(**arguments)`` with these arguments of its own; ``after`` comes after it."""

    from airflow.sdk import DAG, task

    def run(function: Callable[..., Any], *args: Any, arguments: dict[str, Any] | None = None, **kwargs: Any) -> Outcome:
        with DAG("guard", schedule=None):
            called = task.snowpack(**(arguments or {}))(function)(*args, **kwargs)

            @task(task_id="after")
            def after(handed: Any) -> None: ...

            after(called)
        return run_operator(called.operator)

    return run


@pytest.fixture
def handed(run_task: Run) -> dict[str, Any]:
    """The XCom of a task that returned :data:`NUMBERS`."""

    def made() -> pa.Table:
        return NUMBERS

    outcome = run_task(made)
    assert outcome.state == "success", outcome.error
    xcom: dict[str, Any] = outcome.xcom
    return xcom


def test_returned_rows_become_a_table_that_is_pinned_for_its_consumers_and_the_xcom_is_its_reference(
    handed: dict[str, Any], registry: InterimRegistry
) -> None:
    ref = read_ref(handed)

    assert isinstance(ref, TableRef)
    assert (ref.rows, ref.producer.task_id, ref.producer.output) == (3, "made", "return_value")
    assert ref.table.startswith("lake.snowpack_interim.guard_made_")
    assert rows(handed) == NUMBERS.to_pylist()
    table = registry.table(ref.table_id)
    assert (table.state, table.pins, table.readers) == (TableState.READY, ("guard/run1/after",), 0)


def test_a_reference_arrives_in_the_form_of_the_annotation_and_no_spark_is_started(run_task: Run, handed: dict[str, Any]) -> None:
    def total(arrow: pa.Table, frame: pd.DataFrame, ref: TableRef, *, many: list[pa.Table]) -> dict[str, Any]:
        types = [type(each).__name__ for each in (arrow, frame, ref, *many)]
        return {"types": types, "sum": int(frame["number"].sum()), "table": ref.table}

    outcome = run_task(total, handed, handed, handed, many=[handed, handed])

    assert outcome.state == "success", outcome.error
    assert outcome.xcom == {"types": ["Table", "DataFrame", "TableRef", "Table", "Table"], "sum": 6, "table": handed["table"]}


def test_what_is_read_is_kept_while_the_task_runs_and_released_when_it_ends(
    run_task: Run, handed: dict[str, Any], registry: InterimRegistry
) -> None:
    def held(numbers: pa.Table) -> int:
        return registry.table(handed["table_id"]).readers

    def failing(numbers: pa.Table) -> None:
        raise RuntimeError("no")

    assert run_task(held, handed).xcom == 1
    assert run_task(failing, handed).state == "up_for_retry"
    assert registry.table(handed["table_id"]).readers == 0


def test_ordinary_values_go_through_untouched(run_task: Run, registry: InterimRegistry) -> None:
    def same(value: Any, numbers: range, ti: Any = None) -> dict[str, Any]:
        assert numbers == range(3)
        return {"value": value, "task": ti.task_id}

    value = {"snow": ["pack", 1, None], "nested": {"a": [1, 2]}}
    assert run_task(same, value, range(3)).xcom == {"value": value, "task": "same"}
    assert registry.tables() == []


def test_several_outputs_become_tables_of_their_own_and_a_tuple_a_list_of_references(
    run_task: Run, registry: InterimRegistry
) -> None:
    def both() -> dict[str, Any]:
        return {"good": NUMBERS, "count": 3, "bad": [NUMBERS.slice(0, 1).to_pandas(), "why"]}

    outcome = run_task(both, arguments={"multiple_outputs": True})

    assert outcome.state == "success", outcome.error
    assert (len(rows(outcome.xcom["good"])), outcome.xcom["count"], outcome.xcom["bad"][1]) == (3, 3, "why")
    assert rows(outcome.xcom["bad"][0]) == [{"number": 1}]
    pushed = {each.key for each in outcome.sent if type(each).__name__ == "SetXCom"}
    assert pushed >= {"good", "bad", "count"}
    assert {table.producer.output for table in registry.tables()} == {"good", "bad.0"}

    def made() -> tuple[pa.Table, pa.Table]:
        return NUMBERS.slice(0, 1), NUMBERS.slice(1)

    outcome = run_task(made)
    assert [len(rows(each)) for each in outcome.xcom] == [1, 2]


def test_a_mapping_that_is_not_a_dictionary_is_one_for_its_receiver(run_task: Run, handed: dict[str, Any]) -> None:
    def passing(both: Any) -> Any:
        assert isinstance(both["left"], TableRef)
        return MappingProxyType({"left": both["left"], "n": 1, "new": NUMBERS})

    passing.__annotations__["both"] = "dict[str, TableRef]"
    outcome = run_task(passing, {"left": handed, "n": 1})

    assert outcome.state == "success", outcome.error
    assert (outcome.xcom["left"], outcome.xcom["n"], len(rows(outcome.xcom["new"]))) == (handed, 1, 3)


@dataclass(frozen=True)
class Both:
    rows: Any
    count: int


def test_hidden_rows_are_refused_before_anything_is_written(
    run_task: Run, handed: dict[str, Any], registry: InterimRegistry
) -> None:
    def hidden(made: TableRef) -> Any:
        return [NUMBERS, Both(NUMBERS, 3)]

    def hidden_reference(made: TableRef) -> Any:
        return {"sets": {made}}

    for function, expected in ((hidden, "Both"), (hidden_reference, "set")):
        outcome = run_task(function, handed)
        assert outcome.state == "failed"
        assert f"output = '{expected}' cannot become an interim table" in str(outcome.error)
    assert len(registry.tables()) == 1


def test_a_received_table_or_a_view_of_it_is_passed_on_without_a_copy_and_pinned_for_its_consumers(
    run_task: Run, handed: dict[str, Any], registry: InterimRegistry
) -> None:
    def smaller(numbers: TableRef) -> ViewRef:
        return numbers.order_by("number desc").limit(1)

    def unchanged(numbers: pa.Table) -> pa.Table:
        return numbers

    view, same = run_task(smaller, handed).xcom, run_task(unchanged, handed).xcom

    assert rows(view) == [{"number": 3}]
    assert same == handed
    assert len(registry.tables()) == 1
    assert set(registry.table(handed["table_id"]).pins) == {
        f"guard/run1/{task_id}" for task_id in ("after", "smaller", "unchanged")
    }


def test_a_view_with_a_condition_that_is_read_without_spark_fails_for_good_with_the_ways_out(
    run_task: Run, handed: dict[str, Any]
) -> None:
    def filtered(numbers: TableRef) -> ViewRef:
        return numbers.where("number > 1")

    def count(numbers: pa.Table) -> int:
        return numbers.num_rows

    outcome = run_task(count, run_task(filtered, handed).xcom)

    assert outcome.state == "failed"  # and not up_for_retry
    assert "only Spark evaluates" in str(outcome.error)
    assert ".toArrow()" in str(outcome.error)


def test_pandas_that_was_received_is_written_again_since_it_may_have_been_changed(run_task: Run, handed: dict[str, Any]) -> None:
    def changed(numbers: pd.DataFrame) -> pd.DataFrame:
        numbers["number"] *= 10
        return numbers

    outcome = run_task(changed, handed)
    assert [row["number"] for row in rows(outcome.xcom)] == [10, 20, 30]
    assert [row["number"] for row in rows(handed)] == [1, 2, 3]


def test_polars_and_duckdb_are_handed_tables_and_hand_tables_on(run_task: Run, handed: dict[str, Any]) -> None:
    def of_polars(numbers: pl.DataFrame) -> pl.DataFrame:
        return numbers.with_columns(number=pl.col("number") * 10)

    def lazily(numbers: pl.LazyFrame) -> dict[str, pl.LazyFrame]:
        return {"large": numbers.filter(pl.col("number") > 1)}

    def of_duckdb(numbers: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
        return numbers.filter("number < 3")

    found = [run_task(function, handed) for function in (of_polars, lazily, of_duckdb)]

    assert [outcome.error for outcome in found] == [None] * 3
    tens, large, small = (outcome.xcom for outcome in found)
    assert [row["number"] for row in rows(tens)] == [10, 20, 30]
    assert [row["number"] for row in rows(large["large"])] == [2, 3]
    assert [row["number"] for row in rows(small)] == [1, 2]


def test_rows_that_iceberg_cannot_hold_fail_the_task_for_good(run_task: Run) -> None:
    def durations() -> pa.Table:
        return pa.table({"took": pa.array([1], pa.duration("s"))})

    outcome = run_task(durations, arguments={"retries": 3})
    assert outcome.state == "failed"
    assert "the column took: Iceberg has no type for duration[s]" in str(outcome.error)


def test_a_reader_that_is_returned_twice_has_its_rows_both_times_and_one_that_was_read_fails_the_task(
    run_task: Run, handed: dict[str, Any]
) -> None:
    def twice(numbers: pa.RecordBatchReader) -> list[pa.RecordBatchReader]:
        return [numbers, numbers]

    def counted(numbers: pa.RecordBatchReader) -> pa.RecordBatchReader:
        assert sum(batch.num_rows for batch in numbers) == 3
        return numbers

    assert [rows(each) for each in run_task(twice, handed).xcom] == [NUMBERS.to_pylist()] * 2
    outcome = run_task(counted, handed)
    assert outcome.state == "failed"
    assert "it was already read to its end" in str(outcome.error)


def test_a_named_table_is_found_by_its_name(run_task: Run, registry: InterimRegistry) -> None:
    def features() -> pa.Table:
        return NUMBERS

    def count(numbers: pa.Table) -> int:
        return len(numbers)

    keep = {"name": "features_{{ ti.task_id }}", "scope": "global", "preservation": "FULL", "ttl": "7d"}
    written = run_task(features, arguments=keep)
    assert written.state == "success", written.error
    table = registry.table(written.xcom["table_id"])

    assert run_task(count, named_table("features_features", "global")).xcom == 3
    assert (table.is_named, table.preservation) == (True, Preservation.FULL)
    assert table.expires_at == table.ready_at + timedelta(days=7)  # type: ignore[operator]  # it is ready
    assert run_task(count, named_table("no_such")).state == "up_for_retry"


def test_a_name_is_for_one_new_table(run_task: Run, handed: dict[str, Any]) -> None:
    def two() -> list[pa.Table]:
        return [NUMBERS, NUMBERS]

    def none(numbers: TableRef) -> TableRef:
        return numbers

    for function, args in ((two, ()), (none, (handed,))):
        outcome = run_task(function, *args, arguments={"name": "features"})
        assert outcome.state == "failed"
        assert "a name is for one" in str(outcome.error)


def test_a_name_on_a_mapped_task_differs_for_each_instance(run_operator: Runner, registry: InterimRegistry) -> None:
    from airflow.sdk import DAG, task

    def part(n: int) -> pa.Table:
        return NUMBERS.slice(0, n)

    def mapped(name: str) -> Outcome:
        with DAG("guard", schedule=None):
            return run_operator(task.snowpack(name=name)(part).expand(n=[1, 2]).operator, map_index=1)

    shared, own = mapped("features"), mapped("features_{{ ti.map_index }}")

    assert shared.state == "failed"  # and not up_for_retry
    assert "all of its instances would give their tables this name" in str(shared.error)
    assert own.state == "success", own.error
    assert [(table.producer.map_index, table.rows, table.is_named) for table in registry.tables()] == [(1, 2, True)]


def test_a_task_whose_table_was_dropped_fails_at_once_and_learns_what_to_clear_too(run_task: Run, handed: dict[str, Any]) -> None:
    from airflow.providers.common.compat.sdk import AirflowFailException

    def count(numbers: pa.Table) -> int:
        return len(numbers)

    outcome = run_task(count, handed | {"table_id": "0" * 32})

    assert outcome.state == "failed"  # and not up_for_retry
    assert isinstance(outcome.error, AirflowFailException)
    assert "Clear its producer too, the task 'made'" in str(outcome.error)


def test_a_later_try_takes_the_output_over_and_the_earlier_one_hands_nothing_on(
    run_task: Run, run_operator: Runner, registry: InterimRegistry
) -> None:
    from airflow.sdk import DAG, task

    def made(ti: Any = None) -> pa.Table:
        if ti.try_number == 1:
            later.append(run_operator(tasks[0], try_number=2))
        return pa.table({"try": [ti.try_number]})

    later: list[Outcome] = []
    with DAG("guard", schedule=None):
        tasks = [task.snowpack(made)().operator]  # type: ignore[attr-defined]  # what a decorator gives
    earlier = run_operator(tasks[0], try_number=1)

    assert later[0].state == "success", later[0].error
    assert earlier.state == "up_for_retry"  # which is Airflow's to decide: it retries no attempt that it has given up
    assert "later" in str(earlier.error) or "taken over" in str(earlier.error)
    assert rows(later[0].xcom) == [{"try": 2}]
    assert [table.try_number for table in registry.tables(state=TableState.READY)] == [2]


def test_a_run_that_is_deleted_and_made_again_under_its_id_runs(
    run_task: Run, run_operator: Runner, registry: InterimRegistry
) -> None:
    from airflow.sdk import DAG, task

    def made(ti: Any = None) -> pa.Table:
        return NUMBERS

    with DAG("guard", schedule=None):
        operator = task.snowpack(made)().operator  # type: ignore[attr-defined]  # what a decorator gives
    outcomes = [run_operator(operator, try_number=tried, later=timedelta(minutes=after)) for tried, after in ((2, 0), (1, 2))]

    assert [outcome.state for outcome in outcomes] == ["success"] * 2, outcomes[-1].error
    assert sorted(table.try_number for table in registry.tables(state=TableState.READY)) == [1, 2]


def test_a_task_that_airflow_ends_gives_up_what_it_wrote_and_ends_its_process(
    run_task: Run, handed: dict[str, Any], run_operator: Runner, registry: InterimRegistry
) -> None:
    def made(numbers: pa.Table) -> None:
        run_operator.instance.task._handover.give(numbers, "early")
        run_operator.instance.task.on_kill()  # the signal

    outcome = run_task(made, handed)

    assert isinstance(outcome.error, SystemExit)  # which Airflow's runner makes of it what it makes of every end of a process
    assert outcome.error.code == 143
    states = {table.producer.output: table.state for table in registry.tables()}
    assert states["early"] is TableState.DROPPING
    assert all(table.readers == 0 for table in registry.tables())


def numbers() -> pa.Table:
    return NUMBERS


def test_arguments_that_mean_nothing_and_asynchronous_functions_are_refused_in_the_dag_file() -> None:
    for arguments, expected in [
        ({"scope": "everywhere"}, "everywhere"),
        ({"preservation": "SOME"}, "SOME"),
        ({"ttl": "soon"}, "soon"),
    ]:
        from airflow.sdk import DAG, task

        with DAG("guard", schedule=None), pytest.raises(Exception, match=expected):
            task.snowpack(**arguments)(numbers)()

    from airflow.sdk import task

    async def later() -> None: ...

    with pytest.raises(TypeError, match="later"):
        task.snowpack(later)
