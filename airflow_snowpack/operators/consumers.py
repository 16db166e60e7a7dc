"""Which tasks may need what a task hands on: those directly downstream, and those that get it through tasks of another kind.

    consumers_of(self)        # frozenset({"pick", "report"}) for report(pick(clean())), where pick is a plain @task

A task that hands tables over pins what it passes on for its own consumers. A plain one cannot: what it returns, such as
``refs[0]``, may be the reference that it was handed. So the consumers of plain tasks that are handed the result are pinned from
the start. The invariant: what a task is handed by its arguments was pinned for it before the task that made it ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.definitions.mappedoperator import MappedOperator


def consumers_of(producer: BaseOperator) -> frozenset[str]:
    """Return the ids of the tasks that may need what this task hands on, in its own DAG."""
    carriers = {producer.task_id}
    consumers = set(producer.downstream_task_ids)
    left = list(consumers)
    while left:
        task: BaseOperator | MappedOperator = producer.dag.get_task(left.pop())
        if task.task_id in carriers or _hands_over(task) or carriers.isdisjoint(_handed_by(task)):
            continue
        carriers.add(task.task_id)
        consumers |= task.downstream_task_ids
        left += task.downstream_task_ids
    return frozenset(consumers)


def _hands_over(task: BaseOperator | MappedOperator) -> bool:
    from airflow.sdk.definitions.mappedoperator import MappedOperator

    from airflow_snowpack.operators.handing_over import HandsOver

    return issubclass(task.operator_class if isinstance(task, MappedOperator) else type(task), HandsOver)


def _handed_by(task: BaseOperator | MappedOperator) -> set[str]:
    """The tasks whose results are among the task's arguments."""
    from airflow.sdk.definitions.mappedoperator import MappedOperator
    from airflow.sdk.definitions.xcom_arg import XComArg

    # Of a list that is expanded, iter_mapped_dependencies() leaves out the results inside of it.
    arguments = [task.partial_kwargs, task._get_specified_expand_input().value] if isinstance(task, MappedOperator) else task
    return {operator.task_id for operator, _ in XComArg.iter_xcom_references(arguments)}
