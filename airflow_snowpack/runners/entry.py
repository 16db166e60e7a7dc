"""What runs: a function of a Python module, or a command without a shell.

    ModuleEntry("acme.scoring:score")
    ModuleEntry("score", source="def score(flights): ...")       # the text of a decorated function
    ShellEntry(("score", "--in", "{inputs}/flights", "--out", "{outputs}/scored.parquet"), outputs=("scored",))

An entry is validated in the DAG file that declares it, before anything runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_snowpack.runners.errors import InvalidEntry

VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
NAME_FORM = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ModuleEntry:
    """Calls a Python function in a separate process.

    :param function: ``package.module:function``, also ``package.module:Class.method``; with ``source``, a name that it defines.
    :param source: Python text that defines the function and imports what it uses. It becomes a module in the exchange folder, and
        runs where its DAG file does not exist.
    :raises InvalidEntry: the function is not in this form.
    """

    function: str
    source: str | None = None

    def __post_init__(self) -> None:
        module, _, name = self.function.rpartition(":")
        parts = [*module.split("."), *name.split(".")] if self.source is None else [self.function]
        if not all(part.isidentifier() for part in parts):
            form = "package.module:function" if self.source is None else "the name of a function in the source"
            raise InvalidEntry("function", self.function, f"write it as {form}")

    @property
    def path(self) -> str:
        """The function as ``module:name`` where the entry runs."""
        from airflow_snowpack.runners.entry_process import SOURCE_MODULE  # DAG files import this module

        return self.function if self.source is None else f"{SOURCE_MODULE}:{self.function}"


@dataclass(frozen=True, slots=True)
class ShellEntry:
    """Runs a program with arguments, without a shell.

    :param command: the program and its arguments. ``{inputs}`` and ``{outputs}`` in an argument are replaced by the paths of the
        folders as the entry sees them; no other braces, quotes, spaces or dollar signs are interpreted.
    :param outputs: the names of the tables that the command writes, each as the Parquet file ``{outputs}/NAME.parquet`` or as a
        folder ``{outputs}/NAME/`` of Parquet files.
    :raises InvalidEntry: the command is empty or one text, an argument is not text or has NUL, or an output has an unusable name.
    """

    command: tuple[str, ...]
    outputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.command, str) or not self.command:
            raise InvalidEntry("command", self.command, 'write the program and each argument on its own: ["score", "--all"]')
        for argument in self.command:
            if not isinstance(argument, str) or "\0" in argument:
                raise InvalidEntry("command", argument, "an argument is a text without NUL")
        if not self.command[0]:
            raise InvalidEntry("command", self.command, "its program is empty")
        if isinstance(self.outputs, str):
            raise InvalidEntry("outputs", self.outputs, f'write a list of names: ["{self.outputs}"]')
        for name in self.outputs:
            check_name("outputs", name)
        if len(set(self.outputs)) < len(self.outputs):
            raise InvalidEntry("outputs", list(self.outputs), "a name is used twice")


Entry = ModuleEntry | ShellEntry


@dataclass(frozen=True, slots=True)
class InputTable:
    """In the arguments of a module entry: the table that was written as this input.

    :param name: as in :meth:`Exchange.write_input`.
    :param form: what the function receives: ``pyarrow.Table``, ``pandas.DataFrame``, ``polars.DataFrame``, ``polars.LazyFrame``
        or ``pyarrow.RecordBatchReader`` (values of :class:`airflow_snowpack.interim.forms.Form`). ``None``: what the annotation
        of the function's parameter names where the entry runs; ``pyarrow.Table`` without an annotation.
    :param reference: the reference as JSON, which the function receives instead if ``form`` is ``None`` and its parameter is
        annotated ``TableRef`` or ``ViewRef``.
    """

    name: str
    form: str | None = None
    reference: Mapping[str, Any] | None = None


def check_name(field: str, name: object) -> None:
    """:raises InvalidEntry: this is not the name of an input or an output."""
    if not isinstance(name, str) or not NAME_FORM.fullmatch(name):
        rule = "a name starts with a letter or an underscore, and continues with letters, digits, underscores and hyphens"
        raise InvalidEntry(field, name, f"{rule}, at most 100 characters")


def check_environment(variables: object) -> None:
    """Check ``command_env``, before and after its templates are rendered.

    :raises InvalidEntry: a variable has an unusable name, or its value is not a text. The error contains no value.
    """
    if not isinstance(variables, Mapping):
        raise InvalidEntry("command_env", type(variables).__name__, "write a dictionary of texts, such as {'MODEL': 'v3'}")
    for name, value in variables.items():
        if not isinstance(name, str) or not VARIABLE.fullmatch(name):
            raise InvalidEntry("command_env", name, "the name of a variable has letters, digits and underscores only")
        if not isinstance(value, str):
            raise InvalidEntry("command_env", name, f"the value of this variable is not a text but {type(value).__name__}")
        if "\0" in value:
            raise InvalidEntry("command_env", name, "the value of this variable contains NUL")
