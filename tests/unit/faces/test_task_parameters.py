"""How a task's function receives its tables and its session."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pandas as pd
import polars
import pyarrow as pa
import pytest
from duckdb import DuckDBPyRelation

from airflow_snowpack.decorators.parameters import Parameters, without_session
from airflow_snowpack.interim import TableRef, ViewRef
from airflow_snowpack.interim.forms import Form

if TYPE_CHECKING:
    from pathlib import Path

    import cudf  # type: ignore[import-not-found]  # noqa: F401 - it is not installed; named in texts below
    import duckdb  # noqa: F401 - named in texts below
    import ibis  # type: ignore[import-not-found]  # noqa: F401 - it is not installed; named in texts below
    import polars as pl  # noqa: F401 - named in texts below
    import pyarrow as arrow  # noqa: F401 - named in texts below
    from pandas import DataFrame as PandasFrame
    from pyarrow import Table as ArrowTable
    from pyspark.sql import DataFrame
    from rich.table import Table as RichTable  # noqa: F401 - named in texts below


Spectrum = type("LazyFrame", (), {})


def takes(  # type: ignore[no-untyped-def]  # the first one is as most are written
    plain,
    frame: DataFrame,
    table: pa.Table,
    tables: list[pa.Table],
    pandas: pd.DataFrame | None,
    ref: TableRef,
    refs: dict[str, TableRef | ViewRef],
    described: Annotated[pa.Table, "the delays"],
    number: int,
    imported_for_types: PandasFrame,
) -> None: ...


def test_an_annotation_decides_what_a_table_arrives_as_wherever_it_names_the_class() -> None:
    parameters = Parameters.of(takes)

    forms = {name: parameters.form_of(name) for name in parameters.signature.parameters}
    assert forms == {
        "plain": Form.SPARK,
        "frame": Form.SPARK,
        "table": Form.ARROW,
        "tables": Form.ARROW,
        "pandas": Form.PANDAS,
        "ref": Form.REFERENCE,
        "refs": Form.REFERENCE,
        "described": Form.ARROW,
        "number": Form.SPARK,
        "imported_for_types": Form.PANDAS,
    }


def test_an_annotation_that_only_a_type_checker_can_evaluate_is_read_as_text() -> None:
    def task(table, frame, ref, spark_frame): ...  # type: ignore[no-untyped-def]

    task.__annotations__ = {
        "table": "no_such.name | pa.Table",
        "frame": "list[Missing | pandas.DataFrame]",
        "ref": "Missing | interim.TableRef",
        "spark_frame": "Missing | DataFrame",
    }
    forms = [Parameters.of(task).form_of(name) for name in task.__annotations__]
    assert forms == [Form.ARROW, Form.PANDAS, Form.REFERENCE, Form.SPARK]


@pytest.mark.parametrize(
    ("annotation", "form"),
    [
        ("ArrowTable", Form.ARROW),  # imported for types alone, as all of these
        ("arrow.Table | None", Form.ARROW),
        ("dict[str, list['arrow.Table']]", Form.ARROW),
        (list["ArrowTable"], Form.ARROW),  # as text inside of what is none
        ("Annotated[ArrowTable, 'pl.DataFrame']", Form.ARROW),
        ("DataFrame", Form.SPARK),
        ("PandasFrame", Form.PANDAS),
        ("pa.RecordBatch", Form.BATCH),
        (pa.RecordBatchReader, Form.READER),
        ("pl.DataFrame", Form.POLARS),
        ("list[pl.LazyFrame]", Form.LAZY),
        (polars.DataFrame, Form.POLARS),
        ("polars.DataFrame | pd.DataFrame", Form.PANDAS),
        ("duckdb.DuckDBPyRelation", Form.DUCKDB),
        (DuckDBPyRelation, Form.DUCKDB),
        ("ibis.Table", Form.IBIS),
        ("ibis.expr.types.Table | None", Form.IBIS),
        ("str", Form.SPARK),
        ("MyModel", Form.SPARK),
        ("Missing.Thing | SomeThing", Form.SPARK),
        ("RichTable", Form.SPARK),
        ("pa.dataset.Dataset", Form.SPARK),
        ("Literal['Table', 'DataFrame']", Form.SPARK),
        (Literal["Table", "DataFrame"], Form.SPARK),
        (Annotated[int, "of a DataFrame"], Form.SPARK),
        ("the table of flights", Form.SPARK),
        (Any, Form.SPARK),
    ],
)
def test_the_imports_of_its_file_resolve_an_annotation(annotation: Any, form: Form) -> None:
    def task(flights): ...  # type: ignore[no-untyped-def]

    task.__annotations__ = {"flights": annotation}
    assert Parameters.of(task).form_of("flights") is form


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (Spectrum, r"is annotated <class '.*'>, and that is .*LazyFrame. A table arrives as pa.Table"),
        ("cudf.DataFrame", "that is cudf.DataFrame"),
        ("list[cudf.LazyFrame]", "that is cudf.LazyFrame"),
        ("Table", "no single import defines Table"),
        ("Missing.Table", "no single import defines Table"),
        ("missing.DataFrame | None", "no single import defines DataFrame"),
    ],
)
def test_rows_in_an_unknown_form_are_refused_where_the_task_is_declared(annotation: Any, expected: str) -> None:
    def task(flights): ...  # type: ignore[no-untyped-def]

    task.__annotations__ = {"flights": annotation}
    with pytest.raises(TypeError, match=f"The parameter 'flights' of task .*{expected}"):
        without_session(task)


def test_two_imports_of_one_name_resolve_nothing(tmp_path: Path) -> None:
    file = tmp_path / "flights.py"
    file.write_text(
        "from __future__ import annotations\ntry:\n    from missing_arrow import Table\nexcept ImportError:\n    pass\n"
        "try:\n    from missing_tables import Table\nexcept ImportError:\n    pass\ndef task(flights: Table): ...\n"
    )
    names: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    with pytest.raises(TypeError, match="no single import defines Table"):
        Parameters.of(names["task"])


def first(spark: Any, flights: Any, *, limit: int = 5) -> tuple[Any, ...]:
    return spark, flights, limit


def middle(flights: Any, spark: Any, limit: int = 5) -> tuple[Any, ...]:
    return spark, flights, limit


def keyword(flights: Any, limit: int = 5, *, spark: Any) -> tuple[Any, ...]:
    return spark, flights, limit


def positional(flights: Any, spark: Any, /, limit: int = 5) -> tuple[Any, ...]:
    return spark, flights, limit


@pytest.mark.parametrize("function", [first, middle, keyword, positional])
def test_the_session_is_no_parameter_for_callers_at_any_position(function: Any) -> None:
    seen = without_session(function)

    assert list(inspect.signature(seen).parameters) == ["flights", "limit"]
    assert seen("flights", spark="session") == ("session", "flights", 5)
    assert seen("flights", limit=7, spark="session") == ("session", "flights", 7)


def test_further_arguments_stay_further_arguments() -> None:
    def task(spark: Any, first: Any, *others: Any, **named: Any) -> tuple[Any, ...]:
        return spark, first, others, named

    assert without_session(task)(1, 2, 3, a=4, spark="session") == ("session", 1, (2, 3), {"a": 4})


def test_a_function_without_a_session_is_left_as_it_is() -> None:
    assert without_session(takes) is takes
