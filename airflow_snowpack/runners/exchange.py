"""The folder that one attempt of a task shares with its entry: its inputs, its call and its results.

    exchange = Exchanges(Path("/var/lib/snowpack")).begin("dag/run/score/-1", attempt_id)
    exchange.write_input("flights", reader)
    exchange.write_call(ShellEntry(("score", "{inputs}/flights")), command_env={"REGION": "eu"})
    code = runner.run(exchange.invocation(isolated=False, inside=None), on_line)
    exchange.result(code)
    exchange.remove()

::

    inputs/NAME/part-0.parquet      what the task wrote
    outputs/                        what the entry writes
    call.json                       the function and its arguments (module entry)
    result.json                     what the function returned or raised (module entry)
    entry_process.py                calls the function (module entry)

The invariant: what the entry wrote is read only after it has ended successfully, and nothing outside of the folder is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_snowpack.runners.entry import Entry
from airflow_snowpack.runners.invocation import Invocation

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class OutputTable:
    """In the value of a result: the table that the entry wrote under this name. :meth:`Exchange.output` reads it."""

    name: str


@dataclass(frozen=True, slots=True)
class EntryResult:
    """What a successful entry returned.

    :param value: a module entry's: what the function returned, with an :class:`OutputTable` in place of each frame, at any depth
        of lists, tuples and dictionaries; references are the JSON that they were. A shell entry's: ``None`` without outputs, the
        :class:`OutputTable` of its only output, or a dictionary of them by name.
    :param outputs: the names of all tables in it, in order.
    :param ignored: the names of files and folders in ``outputs/`` that belong to no declared output.
    """

    value: Any
    outputs: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


class Exchanges:
    """The exchange folders below one folder of the worker.

    :param root: the setting ``runner_folder``; created when it does not exist.
    :raises ExchangeFolderUnusable: it cannot be created or written to.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def begin(self, task: str, attempt: str, *, shared: bool = False) -> Exchange:
        """Create the folder of this attempt, and remove those that earlier attempts of the task instance have left.

        :param task: the task instance, ``dag/run/task/map_index``; part of the folder's name as a hash.
        :param attempt: the id of the attempt.
        :param shared: whether the entry may run as another user, as in a container or pod: then that user can read the folder
            and write its outputs.
        """
        raise NotImplementedError

    def sweep(self, *, unused_for: timedelta) -> list[Path]:
        """Remove and return the folders that no live attempt has used for this long."""
        raise NotImplementedError


class Exchange:
    """The exchange folder of one attempt. As a context manager it is removed at the end of the block.

    :param folder: exists; see :meth:`Exchanges.begin`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write_input(self, name: str, batches: pa.RecordBatchReader | pa.Table) -> int:
        """Write the Parquet files ``inputs/NAME/part-N.parquet`` batch by batch, with exactly these types; return the rows.

        An input without rows has one file with the schema.

        :raises InvalidEntry: the name is invalid or was written already.
        :raises UnusableInput: Parquet cannot store a column of it without a change.
        """
        raise NotImplementedError

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
            for each table, at any depth of lists, tuples and dictionaries. References stay the JSON that they are.
        :param command_env: environment variables; kept in memory, never written to the folder.
        :raises UnusableInput: another type, or a shell entry with arguments.
        :raises InvalidEntry: an :class:`InputTable` names an input that was not written, or a variable is unusable.
        """
        raise NotImplementedError

    def invocation(self, *, isolated: bool, inside: str | None, python: str | None = None) -> Invocation:
        """Return what the runner runs.

        :param isolated: see :class:`Runner`.
        :param inside: see :class:`Runner`.
        :param python: the interpreter that runs a module entry; ``None``: the worker's own for a subprocess, ``python`` in
            an image.
        """
        raise NotImplementedError

    def result(self, exit_code: int) -> EntryResult:
        """Return what the entry returned; outputs are checked and not read.

        :param exit_code: from :meth:`Runner.run`. 137 and the like, which containers report for a signal, count as that signal.
        :raises EntryFailed: it ended by an error of its own.
        :raises EntryRaised: the function raised.
        :raises FunctionNotFound: there is no such function where the entry ran.
        :raises UnusableResult: the function's result cannot be passed on.
        :raises ResultMissing: a module entry ended successfully and wrote no usable result.
        :raises OutputMissing: a shell entry has not written a declared output.
        :raises UnusableOutputFile: an output is not Parquet, has two schemas, or leaves the folder by a link.
        """
        raise NotImplementedError

    def output(self, name: str) -> pa.RecordBatchReader:
        """Return the rows of an output, batch by batch, in the types in which the entry returned them.

        :raises UnusableOutputFile: it cannot be read.
        """
        raise NotImplementedError

    def remove(self) -> None:
        """Remove the folder. Files that another user's entry has left and that cannot be removed are logged."""
        raise NotImplementedError

    def __enter__(self) -> Exchange:
        return self

    def __exit__(self, *raised: object) -> None:
        self.remove()


def in_command(command: Iterable[str], *, inputs: str, outputs: str) -> tuple[str, ...]:
    """Return the command with the paths of the folders in place of ``{inputs}`` and ``{outputs}``."""
    raise NotImplementedError
