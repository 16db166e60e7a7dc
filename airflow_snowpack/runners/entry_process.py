"""Calls the function of a module entry: the program that runs inside a subprocess, a container or a pod.

    python /snowpack/entry_process.pyz /snowpack

The archive is in the exchange folder, and contains this module with those that it imports. It needs only Python 3.11, and pyarrow
if the function receives or returns tables. It reads the call, decodes the arguments, calls the function, and writes the outcome.

Tables travel as files: to the function as Parquet, and back as Arrow streams, which keep every type of Arrow. Records of
``logging`` are written to stderr, each on a line of the mark and JSON, to keep their level.
"""

from __future__ import annotations

import importlib
import inspect
import json
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from airflow_snowpack.runners.values import TAG, NotSerializable, class_name, decode, encode, type_name

CALL, RESULT, INPUTS, OUTPUTS = "call.json", "result.json", "inputs", "outputs"
SOURCE, SOURCE_MODULE = "source", "snowpack_task_function"
LOG_LEVEL = "SNOWPACK_LOG_LEVEL"
MAX_RECORD_BYTES = 128 * 1024
"""The size of a ``logging`` record, whose text may be a traceback."""
MAX_TEXT = 10_000
BATCH_ROWS = 64 * 1024
SUCCEEDED, FAILED = 0, 1
OWN_FRAMES = (__file__, importlib.__file__, "<frozen importlib")


class Unresolved(LookupError):
    """There is no such function."""


class UnusableTable(ValueError):
    """A table cannot arrive in the form that the function's parameter requests."""


class NoLibrary(ImportError):
    """A library that tables need is not installed."""


# -- tables -----------------------------------------------------------------------------------------------------------------


def library(name: str) -> Any:
    """Return the archive's module that converts tables, even if another version of airflow_snowpack is installed."""
    return importlib.import_module(f"{__name__.partition('.')[0]}.{name}")


