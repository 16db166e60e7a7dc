"""Tables on their way into a function and back: which form they arrive in, and that every type returns as it was written."""

from __future__ import annotations

import struct
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from ran_entries import call

from airflow_snowpack.interim.forms import Form, in_form
from airflow_snowpack.runners import InputTable, OutputTable
from airflow_snowpack.runners.errors import (
    EntryRaised,
    LibraryMissing,
    UnusableInput,
    UnusableOutputFile,
)

FLIGHTS = pa.table({"carrier": ["UA", None, "AA"], "delay": pa.array([1, None, 3], pa.int64())})
REFERENCE = {"snowpack": "table", "table_id": "t1"}
FRAMES = {
    "pa.Table": Form.ARROW,
    "pa.RecordBatchReader": Form.READER,
    "pd.DataFrame": Form.PANDAS,
    "pl.DataFrame": Form.POLARS,
    "pl.LazyFrame": Form.LAZY,
}
NAMES = ["a", "b", "c", "d", "e"]
CLASSES = ["Table", "RecordBatchReader", "DataFrame", "DataFrame", "LazyFrame"]


@pytest.mark.parametrize("quoted", [False, True])
def test_a_table_arrives_as_its_parameter_is_annotated_and_returns(tmp_path: Path, quoted: bool) -> None:
    parameters = ", ".join(f"{name}: {annotation}" for name, annotation in zip(NAMES, FRAMES, strict=True))
    source = "from __future__ import annotations\n" if quoted else ""
    source += "import pandas as pd\nimport polars as pl\nimport pyarrow as pa\n"
    source += f"def f({parameters}):\n    return [(type(each).__name__, each) for each in ({', '.join(NAMES)})]"
    ran = call(
        tmp_path,
        source,
        *[InputTable("flights")] * 3,
        d=InputTable("flights"),
        e=InputTable("flights"),
        inputs={"flights": FLIGHTS},
    )
    assert ran.value() == [(name, OutputTable(f"table-{place}")) for place, name in enumerate(CLASSES)]
    assert [ran.output(f"table-{place}").to_pylist() for place in range(5)] == [FLIGHTS.to_pylist()] * 5


def test_the_task_may_name_the_form_itself(tmp_path: Path) -> None:
    tables = [InputTable("flights", form.value) for form in FRAMES.values()]
    source = "def f(*tables):\n    return [type(each).__name__ for each in tables]"
    assert call(tmp_path, source, *tables, InputTable("flights"), inputs={"flights": FLIGHTS}).value() == [*CLASSES, "Table"]


def test_a_parameter_for_a_reference_receives_it_and_returns_it(tmp_path: Path) -> None:
    source = "def f(flights: 'TableRef', others: 'list[TableRef]'):\n    return {'first': flights, 'others': others}"
    table = InputTable("flights", reference=REFERENCE)
    ran = call(tmp_path, source, table, others=[table, table], inputs={"flights": FLIGHTS})
    assert ran.value() == {"first": REFERENCE, "others": [REFERENCE, REFERENCE]}
    assert ran.result().outputs == ()


def test_a_table_that_is_returned_as_it_arrived_is_its_reference(tmp_path: Path) -> None:
    source = "def f(a, b):\n    return [a, b, a.slice(1)]"
    tables = [InputTable("flights", reference=REFERENCE), InputTable("flights")]
    ran = call(tmp_path, source, *tables, inputs={"flights": FLIGHTS})
    assert ran.value() == [REFERENCE, OutputTable("table-0"), OutputTable("table-1")]
    assert ran.output("table-1").num_rows == 2


def test_tables_are_found_at_any_depth_both_ways(tmp_path: Path) -> None:
    source = "import pyarrow as pa\ndef f(tables):\n    return {'n': [(t.slice(n), n) for n, t in enumerate(tables['all'])]}"
    tables = {"all": [InputTable("flights"), InputTable("flights")]}
    ran = call(tmp_path, source, tables, inputs={"flights": FLIGHTS})
    assert ran.value() == {"n": [(OutputTable("table-0"), 0), (OutputTable("table-1"), 1)]}
    assert [ran.output(name).num_rows for name in ran.result().outputs] == [3, 2]


