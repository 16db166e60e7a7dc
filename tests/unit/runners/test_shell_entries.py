"""A command runs without a shell: what it receives, how it ends, and what counts as its output."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from ran_entries import Ran, run_entry

from airflow_snowpack.runners import Exchange, Exchanges, OutputTable, ShellEntry, SubprocessRunner
from airflow_snowpack.runners.errors import (
    EntryCancelled,
    EntryFailed,
    EntryNotStarted,
    InvalidEntry,
    OutputMissing,
    UnusableOutputFile,
)

FLIGHTS = pa.table({"carrier": ["UA", None, "AA"], "delay": pa.array([1, None, 3], pa.int64())})


@pytest.fixture
def exchange(tmp_path: Path) -> Iterator[Exchange]:
    with Exchanges(tmp_path).begin("task", "attempt") as begun:
        yield begun


def python(root: Path, code: str, *args: str, **more: Any) -> Ran:
    return run_entry(root, ShellEntry((sys.executable, "-S", "-c", code, *args)), **more)


def test_arguments_arrive_as_they_were_written(tmp_path: Path) -> None:
    args = [
        "a b",
        "it's",
        '"quoted"',
        "two\nlines",
        "$HOME `id` $(id) ; rm -rf / | & > x",
        "*",
        "~",
        "Grüße 日本",
        "",
        "--",
        "{x}",
    ]
    [line] = python(tmp_path, "import sys; print(ascii(sys.argv[1:]))", *args).texts()
    assert line == ascii(args)
    assert not (tmp_path / "x").exists()


def test_a_program_is_found_by_its_path_or_on_the_path_of_the_entry(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "my score"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o755)
    assert run_entry(tmp_path / "1", ShellEntry((str(program),))).texts() == ["found"]
    path = {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    assert run_entry(tmp_path / "2", ShellEntry(("my score",)), command_env=path).texts() == ["found"]


PROGRAMS: dict[str, tuple[str | None, int, str]] = {
    "does not exist": (None, 0o755, "there is no such program"),
    "is not executable": ("#!/bin/sh\n", 0o644, "it is not executable"),
    "has no interpreter": ("#!/nowhere/sh\n", 0o755, "the interpreter in its first line does not exist"),
    "is text": ("echo hello\n", 0o755, "a script without #! in its first line"),
}


@pytest.mark.parametrize("problem", PROGRAMS)
def test_a_program_that_cannot_start_is_reported_with_the_reason(tmp_path: Path, problem: str) -> None:
    content, mode, reason = PROGRAMS[problem]
    program = tmp_path / "score"
    if content is not None:
        program.write_text(content)
        program.chmod(mode)
    with pytest.raises(EntryNotStarted, match=reason) as refused:
        run_entry(tmp_path, ShellEntry((str(program),)))
    assert str(program) in str(refused.value)


def test_an_argument_that_the_system_cannot_pass_is_reported(tmp_path: Path) -> None:
    with pytest.raises(EntryNotStarted, match="Argument list too long"):
        run_entry(tmp_path, ShellEntry(("echo", "x" * 10_000_000)))


@pytest.mark.parametrize(("code", "expected"), [("sys.exit(0)", 0), ("sys.exit(3)", 3), ("sys.exit(255)", 255)])
def test_the_exit_code_is_that_of_the_program(tmp_path: Path, code: str, expected: int) -> None:
    ran = python(tmp_path, f"import sys; {code}")
    assert ran.code == expected
    if expected:
        with pytest.raises(EntryFailed, match=f"with exit code {expected}"):
            ran.result()
    else:
        assert ran.value() is None


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGSEGV", "SIGTERM"])
def test_an_end_by_a_signal_is_named(tmp_path: Path, signal: str) -> None:
    ran = python(tmp_path, f"import os, signal; os.kill(os.getpid(), signal.{signal})")
    assert ran.code < 0
    with pytest.raises(EntryFailed, match=f"by the signal {signal}"):
        ran.result()


def test_standard_input_is_empty_and_the_folder_is_the_working_directory(tmp_path: Path) -> None:
    ran = python(tmp_path, "import os, sys; print(repr(sys.stdin.read()), os.getcwd(), sorted(os.listdir('.')))")
    assert ran.texts() == [f"'' {ran.exchange.folder} ['in_use', 'inputs', 'outputs']"]


def test_no_file_of_the_task_is_open_in_the_entry(tmp_path: Path) -> None:
    with open(tmp_path / "token", "w") as secret:
        os.set_inheritable(secret.fileno(), True)
        ran = python(tmp_path, "import os; print(sorted(int(fd) for fd in os.listdir('/proc/self/fd')))")
    assert ran.texts() == ["[0, 1, 2, 3]"]  # 3 is the folder that it lists


def test_the_environment_is_the_workers_with_command_env_on_top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_WORKER", "kept")
    monkeypatch.setenv("REGION", "us")
    code = "import os; print(os.environ['OF_THE_WORKER'], os.environ['REGION'], os.environ['TOKEN'])"
    ran = python(tmp_path, code, command_env={"REGION": "eu", "TOKEN": "it's\n$a secret"})
    assert ran.texts() == ["kept eu it's", "$a secret"]


def test_a_secret_is_on_no_command_line_and_in_no_file(tmp_path: Path) -> None:
    code = """
