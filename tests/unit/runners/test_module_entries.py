"""A function runs in a process of its own: what it receives, returns, raises and logs."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from ran_entries import Ran, call, run_entry, without_this_package

from airflow_snowpack.interim.forms import Form, in_form
from airflow_snowpack.runners import Exchanges, InputTable, Invocation, ModuleEntry, OutputTable
from airflow_snowpack.runners.errors import (
    EntryFailed,
    EntryRaised,
    FunctionNotFound,
    InvalidEntry,
    LibraryMissing,
    ResultMissing,
    UnusableInput,
    UnusableOutputFile,
    UnusableResult,
)

FLIGHTS = pa.table({"carrier": ["UA", None, "AA"], "delay": pa.array([1, None, 3], pa.int64())})
REFERENCE = {"snowpack": "table", "table_id": "t1"}
RETURNS_ITS_ARGUMENTS = "def f(*args, **kwargs):\n    return [list(args), kwargs]"


def test_arguments_arrive_and_a_result_returns(tmp_path: Path) -> None:
    ran = call(tmp_path, RETURNS_ITS_ARGUMENTS, 1, 'it\'s "ü"\n$HOME', ("a", None), REFERENCE, rate=0.5)
    assert ran.value() == [[1, 'it\'s "ü"\n$HOME', ("a", None), REFERENCE], {"rate": 0.5}]


def test_an_installed_function_runs_with_what_the_task_can_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_scoring.py").write_text("class Model:\n    @staticmethod\n    def score(n): return n + 1")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert run_entry(tmp_path, ModuleEntry("acme_scoring:Model.score"), [1]).value() == 2


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        ("acme_nothing.scoring:score", "there is no module 'acme_nothing'"),
        ("os.nothing:score", "there is no module 'os.nothing'"),
        ("os.path:nothing", "the module 'os.path' has no 'nothing'"),
        ("os:name", "'name' in the module 'os' is a str, which cannot be called"),
    ],
)
def test_a_function_that_does_not_exist_is_reported_by_name(tmp_path: Path, function: str, problem: str) -> None:
    with pytest.raises(FunctionNotFound, match=problem):
        run_entry(tmp_path, ModuleEntry(function)).result()


def test_a_module_that_lacks_one_of_its_own_imports_is_not_missing_itself(tmp_path: Path) -> None:
    ran = call(tmp_path, "import acme_nothing\ndef f(): ...")
    with pytest.raises(EntryRaised, match="ModuleNotFoundError: No module named 'acme_nothing'"):
        ran.result()


def test_an_error_is_raised_with_its_class_and_text_and_logged_with_the_users_traceback(tmp_path: Path) -> None:
    ran = call(tmp_path, "class Broken(Exception): ...\ndef f():\n    raise Broken('it broke')")
    with pytest.raises(EntryRaised, match=r"'f' raised snowpack_task_function\.Broken: it broke") as raised:
        ran.result()
    assert (raised.value.error_class, raised.value.error_text) == ("snowpack_task_function.Broken", "it broke")
    [traceback] = ran.texts(logging.ERROR)
    assert traceback.splitlines()[2:] == ["    raise Broken('it broke')", "snowpack_task_function.Broken: it broke"]
    assert "entry_process" not in traceback


def test_an_error_whose_text_is_not_unicode_is_reported(tmp_path: Path) -> None:
    ran = call(tmp_path, "def f():\n    raise ValueError('file \\udcff')")
    with pytest.raises(EntryRaised) as raised:
        ran.result()
    assert raised.value.error_text == r"file \udcff"
    assert "\n".join(ran.texts()).encode().endswith(b"ValueError: file ?")


def test_the_traceback_of_a_module_that_cannot_be_imported_begins_in_it(tmp_path: Path) -> None:
    ran = call(tmp_path, "def f(): ...\n1 / 0")
    with pytest.raises(EntryRaised, match="ZeroDivisionError: division by zero"):
        ran.result()
    [traceback] = ran.texts(logging.ERROR)
    assert traceback.splitlines()[1].endswith('snowpack_task_function.py", line 2, in <module>')


def test_processes_that_a_function_starts_can_import_it(tmp_path: Path) -> None:
    source = """
import multiprocessing
def square(n):
    return n * n
