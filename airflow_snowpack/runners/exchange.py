"""The folder that one attempt of a task shares with its entry: its inputs, its call and its results.

    with Exchanges(Path("/var/lib/snowpack")).begin("dag/run/score/-1", attempt_id) as exchange:
        exchange.write_input("flights", reader)
        exchange.write_call(ShellEntry(("score", "{inputs}/flights")), command_env={"REGION": "eu"})
        code = runner.run(exchange.invocation(isolated=False, inside=None), on_line)
        result = exchange.result(code)

::

    inputs/NAME/part-0.parquet      what the task wrote
    outputs/                        what the entry writes
    call.json                       the function and its arguments (module entry)
    result.json                     what the function returned or raised (module entry)
    entry_process.pyz               the program that calls the function (module entry)
    source/                         the text of the function, as a module (module entry of a decorated function)

The invariant: what the entry wrote is read only after it has ended successfully, and nothing outside of the folder is read.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from airflow_snowpack.humanize import size
from airflow_snowpack.runners.archive import PROGRAM, program
from airflow_snowpack.runners.entry import Entry, InputTable, ModuleEntry, ShellEntry, check_environment, check_name
from airflow_snowpack.runners.entry_process import (
    CALL,
    FAILED,
    INPUTS,
    LOG_LEVEL,
    MAX_TEXT,
    OUTPUTS,
    RESULT,
    SOURCE,
    SOURCE_MODULE,
    printable,
)
from airflow_snowpack.runners.errors import (
    PYTHON,
    EntryFailed,
    EntryRaised,
    FunctionNotFound,
    InvalidEntry,
    LibraryMissing,
    ResultMissing,
    UnusableInput,
    UnusableResult,
)
from airflow_snowpack.runners.invocation import Invocation
from airflow_snowpack.runners.tables import CommandOutputs, FunctionOutputs, write_parquet
from airflow_snowpack.runners.values import TAG, NotSerializable, decode, encode

ERRORS: dict[str, Callable[[str, Mapping[str, Any]], Exception]] = {
    "raised": lambda function, found: EntryRaised(function, _text(found, "class"), _text(found, "text")),
    "unresolved": lambda function, found: FunctionNotFound(function, _text(found, "text")),
    "unusable table": lambda function, found: UnusableInput(_text(found, "text")),
    "not serializable": lambda function, found: UnusableResult(function, _text(found, "text")),
    "no library": lambda function, found: LibraryMissing(_text(found, "text")),
}
MAX_RESULT_BYTES = 64 * 1024 * 1024
"""The size of a result's JSON, which the task holds in memory."""
KNOBS = (LOG_LEVEL,)
"""What an isolated module entry receives from the worker's environment, where it is set."""
DAMAGED = (ArithmeticError, LookupError, OSError, RecursionError, TypeError, ValueError)
"""The errors of reading JSON that ``entry_process.py`` has not written."""


@dataclass(frozen=True, slots=True)
class OutputTable:
    """In the value of a result: the table that the entry wrote under this name. :meth:`Exchange.output` reads it."""

    name: str


@dataclass(frozen=True, slots=True)
class EntryResult:
    """What a successful entry returned.

    :param value: of a module entry, what the function returned, with an :class:`OutputTable` instead of each frame, at any depth
        of lists, tuples and dictionaries; references are unchanged JSON, and so is a ``pyarrow.Table`` that the function received
        with a reference and returned unchanged. Of a shell entry, ``None`` without outputs, the :class:`OutputTable` of its only
        output, or a dictionary of them by name.
    :param outputs: the names of all tables in it, in order.
    :param ignored: the names of files and folders in ``outputs/`` that belong to no declared output.
    """

    value: Any
    outputs: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


