"""What becomes of a user's function and of its rows in a Spark task, without a Spark."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_snowpack.arrow.rows import Misfit, RowBatches, rows_of
from airflow_snowpack.interim.map_reduce.errors import FunctionFailed, UnusableFunction, WrongRows, function_failure
from airflow_snowpack.interim.map_reduce.functions import FunctionCall, ShippedFunction, name_of
from airflow_snowpack.interim.map_reduce.mapping import map_batches

KINDS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("fare", pa.decimal128(9, 2)),
        ("notes", pa.map_(pa.string(), pa.int32())),
        ("legs", pa.list_(pa.struct([("to", pa.string()), ("miles", pa.int32())]))),
    ]
)
FULL: dict[str, Any] = {
    "id": 1,
    "day": date(2013, 1, 1),
    "at": datetime(2013, 1, 1, 10, tzinfo=UTC),
    "fare": Decimal("1.25"),
    "notes": {"stops": 2},
    "legs": [{"to": "EWR", "miles": 200}, None],
}


def test_rows_come_back_as_they_were() -> None:
    rows = [FULL, {"id": 2}, {"id": 3, "legs": [], "notes": {}}]
    nothing = dict.fromkeys(KINDS.names)
    assert rows_of(RowBatches(KINDS).of(rows)) == [nothing | row for row in rows]


def test_a_moment_of_another_zone_is_the_same_moment() -> None:
    at = datetime(2013, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    (row,) = rows_of(RowBatches(KINDS).of([{"id": 1, "at": at}]))
    assert row["at"] == FULL["at"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"id": 1.5}, r"id = 1\.5 \(a float\), which does not fit int64: Its fraction would be cut off"),
        ({"id": "1"}, r"id = '1' \(a str\), which does not fit int64: Could not convert"),
        ({"id": None}, r"id = None \(None\), which does not fit int64: It must not be null"),
        ({"id": 2**63}, "id = 9223372036854775808"),
        ({"day": datetime(2013, 1, 1, 10)}, "day = .* would be cut off"),  # noqa: DTZ001 - what a careless user gives
        ({"fare": Decimal("1.255")}, "fare = .* would cause data loss"),
        ({"notes": {"stops": 2.5}}, "notes = .* would be cut off"),
        ({"legs": [{"to": "EWR", "miles": 0.5}]}, "legs = .* would be cut off"),
        ({"legs": [{"to": "EWR", "mile": 1}]}, "legs = .* would be cut off"),
        ({"legs": "EWR"}, "legs = 'EWR'"),
        ({"tail": "N1"}, "'tail', and the schema has only id, day"),
    ],
)
def test_a_value_that_would_be_changed_is_refused_and_named(change: dict[str, Any], told: str) -> None:
    with pytest.raises(Misfit, match=told) as refused:
        RowBatches(KINDS).of([FULL, FULL, FULL | change])
    assert refused.value.number == 2


@pytest.mark.parametrize("row", [None, 7, [("id", 1)], "id"])
def test_what_is_no_dictionary_is_no_row(row: Any) -> None:
    with pytest.raises(Misfit, match="a row is a dictionary"):
        RowBatches(KINDS).of([row])


def test_whole_numbers_may_be_floats() -> None:
    assert rows_of(RowBatches(pa.schema([("n", pa.int32())])).of([{"n": 2.0}])) == [{"n": 2}]


def shorter(row: dict[str, Any], by: int = 0, *, unit: str = "") -> str:
    return f"{row['n'] - by}{unit}"


def test_a_function_travels_with_its_arguments() -> None:
    assert ShippedFunction.of(shorter, (2,), {"unit": "km"}).loaded()({"n": 9}) == "7km"
    assert ShippedFunction.of(partial(shorter, unit="m")).loaded()({"n": 9}) == "9m"


DAG_FILE = """
    HALF = 2
    def divided(number):
        return number / HALF
    def halved(row):
        return {"n": divided(row["n"])}