def f():
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        return pool.map(square, [1, 2, 3])
"""
    assert call(tmp_path, source).value() == [1, 4, 9]


def test_arguments_that_do_not_fit_are_the_functions_own_error(tmp_path: Path) -> None:
    with pytest.raises(EntryRaised, match=r"TypeError: f\(\) missing 1 required positional argument: 'n'"):
        call(tmp_path, "def f(n): ...").result()


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("import sys; sys.exit(3)", EntryFailed),
        ("import os; os._exit(3)", EntryFailed),
        ("import os; os.kill(os.getpid(), 11)", EntryFailed),
        ("import sys; sys.exit(0)", ResultMissing),
        ("import os; os._exit(0)", ResultMissing),
        ("raise KeyboardInterrupt", EntryFailed),
    ],
)
def test_a_function_that_ends_the_process_has_no_result(tmp_path: Path, body: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        call(tmp_path, f"def f():\n    {body}").result()


def test_an_error_at_the_exit_of_the_process_is_a_failure_although_there_is_a_result(tmp_path: Path) -> None:
    ran = call(tmp_path, "import atexit, os\ndef f():\n    atexit.register(os._exit, 7)\n    return 1")
    with pytest.raises(EntryFailed, match="exit code 7"):
        ran.result()


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("import threading; return {'a': [threading.Lock()]}", r"result\['a'\]\[0\] is of type _thread.lock"),
        ("return {1, 2}", "result is of type set"),
        ("yield 1", "result is of type generator"),
        ("a = []; a.append(a); return a", "contains itself"),
        ("import pandas; return pandas.Series([1])", "this Series cannot become a table of Arrow"),
        ("import pandas; return pandas.DataFrame({'a': [1, 'x']})", "result cannot become a table.*the column a"),
        ("import pandas; return [pandas.DataFrame({1: [1]})]", r"result\[0\] cannot become a table.*column 1 is not text"),
        ("import polars; return polars.DataFrame({'a': [object()]})", "result cannot become a table"),
    ],
)
def test_a_result_that_cannot_be_passed_on_names_its_type(tmp_path: Path, body: str, problem: str) -> None:
    ran = call(tmp_path, f"def f():\n    {body}")
    with pytest.raises(UnusableResult, match=problem):
        ran.result()
    assert ran.code == 1


def test_records_of_logging_keep_their_level_and_prints_that_of_their_stream(tmp_path: Path) -> None:
    source = """
import logging, sys, warnings
def f():
    print("out")
    print("err", file=sys.stderr)
    logging.getLogger("acme.model").warning("two\\nlines: %s", "ü")
    logging.info("info")
    logging.debug("not at this level")
    warnings.warn("old")
    try:
        1 / 0
    except ZeroDivisionError:
        logging.exception("caught")
"""
    ran = call(tmp_path, source)
    assert ran.value() is None
    found = {(line.level, line.logger, line.text.splitlines()[0]) for line in ran.lines}
    assert found >= {
        (20, None, "out"),
        (40, None, "err"),
        (30, "acme.model", "two"),
        (20, "root", "info"),
        (40, "root", "caught"),
    }
    assert any(line.level == logging.WARNING and line.logger == "py.warnings" and "old" in line.text for line in ran.lines)
    assert any("ZeroDivisionError" in text for text in ran.texts(logging.ERROR))
    assert "not at this level" not in ran.texts()


def test_the_level_of_the_log_is_a_variable(tmp_path: Path) -> None:
    entry = ModuleEntry("f", source="import logging\ndef f():\n    logging.debug('detail')\n    logging.info('more')")
    assert run_entry(tmp_path, entry, command_env={"SNOWPACK_LOG_LEVEL": "debug"}).texts() == ["detail", "more"]
    assert run_entry(tmp_path, entry, command_env={"SNOWPACK_LOG_LEVEL": "WARNING"}).texts() == []
    assert run_entry(tmp_path, entry, command_env={"SNOWPACK_LOG_LEVEL": "loud"}).texts()[0].startswith("SNOWPACK_LOG_LEVEL")


def test_a_record_is_written_whole_or_cut_and_keeps_its_level(tmp_path: Path) -> None:
    ran = call(tmp_path, "import logging\ndef f():\n    logging.warning('ü' * 500_000)\n    logging.warning('after')")
    cut, after = ran.lines
    assert (cut.level, after.text) == (logging.WARNING, "after")
    assert cut.text.endswith("ü… (cut)")


def test_a_function_that_prints_the_mark_cannot_break_its_log(tmp_path: Path) -> None:
    source = """
import json, logging, sys
def f():
    mark = json.load(open("call.json"))["mark"]
    print(mark + "{broken", file=sys.stderr)
    print(mark + '{"level": "high", "text": "x", "logger": "y"}', file=sys.stderr)
    logging.warning("after")
"""
    ran = call(tmp_path, source)
    assert ran.value() is None
    assert [line.level for line in ran.lines] == [logging.ERROR, logging.ERROR, logging.WARNING]


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


def test_frames_of_pandas_make_the_round_trip_that_a_task_makes(tmp_path: Path) -> None:
    source = "import pandas as pd\ndef f(flights: pd.DataFrame):\n"
    source += "    assert flights['delay'].dtype == 'Int64'\n    return flights.describe()"
    ran = call(tmp_path, source, InputTable("flights"), inputs={"flights": FLIGHTS})
    assert ran.value() == OutputTable("table-0")
    expected = in_form(FLIGHTS, Form.PANDAS).describe().reset_index()
    pd.testing.assert_frame_equal(in_form(ran.output("table-0"), Form.PANDAS), expected, check_dtype=False)


def test_an_environment_with_libraries_and_without_this_package_is_enough(tmp_path: Path) -> None:
    source = """
