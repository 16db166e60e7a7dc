"""The name of a table on a task that is mapped: it is one for each of its instances, or none.

    refuse_shared_name(operator, "features", context["ti"].map_index)      # raises UnusableOutput

The invariant: no two instances of a mapped task are given one name as it stands, since each would take it from the one before,
whose table would go at once. A template is not seen through: what tells instances apart is up to its author.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator


def refuse_shared_name(operator: BaseOperator, name: object, map_index: int | None) -> None:
    """Nothing, where this instance is the only one or its name its own.

    :param name: as it is written, before it is rendered.
    :raises UnusableOutput: all instances would have it.
    """
    if map_index is None or map_index < 0:
        return
    written = _as_partial(operator, name)
    if isinstance(written, str) and written and "{" not in written:
        from airflow_snowpack.interim.errors import UnusableOutput

        raise UnusableOutput(
            "name",
            written,
            "the task is mapped, and all of its instances would give their tables this name, which is for one; put what tells "
            "them apart into it, such as {{ ti.map_index }}",
        )


def _as_partial(operator: BaseOperator, name: object) -> object:
    """What all instances have; ``None`` where each was given its own."""
    dag = operator.get_dag()
    mapped = dag.get_task(operator.task_id) if dag is not None else None
    partial = getattr(mapped, "partial_kwargs", None)
    if partial is None:
        return name  # it is a group of tasks that is mapped
    return partial.get("name")