def arrow() -> Any:
    """Return the module ``pyarrow``; raise :class:`NoLibrary` if it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as missing:
        raise NoLibrary(f"pyarrow, which receives and returns tables, cannot be imported: {missing}") from missing
    return pyarrow


def read_input(folder: Path, name: str) -> Any:
    """Return the rows of an input as a ``pyarrow.RecordBatchReader``."""
    files = [arrow().parquet.ParquetFile(file, memory_map=True) for file in sorted((folder / INPUTS / name).glob("*.parquet"))]
    schema = files[0].schema_arrow
    if not any(file.metadata.num_rows for file in files):
        return arrow().RecordBatchReader.from_batches(schema, [library("interim.forms").no_rows(schema)])
    batches = (batch for file in files for batch in file.iter_batches(BATCH_ROWS))
    return arrow().RecordBatchReader.from_batches(schema, batches)


def write_output(folder: Path, name: str, reader: Any) -> None:
    """Write the rows of a ``pyarrow.RecordBatchReader`` as an Arrow stream."""
    path = str(folder / OUTPUTS / f"{name}.arrow")
    with arrow().OSFile(path, "wb") as file, arrow().ipc.new_stream(file, reader.schema) as stream:
        for batch in reader:
            stream.write_batch(batch)


# -- the call ---------------------------------------------------------------------------------------------------------------


class EntryCall:
    """One call of the function.

    :param folder: the exchange folder.
    :param call: the JSON that the task wrote.
    """

    def __init__(self, folder: Path, call: Mapping[str, Any]) -> None:
        self.folder = folder
        self.path: str = call["function"]
        self._args, self._kwargs = call["args"], call["kwargs"]
        self._forms = library("interim.forms")
        self._arrived: list[tuple[Any, Any]] = []  # frames that cannot be changed, and their references
        self._frames: list[tuple[Any, str]] = []  # returned frames, and where they are in the result

    def run(self) -> dict[str, Any]:
        """Call the function; return its result as JSON, after writing all tables in it.

        :raises Unresolved: there is no such function.
        :raises UnusableTable: a table cannot arrive in the requested form.
        :raises NotSerializable: the result cannot be sent.
        :raises NoLibrary: pyarrow is not installed, and there are tables.
        """
        function = resolve(self.path)
        names = list(_parameter_names(function, len(self._args)))
        args = [self._argument(value, name, function) for value, name in zip(self._args, names, strict=True)]
        kwargs = {name: self._argument(value, name, function) for name, value in self._kwargs.items()}
        returned = function(*args, **kwargs)
        value = encode(returned, self._of_frame)
        names = [f"table-{number}" for number in range(len(self._frames))]
        for name, (frame, path) in zip(names, self._frames, strict=True):
            write_output(self.folder, name, self._reader_of(frame, path))
        return {"value": value, "outputs": names}

    def _argument(self, value: Any, name: str, function: Callable[..., Any]) -> Any:
        def table(tag: str, found: dict[str, Any]) -> Any:
            if tag != "input":
                raise ValueError(f"{CALL} has the unknown tag {tag!r}")
            form, reference = self._form(found["form"], name, function), found["reference"]
            if form is self._forms.Form.REFERENCE and reference is not None:
                return reference
            return self._frame(found["name"], form, reference)

        return decode(value, table)

    def _form(self, given: str | None, name: str, function: Callable[..., Any]) -> Any:
        if given is not None:
            return self._forms.Form(given)
        try:
            return library("decorators.parameters").Parameters.of(function).form_of(name)
        except TypeError as unknown:
            raise UnusableTable(str(unknown)) from unknown
        except ValueError:  # a function written in C
            return self._forms.Form.ARROW

    def _frame(self, name: str, form: Any, reference: Any) -> Any:
        """Return the rows of an input; without an annotation as a ``pyarrow.Table``."""
        reader = read_input(self.folder, name)
        if form is self._forms.Form.READER:
            return reader
        rows = reader.read_all()
        if form not in self._forms.IN_MEMORY or form is self._forms.Form.ARROW:
            if reference is not None:
                self._arrived.append((rows, reference))
            return rows
        try:
            return self._forms.in_form(rows, form)
        except ImportError as missing:
            raise NoLibrary(f"{form}, which the function receives, cannot be imported: {missing}") from missing
        except self._forms.UnfitForm as unfit:
            raise UnusableTable(f"the input {name!r}: {unfit}") from unfit

    def _of_frame(self, value: Any, path: str) -> Any:
        kind = self._forms.frame_kind(value)
        if kind is None or kind is self._forms.FrameKind.SPARK:
            return None
        if (arrived := next((reference for frame, reference in self._arrived if frame is value), None)) is not None:
            return arrived
        # Written once even if it is returned twice: a reader has its rows only once.
        place = next((place for place, (frame, _) in enumerate(self._frames) if frame is value), len(self._frames))
        if place == len(self._frames):
            self._frames.append((value, path))
        return {TAG: "output", "name": f"table-{place}"}

    def _reader_of(self, frame: Any, path: str) -> Any:
        try:
            if isinstance(frame, arrow().RecordBatchReader):
                return self._forms.unread(frame)
            return self._forms.as_arrow(frame).to_reader(BATCH_ROWS)
        except self._forms.UnwritableFrame as unwritable:
            raise NotSerializable(path, f"cannot become a table. {unwritable}") from unwritable


def resolve(path: str) -> Callable[..., Any]:
    """Import the function ``package.module:name``.

    :raises Unresolved: the module does not exist, or has nothing callable with this name.
    :raises Exception: importing the module raised it.
    """
    module_name, _, name = path.partition(":")
    found: Any = _module(module_name)
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise Unresolved(f"the module {module_name!r} has no {name!r}") from None
    if not callable(found):
        raise Unresolved(f"{name!r} in the module {module_name!r} is a {type_name(found)}, which cannot be called")
    return found  # type: ignore[no-any-return]


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name is not None and f"{name}.".startswith(f"{missing.name}."):
            raise Unresolved(f"there is no module {missing.name!r}") from None
        raise


def _parameter_names(function: Callable[..., Any], positional: int) -> Iterator[str]:
    """Yield the parameter of each positional argument."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # a function written in C
        parameters = []
    for place in range(positional):
        parameter = parameters[min(place, len(parameters) - 1)] if parameters else None
        yield parameter.name if parameter is not None else ""