class Exchange:
    """The exchange folder of one attempt. As a context manager it is removed at the end of the block.

    :param folder: exists, with the folders ``inputs`` and ``outputs``; see :meth:`Exchanges.begin`.
    :param on_end: called with ``None`` to remove the folder, and otherwise with how long another process may need it.
    :param entry: what runs, if another process has declared it; see :meth:`Exchanges.resume`.
    """

    def __init__(self, folder: Path, on_end: Callable[[timedelta | None], None], entry: Entry | None = None) -> None:
        self.folder = folder
        self._on_end = on_end
        self._entry = entry
        self._call: dict[str, Any] = {}
        self._command_env: dict[str, str] = {}
        self._inputs: set[str] = set()
        self._outputs: CommandOutputs | FunctionOutputs | None = None

    def write_input(self, name: str, batches: pa.RecordBatchReader | pa.Table) -> int:
        """Write the Parquet file ``inputs/NAME/part-0.parquet`` batch by batch, with exactly these types; return the row count.

        An input without rows has a file with the schema.

        :raises InvalidEntry: the name is invalid or was already written.
        :raises UnusableInput: Parquet cannot store a column unchanged.
        """
        check_name("inputs", name)
        if name in self._inputs:
            raise InvalidEntry("inputs", name, "this input was written already")
        self._inputs.add(name)
        folder = self.folder / INPUTS / name
        folder.mkdir()
        rows = write_parquet(folder / "part-0.parquet", batches, name)
        # Readable for the user of an image, whatever the umask is; the exchange folder itself decides who may enter.
        folder.chmod(0o755)
        (folder / "part-0.parquet").chmod(0o644)
        return rows

    def write_call(
        self,
        entry: Entry,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        command_env: Mapping[str, str] | None = None,
    ) -> None:
        """Declare what runs.

        :param args: of a module entry: JSON values, dates and times, ``bytes``, ``Decimal``, tuples, and an :class:`InputTable`
            for each table, at any depth of lists, tuples and dictionaries. References stay JSON.
        :param command_env: environment variables; kept in memory, never written to the folder.
        :raises UnusableInput: an argument of another type.
        :raises InvalidEntry: a shell entry with arguments, or an :class:`InputTable` for an input that was not written.
        """
        if isinstance(entry, ShellEntry) and (args or kwargs):
            raise InvalidEntry("command", list(entry.command), "a command has no arguments of a function")
        self._entry, self._command_env = entry, dict(command_env or {})
        try:
            self._call = {
                "args": [encode(value, self._encoded_input, f"number {place + 1}") for place, value in enumerate(args)],
                "kwargs": {name: encode(value, self._encoded_input, name) for name, value in (kwargs or {}).items()},
            }
        except NotSerializable as refused:
            raise UnusableInput(
                f"the argument {refused.path} {refused.problem}; pass JSON values, dates, tuples and tables"
            ) from refused

    def invocation(self, *, isolated: bool, inside: str | None, python: str | None = None) -> Invocation:
        """Write what the entry needs, and return what the runner runs.

        :param isolated, inside: see :class:`Runner`.
        :param python: the interpreter that runs a module entry, which then imports only its own modules; ``None``: the worker's
            for a subprocess, with the worker's modules, and ``python3`` in an image.
        :raises InvalidEntry: a variable of ``command_env`` is unusable.
        """
        entry, inside = self._declared(), inside or str(self.folder)
        environment = added_environment(entry, isolated=isolated, command_env=self._command_env, own=os.environ)
        if isinstance(entry, ShellEntry):
            command = in_command(entry.command, inputs=f"{inside}/{INPUTS}", outputs=f"{inside}/{OUTPUTS}")
            return Invocation(command, environment, self.folder, inside)
        mark = f"\x1e{secrets.token_hex(8)}\x1e"
        path = [] if isolated or python else [os.path.abspath(each) for each in sys.path]
        self._write(CALL, json.dumps({"function": entry.path, **self._call, "mark": mark, "path": path}).encode())
        self._write(PROGRAM, program())
        if entry.source is not None:
            folder = self.folder / SOURCE
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
            self._write(f"{SOURCE}/{SOURCE_MODULE}.py", entry.source.encode())
        python = python or (PYTHON if isolated else sys.executable)
        return Invocation((python, f"{inside}/{PROGRAM}", inside), environment, self.folder, inside, mark)

    def result(self, exit_code: int) -> EntryResult:
        """Return what the entry returned; outputs are checked, but not read.

        :param exit_code: from :meth:`Runner.run`.
        :raises EntryFailed: it ended with an error.
        :raises EntryRaised: the function raised.
        :raises FunctionNotFound: there is no such function where the entry ran.
        :raises LibraryMissing: the function has tables, and the image has no pyarrow.
        :raises UnusableInput: a table cannot be converted to what the function's parameter requests.
        :raises UnusableResult: the function's result cannot be passed on.
        :raises ResultMissing: a module entry ended successfully and wrote no usable result.
        :raises OutputMissing: a shell entry has not written a declared output.
        :raises UnusableOutputFile: an output is not Parquet, has two schemas, or leaves the folder by a link.
        """
        entry = self._declared()
        if isinstance(entry, ModuleEntry):
            return self._returned(entry, exit_code)
        if exit_code:
            raise EntryFailed(exit_code)
        self._outputs = outputs = CommandOutputs(self.folder, entry.outputs)
        tables = {name: OutputTable(name) for name in entry.outputs}
        value = tables if len(tables) > 1 else next(iter(tables.values()), None)
        return EntryResult(value, entry.outputs, outputs.ignored)

    def output(self, name: str) -> pa.RecordBatchReader:
        """Return the rows of an output by batch, in the entry's types; raise :class:`UnusableOutputFile` if it is unreadable."""
        if self._outputs is None:
            raise RuntimeError("Call result() before output().")
        return self._outputs.read(name)

    def remove(self) -> None:
        """Remove the folder. Files that belong to another user and cannot be removed are logged."""
        self._on_end(None)

    def leave(self, *, needed_for: timedelta = timedelta(0)) -> None:
        """Leave the folder to another process, which calls :meth:`Exchanges.resume`; a sweep keeps it for ``needed_for``."""
        self._on_end(needed_for)

    def __enter__(self) -> Exchange:
        return self

    def __exit__(self, *raised: object) -> None:
        self.remove()

    def _declared(self) -> Entry:
        if self._entry is None:
            raise RuntimeError("Call write_call() first.")
        return self._entry

    def _encoded_input(self, value: Any, path: str) -> dict[str, Any] | None:
        if not isinstance(value, InputTable):
            return None
        if value.name not in self._inputs:
            raise InvalidEntry("inputs", value.name, "this input was not written")
        reference = None if value.reference is None else dict(value.reference)
        return {TAG: "input", "name": value.name, "form": value.form, "reference": reference}

    def _returned(self, entry: ModuleEntry, exit_code: int) -> EntryResult:
        found = self._result_file(entry)
        if "error" in found and exit_code == FAILED:
            raise ERRORS[found["error"]](entry.function, found)
        if exit_code:
            raise EntryFailed(exit_code)
        if "value" not in found:
            raise ResultMissing("it ended the process itself, for example with sys.exit() or os._exit()")
        try:
            names = tuple(_text_of(name) for name in found["outputs"])
            value = decode(found["value"], lambda tag, table: _output_table(tag, table, names))
        except DAMAGED as error:
            raise ResultMissing(f"the file {RESULT} is damaged: {error!s:.300}") from error
        self._outputs = FunctionOutputs(self.folder, names)
        return EntryResult(value, names)

    def _result_file(self, entry: ModuleEntry) -> dict[str, Any]:
        try:
            # O_NOFOLLOW: a link could lead to any file of the worker. O_NONBLOCK: a device has no end.
            with open(os.open(self.folder / RESULT, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise ResultMissing(f"{RESULT} is not a regular file")
                content = file.read(MAX_RESULT_BYTES + 1)
            if len(content) > MAX_RESULT_BYTES:
                raise UnusableResult(entry.function, f"its JSON is larger than {size(MAX_RESULT_BYTES)}")
            found = json.loads(content.decode())
        except FileNotFoundError:
            return {}
        except DAMAGED as error:
            raise ResultMissing(f"the file {RESULT} is damaged: {error!s:.300}") from error
        if not isinstance(found, dict) or str(found.get("error", "raised")) not in ERRORS:
            raise ResultMissing(f"the file {RESULT} is damaged: it is not what entry_process.py writes")
        return found

    def _write(self, name: str, content: bytes) -> None:
        (self.folder / name).write_bytes(content)
        (self.folder / name).chmod(0o644)


def _output_table(tag: str, found: Mapping[str, Any], names: Collection[str]) -> OutputTable:
    if tag != "output":
        raise ValueError(f"it has the unknown tag {tag!r}")
    if found["name"] not in names:
        raise ValueError(f"it has no output {found['name']!r}")
    return OutputTable(str(found["name"]))


def _text_of(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the name of an output is {name!r:.100}, and not a text")
    return name


def _text(found: Mapping[str, Any], field: str) -> str:
    return printable(str(found.get(field, ""))[:MAX_TEXT])


def in_command(command: Iterable[str], *, inputs: str, outputs: str) -> tuple[str, ...]:
    """Return the command with the paths of the folders for ``{inputs}`` and ``{outputs}``."""
    paths = {"{inputs}": inputs, "{outputs}": outputs}
    return tuple(re.sub(r"\{inputs\}|\{outputs\}", lambda found: paths[found[0]], argument) for argument in command)


def added_environment(entry: Entry, *, isolated: bool, command_env: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return the variables on top of those that the runner starts from: ``command_env``, and ``KNOBS`` of an isolated function.

    An isolated entry receives no address, no connection and no secret of the worker.

    :param isolated: whether the runner starts from an image's environment instead of the worker's.
    :param own: the worker's environment.
    :raises InvalidEntry: a name or a value cannot be that of a variable. The error contains no value.
    """
    check_environment(command_env)
    knobs = {name: own[name] for name in KNOBS if name in own} if isolated and isinstance(entry, ModuleEntry) else {}
    return {**knobs, **command_env}
