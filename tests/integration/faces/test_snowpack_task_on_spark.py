"""``@task.snowpack`` with real Spark: what arrives, what is published, and what happens when Airflow ends the task."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest
from bounded import PATIENCE_S, Beside
from scripted_engine import eventually

from airflow_snowpack.interim import InterimRegistry, TableRef, ViewRef, read_ref
from airflow_snowpack.interim.frames.tables import read_as_arrow
from airflow_snowpack.interim.model import TableState
from tests.unit.faces.conftest import Outcome, Runner

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import DataFrame, SparkSession

Run = Callable[..., Outcome]
Rows = Callable[[dict[str, Any]], list[dict[str, Any]]]


@pytest.fixture
def run_task(run_operator: Runner) -> Run:
    """Run a function as ``@task.snowpack``."""

    from airflow.sdk import DAG, task

    def run(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Outcome:
        with DAG("guard", schedule=None):
            called: Any = task.snowpack(function)(*args, **kwargs)
        return run_operator(called.operator)

    return run


@pytest.fixture
def rows(catalog: Catalog) -> Rows:
    """What a reference points to, without Spark."""
    return lambda xcom: read_as_arrow(read_ref(xcom), catalog).to_pylist()


def numbers(spark: SparkSession) -> DataFrame:
    return spark.range(0, 10, 1, 2).selectExpr("id", "id % 3 AS part", "concat('n', id) AS `odd name`")


def test_a_dataframe_goes_from_task_to_task_as_a_table_and_so_do_its_views(
    run_task: Run, rows: Rows, registry: InterimRegistry
) -> None:
    handed = run_task(numbers)
    assert handed.state == "success", handed.error
    assert handed.xcom["rows"] == 10

    def view(made: TableRef) -> ViewRef:
        return made.where("id > 2").order_by("part desc", "id").limit(3).select("odd name", "id")

    def doubled(spark: SparkSession, made: DataFrame, *, others: list[DataFrame], small: pd.DataFrame) -> dict[str, Any]:
        assert spark.range(1).count() == 1
        assert (made.columns, len(small)) == (["odd name", "id"], 10)
        return {
            "twice": made.selectExpr("id * 2 AS id"),
            "all": others[0].unionByName(others[1]),
            "seen": [r.asDict() for r in made.collect()],
        }

    seen = run_task(view, handed.xcom)
    outcome = run_task(doubled, seen.xcom, others=[handed.xcom, handed.xcom], small=handed.xcom)

    assert outcome.state == "success", outcome.error
    assert outcome.xcom["seen"] == [{"odd name": f"n{number}", "id": number} for number in (5, 8, 4)]
    assert sorted(row["id"] for row in rows(outcome.xcom["twice"])) == [8, 10, 16]
    assert len(rows(outcome.xcom["all"])) == 20
    assert [table.readers for table in registry.tables()] == [0] * len(registry.tables())


def test_a_dataframe_that_comes_back_as_it_was_is_passed_on_and_not_copied(run_task: Run, registry: InterimRegistry) -> None:
    def same(made: DataFrame) -> DataFrame:
        return made

    handed = run_task(numbers).xcom
    assert run_task(same, handed).xcom == handed
    assert len(registry.tables()) == 1


def test_what_fails_in_spark_is_reported_and_nothing_is_published(run_task: Run, registry: InterimRegistry) -> None:
    def broken(spark: SparkSession) -> DataFrame:
        return spark.range(3).selectExpr("if(id >= 0, raise_error('the weather is bad'), id) AS id")

    outcome = run_task(broken)

    assert outcome.state == "up_for_retry"
    assert "the weather is bad" in str(outcome.error)
    (table,) = registry.tables()
    assert table.state is TableState.DROPPING


def once_spark_works(spark: SparkSession, action: Callable[[], object]) -> Beside:
    """Do something in another thread as soon as Spark has an active job."""
    tracker = spark.sparkContext.statusTracker()
    return Beside(lambda: (eventually(lambda: bool(tracker.getActiveJobsIds()), PATIENCE_S), action()))


def test_a_task_that_airflow_ends_stops_spark_and_gives_up_what_it_was_writing(
    run_task: Run, run_operator: Runner, registry: InterimRegistry, spark: SparkSession
) -> None:
    exits: list[int | str | None] = []

    def kill() -> None:
        # From a thread: a SystemExit in the main thread would tear the session that the other tests share.
        try:
            run_operator.instance.task.on_kill()
        except SystemExit as exit:
            exits.append(exit.code)

    def slow(spark: SparkSession) -> DataFrame:
        return spark.range(0, 200_000_000, 1, 8).selectExpr("id", "sha2(concat(id, uuid()), 512) AS hash")

    ended = once_spark_works(spark, kill)
    outcome = run_task(slow)
    ended.join()

    assert (exits, outcome.state) == ([143], "up_for_retry")
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
    (table,) = registry.tables()
    assert (table.state, table.rows) == (TableState.DROPPING, None)


@pytest.mark.parametrize("form", [pa.Table, pd.DataFrame])
def test_spark_reads_what_was_written_without_it(run_task: Run, form: type) -> None:
    def small() -> Any:
        made = pa.table({"id": [1, 2], "name": ["a", None]})
        return made if form is pa.Table else made.to_pandas()

    def count(made: DataFrame) -> list[Any]:
        return [row.name for row in made.orderBy("id").collect()]

    assert run_task(count, run_task(small).xcom).xcom == ["a", None]