"""


def test_a_function_of_a_dag_file_runs_where_its_module_cannot_be_imported(tmp_path: Path) -> None:
    """Airflow loads DAG files under names of its own, which are in ``sys.modules`` of its process only."""
    file = tmp_path / "flights.py"
    file.write_text(DAG_FILE.replace("\n    ", "\n"))
    name = "unusual_prefix_0123_flights"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
        shipped = ShippedFunction.of(module.halved)
    finally:
        del sys.modules[name]
    assert shipped.name == "halved"
    elsewhere = (
        "import sys; from airflow_snowpack.interim.map_reduce.functions import ShippedFunction\n"
        "print(ShippedFunction('halved', sys.stdin.buffer.read()).loaded()({'n': 9}))"
    )
    done = subprocess.run([sys.executable, "-c", elsewhere], input=shipped.pickled, capture_output=True, check=True)
    assert done.stdout.strip() == b"{'n': 4.5}"


def test_a_function_that_cannot_be_sent_is_refused_before_spark_runs() -> None:
    lock = threading.Lock()

    def guarded(row: dict[str, Any]) -> dict[str, Any]:
        with lock:
            return row

    with pytest.raises(UnusableFunction, match=r"The function .*guarded cannot be sent to Spark: TypeError: cannot pickle"):
        ShippedFunction.of(guarded)
    with pytest.raises(UnusableFunction, match="The function str cannot be sent to Spark: it is not callable"):
        ShippedFunction.of("clean")  # type: ignore[arg-type]  # what a careless user gives


def test_functions_have_the_names_that_their_users_know() -> None:
    assert name_of(shorter) == "shorter"
    assert name_of(partial(partial(shorter, by=1), unit="")) == "shorter"
    assert name_of(RowBatches(KINDS)) == "RowBatches"


def risky(row: dict[str, Any]) -> Any:
    return {"n": 1 / row["n"]}


def test_an_error_of_the_function_has_its_place_and_its_row() -> None:
    call = FunctionCall("risky", 3, risky)
    with pytest.raises(FunctionFailed) as failed:
        call({"n": 0, "note": "two\nlines"}, "row 17")
    error = failed.value
    assert str(error) == (
        "The function risky failed in partition 3 at row 17: ZeroDivisionError: division by zero; "
        "its input was {'n': 0, 'note': 'two\\nlines'}"
    )
    assert isinstance(error.__cause__, ZeroDivisionError)
    (note,) = error.__notes__
    assert note.startswith("Traceback (most recent call last):")
    assert "in risky" in note
    assert "function_call" not in note, "only the user's own code"


def test_an_error_comes_back_from_sparks_report_of_it() -> None:
    error = FunctionFailed.at("risky", 3, "row 17", "ValueError: one\n\tline: at most", {"n": "x" * 5000})
    assert "\n" not in str(error)
    assert len(str(error)) < 1000
    raised = f"{type(error).__module__}.FunctionFailed: {error}"
    trace = f"Job aborted due to stage failure: …\nTraceback (most recent call last):\n{raised}"
    noted = f"{trace}\nTraceback (most recent call last):\n  File x\nValueError: one\n\tline: at most"
    java = "\n\n\tat org.apache.spark.api.python.BasePythonRunner…"
    for told, notes in ((trace, 0), (trace + java, 0), (noted, 1), (noted + java, 1)):
        back = function_failure(RuntimeError(told))
        assert [note.endswith("at most") for note in getattr(back, "__notes__", [])] == [True] * notes
        assert isinstance(back, FunctionFailed)
        assert str(back) == str(error)
    wrong = function_failure(RuntimeError(f"{WrongRows.__module__}.WrongRows: {WrongRows.at('layer 1', '3 rows', 2)}"))
    assert isinstance(wrong, WrongRows)
    assert function_failure(RuntimeError("Lost task 0.0")) is None


def test_an_error_is_found_behind_another() -> None:
    error = FunctionFailed.at("risky", 0, "row 1", "ValueError")
    outer = RuntimeError("the write failed")
    outer.__cause__ = error
    assert function_failure(outer) is error


# --- partitions -----------------------------------------------------------------------------------------------------------

ID = pa.schema([("id", pa.int64())])


@pytest.fixture
def task() -> Iterator[None]:
    """Spark's own context of a task on its partition 3."""
    from pyspark import TaskContext

    TaskContext._getOrCreate()._partitionId = 3
    yield
    TaskContext._setTaskContext(None)


def mapped(fn: Callable[[Any], Any]) -> list[int]:
    """Return the ids that become of a partition of two batches."""
    batches = iter(pa.table({"id": range(10)}).to_batches(max_chunksize=5))
    return [row["id"] for batch in map_batches(ShippedFunction.of(fn), ID, batches) for row in batch.to_pylist()]


@pytest.mark.usefixtures("task")
def test_a_batch_of_which_nothing_is_left_ends_no_partition() -> None:
    def even(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch | None]:
        for batch in batches:
            for number in range(batch.num_rows):
                yield batch.slice(number, 1) if batch["id"][number].as_py() % 2 == 0 else None

    assert mapped(even) == [0, 2, 4, 6, 8]


@pytest.mark.usefixtures("task")
@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (lambda batches: (1 / 0 for _ in batches), "in partition 3 at batch 0, after 5 rows: ZeroDivisionError"),
        (lambda batches: 7, "at its start: it returned 7, and not record batches"),
        (lambda batches: [{"id": 1}], "it returned a dict, and not a record batch or a table"),
        (
            lambda batches: (batch.rename_columns(["no"]) for batch in batches),
            "it returned the columns no, and the schema has id",
        ),
        (
            lambda batches: [pa.RecordBatch.from_pydict({"id": [1.5]}) for _ in batches],
            r"its column id cannot become int64: Float value 1\.5.* was truncated",
        ),
    ],
)
def test_an_error_in_a_partition_has_how_far_it_came(fn: Callable[[Any], Any], expected: str) -> None:
    with pytest.raises(FunctionFailed, match=expected):
        mapped(fn)
