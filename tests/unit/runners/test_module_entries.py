"""A function runs in a process of its own: what it receives, returns, raises and logs."""

from __future__ import annotations

import json
import logging
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from ran_entries import Ran, call, run_entry, without_this_package

from airflow_snowpack.runners import Exchanges, InputTable, Invocation, ModuleEntry, OutputTable, SubprocessRunner
from airflow_snowpack.runners.errors import (
    EntryFailed,
    EntryNotStarted,
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
        ("import pyarrow; r = pyarrow.table({'n': [1]}).to_reader(); r.read_all(); return r", "it was already read to its end"),
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
    with Exchanges(tmp_path / "exchange").begin("dag/run/task/-1", "attempt") as exchange:
        exchange.write_call(ModuleEntry("acme:f"), command_env={"TOKEN": "secret"})
        invocation = exchange.invocation(isolated=True, inside="/snowpack")
        assert invocation.argv == ("python3", "/snowpack/entry_process.pyz", "/snowpack")
        assert dict(invocation.environment) == {"TOKEN": "secret"}
        assert exchange.invocation(isolated=True, inside="/snowpack", python="python3.12").argv[0] == "python3.12"
        assert json.loads((exchange.folder / "call.json").read_text())["path"] == []
        assert all(b"secret" not in path.read_bytes() for path in exchange.folder.rglob("*") if path.is_file())


def test_an_image_without_python3_is_reported_with_what_to_pass(tmp_path: Path) -> None:
    with Exchanges(tmp_path / "exchange").begin("dag/run/task/-1", "attempt") as exchange:
        exchange.write_call(ModuleEntry("os:getcwd"), command_env={"PATH": str(tmp_path)})
        with pytest.raises(EntryNotStarted, match=r"'python3' could not be started: .* Pass the path of the image's interpreter"):
            SubprocessRunner().run(exchange.invocation(isolated=True, inside=str(exchange.folder)), print)


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
    "has an error that is a list": '{"error": ["raised"]}',
    "is nested too deeply": "[" * 200_000,
    "has a number that is none": '{"value": {"$snowpack": "decimal", "text": "x"}, "outputs": []}',
    "has a time beyond all times": '{"value": {"$snowpack": "timedelta", "parts": [1e300, 0, 0]}, "outputs": []}',
    "has a table that is no output": '{"value": {"$snowpack": "output", "name": "t"}, "outputs": []}',
}


def test_a_result_that_is_damaged_or_too_large_or_names_what_is_outside_of_the_folder_is_refused(tmp_path: Path) -> None:
    ran: Ran = call(tmp_path, "def f(): return 1")
    result = ran.exchange.folder / "result.json"
    for content in DAMAGES.values():
        result.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(ResultMissing, match="is damaged"):
            ran.result()

    (tmp_path / "secret.arrow").write_text("secret")
    for name in ("../../secret", "/etc/passwd"):
        result.write_text(json.dumps({"value": None, "outputs": [name]}))
        with pytest.raises(UnusableOutputFile):
            ran.result()

    with open(result, "wb") as file:
        file.truncate(10 * 1024**3)  # without a block on disk
    with pytest.raises(UnusableResult, match=r"its JSON is larger than 64\.0 MiB"):
        ran.result()


def test_the_text_of_an_error_can_be_logged_whatever_an_entry_writes(tmp_path: Path) -> None:
    ran = call(tmp_path, "def f(): raise ValueError")
    (ran.exchange.folder / "result.json").write_text('{"error": "raised", "class": "\\udcff", "text": "' + "\\ud800" * 10 + '"}')
    with pytest.raises(EntryRaised) as raised:
        ran.result()
    assert str(raised.value).encode()


def made_device(path: Path) -> None:
    """Make what ``/dev/zero`` is, as the root user of a container may do in the folder."""
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))


def test_a_result_that_is_not_a_file_or_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text('{"value": "secret", "outputs": []}')
    ran = call(tmp_path, "def f(): return 1")
    result = ran.exchange.folder / "result.json"
    links = [lambda path: path.symlink_to(tmp_path / "secret.json")]
    for make in (*links, os.mkfifo, *([made_device] if os.geteuid() == 0 else []), Path.mkdir):
        result.unlink()
        make(result)
        with pytest.raises(ResultMissing):
            ran.result()