import sys
import pandas as pd
def f(flights: pd.DataFrame):
    try:
        import airflow_snowpack
    except ModuleNotFoundError:
        return {"flights": flights, "loaded": sorted(name for name in sys.modules if name.startswith("airflow"))}
"""
    ran = run_entry(
        tmp_path,
        ModuleEntry("f", source=source),
        [InputTable("flights")],
        inputs={"flights": FLIGHTS},
        change=lambda invocation: without_package_path(without_this_package(invocation)),
    )
    assert ran.value() == {"flights": OutputTable("table-0"), "loaded": []}
    assert ran.output("table-0").to_pylist() == FLIGHTS.to_pylist()


def without_package_path(invocation: Invocation) -> Invocation:
    """Take the task's own modules out of the call, as an isolated runner does."""
    path = invocation.folder / "call.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"path": []}))
    return invocation


def bare(invocation: Invocation) -> Invocation:
    """An environment with nothing but Python."""
    return without_package_path(replace(invocation, argv=(invocation.argv[0], "-S", "-I", *invocation.argv[1:])))


def test_python_alone_runs_a_function_without_tables(tmp_path: Path) -> None:
    entry = ModuleEntry("f", source="import logging\ndef f(n):\n    logging.warning('plain')\n    return {'n': n}")
    ran = run_entry(tmp_path, entry, [(1, 2)], change=bare)
    assert ran.value() == {"n": (1, 2)}
    assert ran.texts(logging.WARNING) == ["plain"]


def test_an_image_without_pyarrow_is_named_as_the_problem(tmp_path: Path) -> None:
    entry = ModuleEntry("f", source="def f(flights): ...")
    with pytest.raises(LibraryMissing, match="pyarrow, which receives and returns tables, cannot be imported"):
        run_entry(tmp_path, entry, [InputTable("flights")], inputs={"flights": FLIGHTS}, change=bare).result()


def test_an_isolated_entry_can_import_what_is_in_the_working_directory_of_its_image(tmp_path: Path) -> None:
    exchange = Exchanges(tmp_path / "exchange").begin("dag/run/task/-1", "attempt")
    exchange.write_call(ModuleEntry("acme:f"), command_env={"TOKEN": "secret"})
    invocation = exchange.invocation(isolated=True, inside="/snowpack")
    assert invocation.argv == ("python", "/snowpack/entry_process.pyz", "/snowpack")
    assert dict(invocation.environment) == {"TOKEN": "secret"}
    assert exchange.invocation(isolated=True, inside="/snowpack", python="python3.12").argv[0] == "python3.12"
    assert json.loads((exchange.folder / "call.json").read_text())["path"] == []
    assert all(b"secret" not in path.read_bytes() for path in exchange.folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("args", "kwargs", "problem"),
    [
        ([object()], {}, "the argument number 1 is of type object"),
        ([], {"rows": [{"a": {1}}]}, r"the argument rows\[0\]\['a'\] is of type set"),
        ([FLIGHTS], {}, "the argument number 1 is of type pyarrow.lib.Table"),
    ],
)
def test_an_argument_that_cannot_be_sent_is_refused_by_its_place(
    tmp_path: Path, args: list[Any], kwargs: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UnusableInput, match=problem):
        run_entry(tmp_path, ModuleEntry("os:getcwd"), args, kwargs)


def test_an_input_that_was_not_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidEntry, match="this input was not written"):
        run_entry(tmp_path, ModuleEntry("os:getcwd"), [InputTable("flights")])


DAMAGES: dict[str, Any] = {
    "is cut off": '{"value": ',
    "is a list": "[]",
    "has no outputs": '{"value": 1}',
    "has an unknown tag": '{"value": {"$snowpack": "pickle"}, "outputs": []}',
    "has an unknown error": '{"error": "other"}',
    "is not text": b"\xff",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_result_is_reported_as_such(tmp_path: Path, damage: str) -> None:
    ran = call(tmp_path, "def f(): return 1")
    content = DAMAGES[damage]
    (ran.exchange.folder / "result.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ResultMissing, match="is damaged"):
        ran.result()


def test_a_result_through_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text('{"value": "secret", "outputs": []}')
    ran = call(tmp_path, "def f(): return 1")
    (ran.exchange.folder / "result.json").unlink()
    (ran.exchange.folder / "result.json").symlink_to(tmp_path / "secret.json")
    with pytest.raises(ResultMissing):
        ran.result()


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd"])
def test_an_output_outside_of_the_folder_is_not_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.arrow").write_text("secret")
    ran: Ran = call(tmp_path, "def f(): return 1")
    (ran.exchange.folder / "result.json").write_text(json.dumps({"value": None, "outputs": [name]}))
    with pytest.raises(UnusableOutputFile):
        ran.result()
