"""Read interim tables in a task, and write new ones for the tasks that need them.

class MyOperator(HandsOver):
    def execute(self, context):
        with self.handing_over(context) as handover:
            session = self.spark_session()
            ref = handover.run(session, lambda: handover.give(handover.read(self.ref, session).distinct()))
        return ref.to_json()
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_snowpack.durations import parse_duration
from airflow_snowpack.interim.names import Scope
from airflow_snowpack.operators.base import ReportsLineage, StopsWhenKilled, UsesCatalog
from airflow_snowpack.preservation import Preservation, parse_preservation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import timedelta

    from airflow.sdk import BaseOperator, Context
    from airflow.sdk.definitions.mappedoperator import MappedOperator
    from pyspark.sql import SparkSession

    from airflow_snowpack.interim.handover import TableHandover
    from airflow_snowpack.interim.model import OutputOptions, TaskAttempt
    from airflow_snowpack.settings import Settings


class HandsOver(ReportsLineage, StopsWhenKilled, UsesCatalog):
    """Base of the operators that read and write interim tables.

    :param name: a name by which the new table can be found, besides its reference. On a mapped task it needs a template that is
        different for each instance. (templated)
    :param scope: where the name is valid: ``run`` or ``global``.
    :param preservation: ``FULL`` keeps the table when no task needs it any more, ``NONE`` drops it; ``None``: the registered run
        decides, then the environment variable ``SNOWPACK_DEFAULT_PRESERVATION_MODE``, then ``NONE``.
    :param ttl: how long the table is preserved, or keeps its global name, such as ``"7d"``; ``None``: without end.
    :param spark_conn_id: see :class:`~airflow_snowpack.hooks.IcebergSparkHook`.
    :param store_conn_id, catalog_conn_id: the installation's, if any: the collector drops no tables in other catalogs.
    :raises ValueError: an invalid scope or duration.
    :raises InvalidPreservation: an invalid preservation.
    """

    template_fields: Sequence[str] = ("name",)

    def __init__(
        self,
        *,
        name: str | None = None,
        scope: Scope | str = Scope.RUN,
        preservation: Preservation | str | None = None,
        ttl: timedelta | str | None = None,
        spark_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.name = self._name_as_written = name
        self.scope = Scope(scope).value
        self.preservation = parse_preservation(preservation, "preservation")
        self.ttl = None if ttl is None else parse_duration(ttl)
        self.spark_conn_id = spark_conn_id

    _handover: TableHandover | None = None

    @contextmanager
    def handing_over(self, context: Context) -> Iterator[TableHandover]:
        """Open the handover of this attempt. A block that ends without an error publishes every table given to it.

        :raises AirflowFailException: a retry would fail again.
        """
        from airflow_snowpack.interim.handover import TableHandover

        catalog = self.catalog_hook()
        try:
            with self.installation() as hook:
                self._refuse_elsewhere(hook.settings)
                self._handover = TableHandover(
                    hook.interim(),
                    lambda: catalog.catalog,
                    attempt_of(context),
                    catalog_name=catalog.settings.catalog_name,
                    consumers=consumers_of(self),
                    options=self._options(context),
                )
                with self._handover as handover:
                    yield handover
        finally:
            self._handover = None

    def spark_session(self) -> SparkSession:
        """Return the Spark session of the connection; raise :class:`SparkUnavailable` if this machine has no Spark."""
        from airflow_snowpack.hooks.iceberg_spark import IcebergSparkHook

        return IcebergSparkHook(self.spark_conn_id, self.catalog_conn_id).session()

    def abandon(self, reason: str) -> None:
        if (handover := self._handover) is not None:
            handover.interrupt()
            handover.abandon(reason)

    def _refuse_elsewhere(self, settings: Settings) -> None:
        """:raises OtherInstallation: the collector would not find the tables."""
        from airflow_snowpack.hooks.errors import OtherInstallation

        own = {"catalog_conn_id": settings.catalog_conn_id, "store_conn_id": settings.store_conn_id}
        for argument, known in own.items():
            given = getattr(self, argument)
            if given not in (None, known):
                raise OtherInstallation(argument, given, known)

    def _options(self, context: Context) -> OutputOptions:
        from airflow_snowpack.interim.model import OutputOptions
        from airflow_snowpack.preservation import resolve_preservation

        refuse_shared_name(self, self._name_as_written, context["ti"].map_index)
        preservation = resolve_preservation(self.preservation, context["dag_run"].conf, os.environ)
        return OutputOptions(self.name or None, Scope(self.scope), preservation, self.ttl)


def refuse_shared_name(operator: BaseOperator, name: object, map_index: int | None) -> None:
    """Refuse a name that all instances of a mapped task would share: each would drop the table of the one before.

    A template is accepted as it is: its author has to make it different for each instance.

    :param name: as written, before it is rendered.
    :raises UnusableOutput: all instances would share it.
    """
    if map_index is None or map_index < 0:
        return
    dag = operator.get_dag()
    mapped = dag.get_task(operator.task_id) if dag is not None else None
    partial = getattr(mapped, "partial_kwargs", None)  # None: a task group is mapped, not the task
    written = name if partial is None else partial.get("name")
    if isinstance(written, str) and written and "{" not in written:
        from airflow_snowpack.interim.errors import UnusableOutput

        raise UnusableOutput(
            "name",
            written,
            "the task is mapped, and all of its instances would give their tables this name, which is for one; add a "
            "template such as {{ ti.map_index }}",
        )


def consumers_of(producer: BaseOperator) -> frozenset[str]:
    """Return the ids of the tasks of this DAG that may need the tables of this task.

    These are the tasks directly downstream, and those behind tasks of other classes: what a plain ``@task``
    returns, such as ``refs[0]``, may be the reference that it received, and it cannot pin the table for its consumers. Every
    table that a task receives as an argument is therefore pinned for it before its producer ends.
    """
    carriers = {producer.task_id}
    consumers = set(producer.downstream_task_ids)
    left = list(consumers)
    while left:
        task: BaseOperator | MappedOperator = producer.dag.get_task(left.pop())
        if task.task_id in carriers or _hands_over(task) or carriers.isdisjoint(_producers_for(task)):
            continue
        carriers.add(task.task_id)
        consumers |= task.downstream_task_ids
        left += task.downstream_task_ids
    return frozenset(consumers)


def _hands_over(task: BaseOperator | MappedOperator) -> bool:
    from airflow.sdk.definitions.mappedoperator import MappedOperator

    return issubclass(task.operator_class if isinstance(task, MappedOperator) else type(task), HandsOver)


def _producers_for(task: BaseOperator | MappedOperator) -> set[str]:
    """Return the tasks whose results are among the task's arguments."""
    from airflow.sdk.definitions.mappedoperator import MappedOperator
    from airflow.sdk.definitions.xcom_arg import XComArg

    # In a list that is expanded, iter_mapped_dependencies() misses the results inside of it.
    arguments = [task.partial_kwargs, task._get_specified_expand_input().value] if isinstance(task, MappedOperator) else task
    return {operator.task_id for operator, _ in XComArg.iter_xcom_references(arguments)}


def attempt_of(context: Context) -> TaskAttempt:
    """Return this attempt at the task, as the store identifies it."""
    from airflow_snowpack.airflow.task_ref import TaskRef
    from airflow_snowpack.interim.model import TaskAttempt

    instance = context["ti"]
    map_index = -1 if instance.map_index is None else instance.map_index
    task = TaskRef(instance.dag_id, instance.run_id, instance.task_id, map_index)
    return TaskAttempt(task, str(instance.id), instance.try_number, instance.start_date)