import os
from pathlib import Path
pid, found = os.getpid(), []
while pid > 1:  # up to the processes of the task
    found.append(b"s3cr" + b"3t" in Path(f"/proc/{pid}/cmdline").read_bytes())
    pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
print(any(found), len(found) > 3, os.environ["TOKEN"] == "s3cr" + "3t")
"""
    ran = python(tmp_path, code, command_env={"TOKEN": "s3cr3t"})
    assert ran.texts() == ["False True True"]
    assert all(b"s3cr3t" not in path.read_bytes() for path in ran.exchange.folder.rglob("*") if path.is_file())


def test_ten_megabytes_of_output_arrive_line_by_line(tmp_path: Path) -> None:
    code = "import sys\nfor n in range(100_000):\n    print(f'{n:099}')\n    n % 10_000 or print('e', file=sys.stderr)"
    ran = python(tmp_path, code)
    assert ran.code == 0
    assert [int(text) for text in ran.texts(logging.INFO)] == list(range(100_000))
    assert len(ran.texts(logging.ERROR)) == 10


def test_binary_output_and_a_line_without_end_do_not_disturb(tmp_path: Path) -> None:
    ran = python(tmp_path, "import os, sys; sys.stdout.buffer.write(bytes(range(256)) * 4096); print('x' * 10_000_000, end='')")
    assert ran.code == 0
    assert all(len(text) < 70_000 for text in ran.texts())
    assert ran.texts()[-1].endswith("more bytes in this line)")


def test_lines_arrive_while_the_entry_runs(exchange: Exchange) -> None:
    """The entry waits for a file that is made when its first line arrives."""
    code = "import os, time\nprint('first', flush=True)\nwhile not os.path.exists('seen'): time.sleep(0.01)\nprint('last')"
    exchange.write_call(ShellEntry((sys.executable, "-S", "-c", code)))
    texts: list[str] = []

    def on_line(line: Any) -> None:
        texts.append(line.text)
        (exchange.folder / "seen").touch()

    assert SubprocessRunner().run(exchange.invocation(isolated=False, inside=None), on_line) == 0
    assert texts == ["first", "last"]


def test_an_entry_that_closes_its_output_is_awaited(tmp_path: Path) -> None:
    code = "import os, time\nprint('last', flush=True)\nos.close(1)\nos.close(2)\ntime.sleep(0.2)\nos._exit(5)"
    ran = python(tmp_path, code)
    assert (ran.code, ran.texts()) == (5, ["last"])


def test_an_error_while_a_line_is_logged_ends_the_entry(exchange: Exchange) -> None:
    code = "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(1000)"
    exchange.write_call(ShellEntry((sys.executable, "-S", "-c", code)))
    pids: list[int] = []

    def on_line(line: Any) -> None:
        pids.append(int(line.text))
        raise OSError("the disk of the log is full")

    with pytest.raises(OSError, match="the disk of the log is full"):
        SubprocessRunner().run(exchange.invocation(isolated=False, inside=None), on_line)
    assert not Path(f"/proc/{pids[0]}").exists()


def test_a_stopped_runner_starts_nothing(exchange: Exchange) -> None:
    exchange.write_call(ShellEntry(("touch", "started")))
    runner = SubprocessRunner()
    runner.stop()
    runner.stop()
    with pytest.raises(EntryCancelled):
        runner.run(exchange.invocation(isolated=False, inside=None), print)
    assert not (exchange.folder / "started").exists()


# -- inputs and outputs -----------------------------------------------------------------------------------------------------


COPY = """
import pathlib, shutil, sys
for source, target in zip(sys.argv[1::2], sys.argv[2::2]):
    pathlib.Path(target).parent.mkdir(exist_ok=True)
    shutil.copy(source, target)
