"""``@task.snowpack``: a task that receives tables and returns tables.

    @task.snowpack
    def clean(spark, flights):                     # a DataFrame of what the task before returned
        return flights.where("distance > 500")     # becomes an interim table; the XCom is its reference

    @task.snowpack
    def report(flights: pa.Table) -> int:          # read without Spark
        return flights.num_rows                    # an ordinary value is an ordinary XCom

    report(clean(ingest()))

No row goes through Airflow: XCom contains a reference, which is small JSON. Its table exists as long as a task that received it
can still run.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import determine_kwargs
from airflow.sdk.bases.decorator import DecoratedOperator, task_decorator_factory

from airflow_snowpack.decorators.parameters import without_session
from airflow_snowpack.operators.interim import HandsOver

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from airflow.sdk import Context
    from airflow.sdk.bases.decorator import TaskDecorator


OF_ENTRIES = frozenset({"image", "build", "command", "outputs", "command_env", "python", "runner_options"})
"""Arguments that have a meaning only with ``runner``."""


class CallsWithTables(HandsOver):
    """Base of operators that call a function with tables instead of references, and turn returned tables into references."""

    python_callable: Callable[..., Any]
    op_args: Collection[Any]
    op_kwargs: Mapping[str, Any]

    def execute(self, context: Context) -> Any:
        from airflow_snowpack.decorators.table_call import TableCall

        known = {**context, **self.op_kwargs}
        kwargs = determine_kwargs(self.python_callable, self.op_args, known)
        own = {name: value for name, value in kwargs.items() if name in self.op_kwargs}
        around = {name: value for name, value in kwargs.items() if name not in self.op_kwargs}
        with self.handing_over(context) as handover:
            call = TableCall(handover, self.python_callable, self.spark_session)
            call.receive(list(self.op_args), own)
            return call.made(around, self._runner(context))

    def _runner(self, context: Context) -> Callable[..., Any]:
        """Return what calls the function, as Airflow's Python operator does: a generator may yield metadata of assets."""
        from airflow.sdk.execution_time.callback_runner import create_executable_runner
        from airflow.sdk.execution_time.context import context_get_outlet_events

        return create_executable_runner(self.python_callable, context_get_outlet_events(context), logger=self.log).run


class SnowpackDecoratedOperator(DecoratedOperator, CallsWithTables):
    """The operator behind ``@task.snowpack``; its arguments are those of :class:`HandsOver`."""

    custom_operator_name = "@task.snowpack"
    template_fields: Sequence[str] = (*DecoratedOperator.template_fields, *HandsOver.template_fields)


def snowpack_task(
    python_callable: Callable[..., Any] | None = None, multiple_outputs: bool | None = None, **kwargs: Any
) -> TaskDecorator:
    """Make a function a task that receives tables and returns tables.

    :param python_callable: a parameter called ``spark`` receives the session. References to interim tables and views, anywhere in
        the arguments, arrive as Spark DataFrames; as rows in memory where the parameter is annotated ``pa.Table``,
        ``pd.DataFrame``, ``pl.DataFrame`` or another :class:`~airflow_snowpack.interim.forms.Form`; and unchanged where it is
        annotated ``TableRef`` or ``ViewRef``.
    :param multiple_outputs: as for ``@task``: a dictionary becomes one XCom for each of its keys.
    :param kwargs: with ``runner``, for a function or a command in a process, a container or a pod, those of
        :class:`~airflow_snowpack.decorators.entry_task.EntryDecoratedOperator`; those of
        :class:`~airflow_snowpack.operators.interim.HandsOver`: ``name``, ``scope``, ``preservation``, ``ttl`` and the ids of
        connections; and those of every operator.
    :raises TypeError: the function is asynchronous, or a parameter is annotated with rows in a form that tables do not arrive in.
    """

    def decorate(function: Callable[..., Any]) -> TaskDecorator:
        if inspect.iscoroutinefunction(function):
            raise TypeError(
                f"@task.snowpack does not support asynchronous functions such as {function.__name__}. Define it with def."
            )
        if "runner" in kwargs:
            return _entry_task(function, multiple_outputs, kwargs)
        if unused := OF_ENTRIES & kwargs.keys():
            raise TypeError(f"@task.snowpack on {function.__name__} has {', '.join(sorted(unused))} without runner; add it.")
        return task_decorator_factory(
            python_callable=without_session(function),
            multiple_outputs=multiple_outputs,
            decorated_operator_class=SnowpackDecoratedOperator,
            **kwargs,
        )

    if python_callable is None:
        return decorate  # type: ignore[return-value]  # a decorator's decorator, as the factory's own is
    return decorate(python_callable)


def _entry_task(function: Callable[..., Any], multiple_outputs: bool | None, kwargs: dict[str, Any]) -> TaskDecorator:
    from airflow_snowpack.decorators.entry_task import EntryDecoratedOperator, check_task

    given = {name: kwargs.get(name) for name in ("runner", "image", "build", "command", "command_env", "python")}
    check_task(function, outputs=kwargs.get("outputs", ()), **given)
    return task_decorator_factory(
        python_callable=function, multiple_outputs=multiple_outputs, decorated_operator_class=EntryDecoratedOperator, **kwargs
    )
