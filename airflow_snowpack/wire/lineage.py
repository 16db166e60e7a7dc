"""Lineage: tables and datasets, and the operations between them."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from airflow_snowpack.humanize import ago, plural, short_id
from airflow_snowpack.lineage.graph import Edge
from airflow_snowpack.lineage.operation import Operation, OperationKind
from airflow_snowpack.lineage.operations import OperationLog
from airflow_snowpack.store import Store
from airflow_snowpack.wire.listing import Column, Listing
from airflow_snowpack.wire.shape import From, Shape, page_shape

TABLE = "lake.analytics.page_views"


class TouchedShape(Shape):
    """A table at a snapshot, or a dataset at a run."""

    name: str = Field(description="The table's name with its catalog, or the dataset's url.", examples=[TABLE])
    snapshot_id: Annotated[int | None, From(lambda table: getattr(table, "snapshot_id", None))] = Field(
        description="The Iceberg snapshot, an integer of 64 bits: use a parser that keeps all of them."
    )
    run_id: Annotated[str | None, From(lambda table: getattr(table, "run_id", None))] = Field(description="The dataset's run.")


class TaskShape(Shape):
    """A try of a task instance."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = Field(description="-1 for a task that is not mapped.")
    try_number: int | None


class OperationShape(Shape):
    """An operation on tables and the task that did it."""

    operation_id: str
    kind: OperationKind
    at: datetime
    inputs: list[TouchedShape]
    outputs: list[TouchedShape]
    task: TaskShape | None
    job_id: str | None = Field(description="The maintenance job that did it.")
    rows: int | None = Field(description="How many rows it wrote, where that is known.")
    detail: dict[str, Any] = Field(description="More about it, by its kind: the action, the layers of a reduce.")


OperationsShape = page_shape("OperationsShape", "Operations, newest first.", "operations", OperationShape)


class NodeShape(Shape):
    """A table or a dataset."""

    name: str = Field(examples=[TABLE])
    kind: Annotated[Literal["table", "dataset"], From(lambda node: "dataset" if node.is_dataset else "table")]
    depth: int = Field(description="Steps from the requested table; below 0 for upstream tables.")
    more: bool = Field(description="It has neighbours that are left out, because there are too many or they are too deep.")
    written: OperationShape | None = Field(description="The newest operation that wrote it.")


class EdgeShape(Shape):
    """A table that another one was made from."""

    source: str = Field(examples=[TABLE])
    target: str
    operations: int = Field(description="How many operations.")
    first_at: datetime
    last_at: datetime
    operation: OperationShape = Field(description="The newest of them.")


class LineageShape(Shape):
    """A table with its upstream and downstream tables."""

    table: str = Field(examples=[TABLE])
    known: Annotated[bool, From("is_known")] = Field(description="Whether any operation on it is recorded.")
    nodes: list[NodeShape]
    edges: list[EdgeShape]


OPERATIONS: Listing[Operation] = Listing("operations", OperationShape.encode, ())
EDGES: Listing[Edge] = Listing(
    "edges",
    EdgeShape.encode,
    (
        Column("source", "source"),
        Column("target", "target"),
        Column("kind", "operation.kind"),
        Column("at", "last_at"),
        Column("task", lambda edge: edge.operation.task and str(edge.operation.task)),
        Column("job", "operation.job_id"),
        Column("rows", "operation.rows"),
        Column("operations", "operations"),
    ),
)


def full_name(store: Store, given: str, catalog: str) -> str:
    """Return the name that lineage uses for a table or a dataset.

    :param given: a table's name with or without its catalog, a dataset's url, or its name: a word without a dot.
    :param catalog: the installation's.
    :raises DatasetNotFound: there is no dataset of this name.
    """
    if not {".", "/"} & set(given):
        from airflow_snowpack.builds.registry.runs import BuildRegistry

        return BuildRegistry(store).dataset(given).url.rstrip("/")
    return OperationLog(store).full_name(given, catalog)


def operation_in_words(operation: Operation, now: datetime, *, version: str = "", times: int = 1) -> str:
    """Return an operation in a line.

    :param version: what it read or wrote of the table.
    :param times: how many operations it is the newest of.
    """
    parts = [
        f"{operation.kind.value}{f' by {operation.task}' if operation.task else ''}",
        f"job {short_id(operation.job_id)}" if operation.job_id else "",
        ago(operation.at, now),
        "" if operation.rows is None else plural(operation.rows, "row"),
        version,
        plural(times, "time") if times > 1 else "",
    ]
    return ", ".join(part for part in parts if part)