"""


def copied(root: Path, *targets: str, outputs: tuple[str, ...], rows: pa.Table = FLIGHTS) -> Ran:
    """Run a command that copies its input to these places below {outputs}."""
    pairs = [each for target in targets for each in ("{inputs}/flights/part-0.parquet", f"{{outputs}}/{target}")]
    entry = ShellEntry((sys.executable, "-S", "-c", COPY, *pairs), outputs=outputs)
    return run_entry(root, entry, inputs={"flights": rows})


@pytest.mark.parametrize("rows", [FLIGHTS, FLIGHTS.slice(0, 0)], ids=["rows", "empty"])
def test_one_output_is_the_result_itself(tmp_path: Path, rows: pa.Table) -> None:
    ran = copied(tmp_path, "scored.parquet", outputs=("scored",), rows=rows)
    assert ran.value() == OutputTable("scored")
    assert ran.output("scored").equals(rows)


def test_several_outputs_are_a_dictionary_and_files_beside_them_are_ignored(tmp_path: Path) -> None:
    ran = copied(
        tmp_path, "a.parquet", "b/1.parquet", "b/2.parquet", "b/_SUCCESS", "b/.crc", "c.parquet", "log.txt", outputs=("b", "a")
    )
    result = ran.result()
    assert result.value == {"b": OutputTable("b"), "a": OutputTable("a")}
    assert result.ignored == ("c.parquet", "log.txt")
    assert [ran.output(name).num_rows for name in result.outputs] == [6, 3]


@pytest.mark.parametrize(("written", "found"), [("other.parquet", r"It contains other\.parquet\."), ("scored/_SUCCESS", "")])
def test_an_output_that_is_missing_or_an_empty_folder_is_named_with_what_is_there(
    tmp_path: Path, written: str, found: str
) -> None:
    with pytest.raises(OutputMissing, match=rf"'scored': neither .* {found}"):
        copied(tmp_path, written, outputs=("scored",)).result()


def test_outputs_of_a_command_that_failed_are_not_looked_at(tmp_path: Path) -> None:
    with pytest.raises(EntryFailed):
        run_entry(tmp_path, ShellEntry(("false",), outputs=("scored",))).result()


def made(root: Path, make: Any) -> Ran:
    """A command that has succeeded, with what ``make`` has put into its folder ``outputs``."""
    ran = run_entry(root, ShellEntry(("true",), outputs=("scored",)))
    make(ran.exchange.folder / "outputs")
    return ran


def put(*paths: Path, rows: pa.Table = FLIGHTS) -> None:
    """Write a table to each of these files."""
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(rows, path)


def link_out(outputs: Path, path: str) -> None:
    """Replace a file or folder below ``outputs`` by a link to one with a table beside the exchange folder."""
    link, secret = outputs / path, outputs.parents[2] / "secret.parquet"
    if not link.suffix:
        secret = outputs.parents[2] / "secret"
        put(secret / "scored.parquet")
    else:
        put(secret)
    if link.is_dir():
        link.rmdir()
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(secret)


def in_folder(outputs: Path, name: str, rows: pa.Table = FLIGHTS) -> None:
    """Write a folder of two files."""
    put(outputs / "scored" / "1.parquet")
    put(outputs / "scored" / name, rows=rows)


REFUSED: list[tuple[Any, str]] = [
    (lambda outputs: (outputs / "scored.parquet").write_text("not parquet"), "Parquet magic bytes not found"),
    (lambda outputs: (outputs / "scored.parquet").write_bytes(b""), "Parquet file size is 0 bytes"),
    (lambda outputs: (outputs / "scored.parquet").mkdir(), "it is not a regular file"),
    (lambda outputs: os.mkfifo(outputs / "scored.parquet"), "it is not a regular file"),
    (lambda outputs: (outputs / "scored").write_text(""), r"it is not a folder; call the file scored\.parquet"),
    (lambda outputs: (outputs / "scored.parquet").symlink_to("scored.parquet"), "(?i)symlink loop|symbolic links"),
    (lambda outputs: (outputs / "scored.parquet").symlink_to("nothing"), "No such file"),
    (lambda outputs: (outputs / "scored.parquet").symlink_to("/dev/zero"), "a link out of the exchange folder"),
    (lambda outputs: link_out(outputs, "scored.parquet"), "a link out of the exchange folder"),
    (lambda outputs: link_out(outputs, "scored"), "a link out of the exchange folder"),
    (lambda outputs: link_out(outputs, "scored/1.parquet"), "a link out of the exchange folder"),
    (lambda outputs: link_out(outputs, ""), "outputs cannot be used: it is a link out of the exchange folder"),
    (
        lambda outputs: put(outputs / "scored" / "1.parquet", outputs / "scored.parquet"),
        "there is also the folder outputs/scored",
    ),
    (lambda outputs: put(outputs / "scored" / "carrier=UA" / "1.parquet"), "it is not a regular file"),
    (lambda outputs: in_folder(outputs, "2.csv"), r"its name does not end in \.parquet"),
    (lambda outputs: in_folder(outputs, "2.parquet", FLIGHTS.select(["delay"])), r"its columns are not those of 1\.parquet"),
]


@pytest.mark.parametrize(("make", "problem"), REFUSED)
def test_an_output_that_is_not_plain_parquet_in_the_folder_is_refused(tmp_path: Path, make: Any, problem: str) -> None:
    with pytest.raises(UnusableOutputFile, match=problem):
        made(tmp_path, make).result()


def test_names_of_files_can_be_logged_whatever_they_are(tmp_path: Path) -> None:
    def odd(outputs: Path) -> None:
        for name in (b"\xff", b"a\nb", b"\x1b]52;c;x"):
            (outputs / os.fsdecode(name)).touch()

    with pytest.raises(OutputMissing) as missing:
        made(tmp_path, odd).result()
    assert "It contains \\x1b]52;c;x, a\\x0ab, \ufffd." in str(missing.value)


def test_a_link_inside_of_the_folder_is_followed(tmp_path: Path) -> None:
    def make(outputs: Path) -> None:
        parquet.write_table(FLIGHTS, outputs / "version-2.parquet")
        (outputs / "scored.parquet").symlink_to("version-2.parquet")

    ran = made(tmp_path, make)
    assert ran.result().ignored == ("version-2.parquet",)
    assert ran.output("scored").equals(FLIGHTS)


def test_a_file_whose_rows_are_damaged_is_reported_while_it_is_read(tmp_path: Path) -> None:
    def make(outputs: Path) -> None:
        parquet.write_table(pa.table({"n": list(range(10_000))}), outputs / "scored.parquet", compression="snappy")
        content = bytearray((outputs / "scored.parquet").read_bytes())
        content[100:5000] = b"\xff" * 4900
        (outputs / "scored.parquet").write_bytes(content)

    ran = made(tmp_path, make)
    ran.result()
    with pytest.raises(UnusableOutputFile, match=r"outputs/scored\.parquet"):
        ran.output("scored")


def test_a_command_has_no_arguments_of_a_function(tmp_path: Path) -> None:
    with pytest.raises(InvalidEntry):
        run_entry(tmp_path, ShellEntry(("true",)), ["a"])
