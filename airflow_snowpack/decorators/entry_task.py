"""``@task.snowpack(runner=…)``: the function, or a command instead of it, runs in a process, a container or a pod.

@task.snowpack(runner="docker", image="acme/score:1.4")
def score(flights: pa.Table) -> pa.Table: ...                    # a module entry: this function runs in the container

@task.snowpack(runner="subprocess", command=["score", "{inputs}/flights", "{outputs}/scored.parquet"], outputs=["scored"])
def score(flights): ...                                          # a shell entry: the parameters name its inputs
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk.bases.decorator import DecoratedOperator
from airflow.sdk.definitions.context import KNOWN_CONTEXT_KEYS

from airflow_snowpack.decorators.function_source import check_function, source_of
from airflow_snowpack.decorators.parameters import SESSION, Parameters
from airflow_snowpack.interim.forms import Form
from airflow_snowpack.operators.entries.arguments import check_place, check_python, is_known, shell_entry
from airflow_snowpack.operators.entries.base import PreparedEntry, RunsEntry
from airflow_snowpack.runners.entry import ModuleEntry, check_environment
from airflow_snowpack.runners.errors import InvalidEntry

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_snowpack.interim.handover import TableHandover

PASSED_ON = frozenset(
    {
        *("ds", "ds_nodash", "ts", "ts_nodash", "ts_nodash_with_tz", "run_id", "task_instance_key_str", "partition_key"),
        *("logical_date", "data_interval_start", "data_interval_end", "partition_date", "params", "try_number"),
    }
)
"""What an entry may receive of Airflow's context: values, but no connection to Airflow."""


class EntryDecoratedOperator(DecoratedOperator, RunsEntry):
    """The operator behind ``@task.snowpack(runner=…)``.

    :param command: runs instead of the function, whose parameters name the inputs. (templated)
    :param outputs: the names of the tables that the command writes.

    For the other arguments see :class:`~airflow_snowpack.operators.entries.base.RunsEntry`.
    """

    custom_operator_name = "@task.snowpack"
    template_fields: Sequence[str] = (*DecoratedOperator.template_fields, *RunsEntry.template_fields, "command")

    python_callable: Callable[..., Any]
    op_args: Collection[Any]
    op_kwargs: Mapping[str, Any]

    def __init__(self, *, command: Sequence[str] | None = None, outputs: Sequence[str] = (), **kwargs: Any) -> None:
        if command is not None:
            kwargs.setdefault("render_template_as_native_obj", False)  # arguments stay text
        super().__init__(**kwargs)
        self.command = command
        self.outputs = outputs

    def prepared(self, context: Context, handover: TableHandover) -> PreparedEntry:
        from airflow_snowpack.interim.refs import find_refs
        from airflow_snowpack.operators.entries.exchanged_tables import input_ref

        parameters = Parameters.of(self.python_callable)
        args, kwargs = handover.resolved(list(self.op_args)), handover.resolved(dict(self.op_kwargs))
        handover.receive(find_refs([args, kwargs]))
        if self.command is not None:
            given = parameters.bind(tuple(args), kwargs).arguments
            tables = {name: handover.recorded(input_ref(name, value)) for name, value in given.items()}
            return PreparedEntry(shell_entry(self.command, self.outputs), inputs=tables)
        kwargs |= self._from_context(context, parameters.signature, len(args), kwargs)
        entry = ModuleEntry(self.python_callable.__name__, source_of(self.python_callable))
        return PreparedEntry(entry, args, kwargs, names=parameters.positional(len(args)), forms=forms_of(parameters))

    def _from_context(
        self, context: Context, signature: inspect.Signature, positions: int, given: Mapping[str, Any]
    ) -> dict[str, Any]:
        wanted = [name for name in list(signature.parameters)[positions:] if name in PASSED_ON and name not in given]
        known = {**context, "try_number": context["ti"].try_number}
        return {name: plain(value) for name in wanted if (value := known.get(name)) is not None}


def plain(value: Any) -> Any:
    """Convert a value of Airflow's context to Python's built-in types."""
    if isinstance(value, datetime):
        return datetime.fromisoformat(value.isoformat())
    return value.dump() if hasattr(value, "dump") else value


def forms_of(parameters: Parameters) -> dict[str, str]:
    """Return the form in which each parameter receives its tables: Arrow's, unless its annotation names another."""
    forms = {name: parameters.form_of(name) for name in parameters.signature.parameters}
    return {name: (Form.ARROW if form is Form.SPARK else form).value for name, form in forms.items()}


def check_task(
    function: Callable[..., Any],
    *,
    command: Any,
    outputs: Any,
    runner: Any,
    image: Any,
    build: Any,
    command_env: Any,
    python: Any,
) -> None:
    """Check the arguments of the decorator, before the function is called or expanded.

    :raises InvalidEntry: an argument does not fit.
    :raises UnknownForm: a parameter is annotated with rows in a form that tables do not arrive in.
    """
    check_place(runner, image=image, build=build)
    check_environment(command_env or {})
    check_python(python, command)
    if command is not None:
        if is_known(command):
            shell_entry(command, outputs)
        return
    if outputs:
        raise InvalidEntry("outputs", outputs, "a function returns its tables; outputs are those of a command")
    check_function(function)
    for name in Parameters.of(function).signature.parameters:
        if name == SESSION:
            raise InvalidEntry("function", function.__name__, "an entry has no Spark session; remove the parameter 'spark'")
        if name in KNOWN_CONTEXT_KEYS - PASSED_ON:
            problem = f"its parameter {name!r} is of Airflow's context, which does not exist where the entry runs"
            raise InvalidEntry("function", function.__name__, f"{problem}; pass a value, such as '{{{{ ti.try_number }}}}'")
