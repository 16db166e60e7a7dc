"""Run a Python function or a command in a process, a container or a pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_snowpack.operators.entries.arguments import check_inputs, check_python, is_known, shell_entry
from airflow_snowpack.operators.entries.base import PreparedEntry, RunsEntry
from airflow_snowpack.runners.entry import ModuleEntry
from airflow_snowpack.runners.errors import InvalidEntry

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_snowpack.interim.handover import TableHandover
    from airflow_snowpack.runners.entry import Entry


class RunEntryOperator(RunsEntry):
    """Runs a Python function (a module entry) or a command (a shell entry) in a process, a container or a pod.

        RunEntryOperator(task_id="score", runner="docker", image="acme/score:1.4", function="acme.scoring:score",
                         op_kwargs={"flights": clean.output})
        RunEntryOperator(task_id="score", runner="subprocess", command=["score", "{inputs}/flights", "{outputs}/scored.parquet"],
                         inputs={"flights": clean.output}, outputs=["scored"])

    :param function: ``package.module:function``. It receives tables as ``pa.Table``, or as the annotation of its parameter names,
        and returns JSON values, tables, or lists and dictionaries of these. (templated)
    :param op_kwargs: the arguments of the function; references, at any depth, become tables. (templated)
    :param command: instead of ``function``, a program and its arguments, which no shell interprets. ``{inputs}`` and
        ``{outputs}`` are replaced by the paths of the folders as the program sees them. (templated)
    :param inputs: the tables that a command reads from ``{inputs}/NAME/``. (templated)
    :param outputs: the names of the tables that a command writes, as ``{outputs}/NAME.parquet`` or Parquet files in
        ``{outputs}/NAME/``.

    For the other arguments see :class:`~airflow_snowpack.operators.entries.base.RunsEntry` and
    :class:`~airflow_snowpack.operators.interim.HandsOver`. Returns what the function returned, with references instead of tables;
    for a command, the reference of its only output, a dictionary of references by name, or ``None`` without outputs.

    :raises InvalidEntry: both or neither of ``function`` and ``command`` are given, or an argument does not fit.
    """

    template_fields: Sequence[str] = (*RunsEntry.template_fields, "function", "op_kwargs", "command", "inputs")
    template_fields_renderers: ClassVar[dict[str, str]] = {"op_kwargs": "json", "command": "json", "inputs": "json"}

    def __init__(
        self,
        *,
        function: str | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        command: Sequence[str] | None = None,
        inputs: Mapping[str, Any] | None = None,
        outputs: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        if command is not None:
            kwargs.setdefault("render_template_as_native_obj", False)  # arguments stay text
        super().__init__(**kwargs)
        self.function = function
        self.op_kwargs = op_kwargs
        self.command = command
        self.inputs = inputs
        self.outputs = outputs
        self._check()

    def prepared(self, context: Context, handover: TableHandover) -> PreparedEntry:
        from airflow_snowpack.interim.refs import find_refs
        from airflow_snowpack.operators.arguments import read_object
        from airflow_snowpack.operators.entries.exchanged_tables import input_ref

        kwargs = handover.resolved(read_object("op_kwargs", self.op_kwargs))
        inputs = handover.resolved(read_object("inputs", self.inputs))
        check_inputs(inputs)
        tables = {name: input_ref(name, value) for name, value in inputs.items()}
        handover.receive(find_refs([kwargs, list(tables.values())]))
        return PreparedEntry(self._entry(), kwargs=kwargs, inputs={name: handover.recorded(ref) for name, ref in tables.items()})

    def _entry(self) -> Entry:
        if self.command is None:
            return ModuleEntry(str(self.function))
        return shell_entry(self.command, self.outputs)

    def _check(self) -> None:
        if (self.function is None) == (self.command is None):
            both = "the task also has a command" if self.command is not None else "the task has no command either"
            raise InvalidEntry("function", self.function, f"{both}; give either function or command")
        of_other = (
            {"inputs": self.inputs, "outputs": self.outputs or None} if self.command is None else {"op_kwargs": self.op_kwargs}
        )
        for name, value in of_other.items():
            if value is not None:
                kind = "function" if self.command is None else "command"
                raise InvalidEntry(name, value, f"a {kind} has none")
        check_python(self.python, self.command)
        if self.inputs is not None:
            check_inputs(self.inputs)
        if is_known(self.command) and "{{" not in str(self.function):
            self._entry()