def test_a_frame_that_the_form_cannot_represent_is_refused_before_the_function_runs(tmp_path: Path) -> None:
    rows = pa.table({"map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), "day": pa.array([2**31 - 1], pa.date32())})
    with pytest.raises(UnusableInput, match="the input 'flights': These rows cannot be converted"):
        call(tmp_path, "def f(flights): ...", InputTable("flights", "pandas.DataFrame"), inputs={"flights": rows}).result()


def test_an_annotation_of_an_unknown_library_is_refused_by_name(tmp_path: Path) -> None:
    source = "def f(flights: 'vaex.DataFrame'): ..."
    with pytest.raises(UnusableInput, match=r"annotated 'vaex\.DataFrame'"):
        call(tmp_path, source, InputTable("flights"), inputs={"flights": FLIGHTS}).result()


def test_a_reader_passes_through_a_function_without_being_in_memory_as_a_whole(tmp_path: Path) -> None:
    source = """
import pyarrow as pa
def f(numbers: pa.RecordBatchReader):
    before, most = pa.total_allocated_bytes(), []
    def doubled():
        for batch in numbers:
            most.append(pa.total_allocated_bytes() - before)
            yield pa.record_batch([pa.compute.multiply(batch["n"], 2)], schema=numbers.schema)
        assert max(most) < 12_000_000, most  # of 32 MB
    return pa.RecordBatchReader.from_batches(numbers.schema, doubled())
"""
    source = source.replace("import pyarrow as pa", "import pyarrow as pa\nimport pyarrow.compute")
    numbers = pa.table({"n": pa.array(range(4_000_000), pa.int64())})
    ran = call(tmp_path, source, InputTable("numbers"), inputs={"numbers": numbers})
    assert ran.value() == OutputTable("table-0")
    assert ran.output("table-0")["n"][-1].as_py() == 7_999_998


def test_a_reader_that_is_returned_twice_has_its_rows_both_times(tmp_path: Path) -> None:
    source = "import pyarrow as pa\ndef f():\n    reader = pa.table({'n': [1, 2]}).to_reader()\n    return [reader, reader]"
    ran = call(tmp_path, source)
    assert ran.value() == [OutputTable("table-0"), OutputTable("table-0")]
    assert [ran.output("table-0").num_rows for _ in range(2)] == [2, 2]


def test_a_table_without_rows_passes_through_a_function_as_a_reader(tmp_path: Path) -> None:
    ran = call(
        tmp_path, "def f(a: 'pa.RecordBatchReader'):\n    return a", InputTable("flights"), inputs={"flights": FLIGHTS[:0]}
    )
    assert ran.value() == OutputTable("table-0")
    assert ran.output("table-0").equals(FLIGHTS[:0])


def test_an_error_in_the_rows_of_a_returned_reader_is_the_functions_own(tmp_path: Path) -> None:
    source = """
import pyarrow as pa
def f():
    schema = pa.schema([("n", pa.int64())])
    def rows():
        yield pa.record_batch([pa.array([1])], schema=schema)
        raise ValueError("no more")
    return pa.RecordBatchReader.from_batches(schema, rows())
"""
    with pytest.raises(EntryRaised, match="ValueError: no more"):
        call(tmp_path, source).result()


def test_an_image_without_the_library_of_an_annotation_is_named_as_the_problem(tmp_path: Path) -> None:
    source = "import sys\nsys.modules['pandas'] = None\ndef f(flights): ..."
    with pytest.raises(LibraryMissing, match=r"pandas\.DataFrame, which the function receives, cannot be imported"):
        call(tmp_path, source, InputTable("flights", "pandas.DataFrame"), inputs={"flights": FLIGHTS}).result()


# What a function may return, as source; each arrives with its types, which the handover then gives Iceberg's types or refuses.
RETURNED = [
    "pa.table({'a': pa.array([1], pa.timestamp('s'))})",
    "pa.table({'a': pa.array([1], pa.timestamp('ns', 'Europe/Berlin'))})",
    "pa.table({'a': pa.array([1], pa.time32('s')), 'b': pa.array([1], pa.duration('s'))})",
    "pa.table({'a': pa.array([86400000], pa.date64())})",
    "pa.table({'a': pa.array(['x', None]).dictionary_encode(), 'b': pa.array([b'xy', None], pa.binary(2))})",
    "pa.table({'a': pa.array([{'b': 1}, None], pa.struct([pa.field('b', pa.int8(), nullable=False)]))})",
    "pa.table({'a': pa.array([[('k', None)], None, []], pa.map_(pa.string(), pa.list_(pa.float16())))})",
    "pa.table({'a': pa.array([{}, None], pa.struct([]))})",
    "pa.table({'a': pa.nulls(2), 'b': pa.array(['x', None], pa.string_view())})",
    "pa.table({'a': pa.array([b'0123456789abcdef'], pa.uuid())})",
    "pa.table({'a': pa.chunked_array([[1], [], [2, None]])})",
    "pa.table({'a': pa.array([], pa.large_string())})",
    "pa.table({'a': pa.array([1, 1, 2]).cast(pa.int64())}).slice(1, 1)",
    "pa.RecordBatch.from_pydict({'a': [1, 2]})",
]


def test_every_type_of_arrow_returns_as_it_was_written(tmp_path: Path) -> None:
    ran = call(tmp_path, f"import pyarrow as pa\ndef f():\n    return [{', '.join(RETURNED)}]")
    assert ran.value() == [OutputTable(f"table-{place}") for place in range(len(RETURNED))]
    for place, returned in enumerate(RETURNED):
        expected, rows = eval(returned, {"pa": pa}), ran.output(f"table-{place}")
        assert rows.schema.equals(expected.schema), returned
        assert rows.to_pylist() == expected.to_pylist(), returned


def test_an_extension_type_that_only_the_entry_knows_is_refused(tmp_path: Path) -> None:
    source = """
import pyarrow as pa
class Point(pa.ExtensionType):
    def __init__(self): super().__init__(pa.int64(), "acme.point")
    def __arrow_ext_serialize__(self): return b""
    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized): return cls()
def f():
    return pa.table({"p": pa.ExtensionArray.from_storage(Point(), pa.array([1]))})
"""
    ran = call(tmp_path, source)
    assert ran.value() == OutputTable("table-0")
    with pytest.raises(UnusableOutputFile, match="the type of the column p is an extension of Arrow"):
        ran.output("table-0")


def test_rows_that_point_into_other_memory_of_the_task_are_refused(tmp_path: Path) -> None:
    source = "import pyarrow as pa\ndef f():\n    return pa.table({'b': pa.array([b'abcd'] * 3)})"
    ran = call(tmp_path, source)
    assert ran.value() == OutputTable("table-0")
    stream = ran.exchange.folder / "outputs" / "table-0.arrow"
    offsets, beyond = (struct.pack("<4i", 0, 4, 8, end) for end in (12, 400))
    assert stream.read_bytes().count(offsets) == 1
    stream.write_bytes(stream.read_bytes().replace(offsets, beyond))
    with pytest.raises(UnusableOutputFile, match=r"table-0\.arrow cannot be used"):
        ran.output("table-0")


def test_frames_of_pandas_make_the_round_trip_that_a_task_makes(tmp_path: Path) -> None:
    source = "import pandas as pd\ndef f(flights: pd.DataFrame):\n"
    source += "    assert flights['delay'].dtype == 'Int64'\n    return flights.describe()"
    ran = call(tmp_path, source, InputTable("flights"), inputs={"flights": FLIGHTS})
    assert ran.value() == OutputTable("table-0")
    expected = in_form(FLIGHTS, Form.PANDAS).describe().reset_index()
    pd.testing.assert_frame_equal(in_form(ran.output("table-0"), Form.PANDAS), expected, check_dtype=False)