# -- records ----------------------------------------------------------------------------------------------------------------


class Records(logging.Handler):
    """Writes records of ``logging`` as lines of the mark and JSON."""

    def __init__(self, mark: str) -> None:
        super().__init__()
        self._mark = mark.encode()
        # The function may redirect stderr.
        self._file = os.dup(2)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)
            line = self._line(record, text)
            if len(line) > MAX_RECORD_BYTES:
                # A character takes at most 6 bytes.
                line = self._line(record, f"{text[: MAX_RECORD_BYTES // 8]}… (cut)")
            while line:
                line = line[os.write(self._file, line) :]
        except Exception:  # noqa: BLE001 - as in the handlers of logging: a record that cannot be written is reported on stderr
            self.handleError(record)

    def _line(self, record: logging.LogRecord, text: str) -> bytes:
        found = {"level": record.levelno, "logger": record.name[:200], "text": text}
        return self._mark + json.dumps(found).encode() + b"\n"


def set_up_logging(mark: str) -> None:
    """Make records of ``logging`` keep their level, and each line of ``print`` leave the process at once."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    level = os.environ.get(LOG_LEVEL, "INFO").upper()
    known = level in logging.getLevelNamesMapping()
    logging.basicConfig(handlers=[Records(mark)], level=level if known else "INFO", format="%(message)s")
    logging.captureWarnings(True)
    if not known:
        logging.getLogger("snowpack").warning("%s = %r is not a level of logging, and INFO is used.", LOG_LEVEL, level)


# -- the process ------------------------------------------------------------------------------------------------------------


def main(folder: Path) -> int:
    """Make the call, and write its result; return the exit code."""
    call = json.loads((folder / CALL).read_text(encoding="utf-8"))
    # Replaces the archive: what the task can import, or the working directory of the image. Processes that the function starts
    # import its source from the same path.
    sys.path[:1] = [path for path in call["path"] or [os.getcwd()] if path not in sys.path[1:]]
    sys.path.append(str(folder / SOURCE))
    set_up_logging(call["mark"])
    try:
        result = EntryCall(folder, call).run()
    except Unresolved as error:
        result = {"error": "unresolved", "text": str(error)}
    except UnusableTable as error:
        result = {"error": "unusable table", "text": str(error)}
    except NotSerializable as error:
        result = {"error": "not serializable", "text": f"result{error.path} {error.problem}"}
    except NoLibrary as error:
        result = {"error": "no library", "text": str(error)}
    except Exception as error:  # noqa: BLE001 - whatever the function raises is the task's result
        logging.getLogger("snowpack").error("%s", _traceback(error))
        result = {"error": "raised", "class": class_name(type(error)), "text": printable(str(error)[:MAX_TEXT])}
    sys.stdout.flush()
    sys.stderr.flush()
    _write(folder, result)
    return FAILED if "error" in result else SUCCEEDED


def printable(text: str) -> str:
    """Return the text without lone surrogates, which names of files may contain and no log can store."""
    return text.encode("utf-8", "backslashreplace").decode()


def _traceback(error: BaseException) -> str:
    """Return the traceback from where the function, or the import of its module, begins."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(OWN_FRAMES):
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames)).rstrip()


def _write(folder: Path, result: dict[str, Any]) -> None:
    """Write the result atomically: a process that is killed leaves none."""
    unfinished = folder / f"{RESULT}.unfinished"
    unfinished.write_text(json.dumps(result), encoding="utf-8")
    unfinished.replace(folder / RESULT)
