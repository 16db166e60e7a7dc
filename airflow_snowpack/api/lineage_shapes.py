"""The shapes of lineage, as ``shapes.py`` has them for jobs and tables."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from airflow_snowpack.api.shapes import Shape
from airflow_snowpack.lineage.operation import OperationKind

TABLE = "lake.analytics.page_views"


class TouchedShape(Shape):
    """A table at a snapshot, or a dataset as one of its runs made it."""

    name: str = Field(description="The table's name with its catalog, or the dataset's url.", examples=[TABLE])
    snapshot_id: int | None = Field(description="The Iceberg snapshot; 64 bits, so read it with a parser that keeps them.")
    run_id: str | None = Field(description="The run of a dataset.")


class TaskShape(Shape):
    """The try of a task instance."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = Field(description="-1 for a task that is not mapped.")
    try_number: int | None


class OperationShape(Shape):
    """What was done, to what, by whom."""

    operation_id: str
    kind: OperationKind
    at: datetime
    inputs: list[TouchedShape]
    outputs: list[TouchedShape]
    task: TaskShape | None
    job_id: str | None = Field(description="The maintenance job that did it.")
    rows: int | None = Field(description="How many rows it wrote, where that is known.")
    detail: dict[str, Any] = Field(description="More about it, by its kind: the action, the layers of a reduce.")


class OperationsShape(Shape):
    """Operations, the newest first."""

    operations: list[OperationShape]
    next: str | None = Field(description="What to give as `after` for the next page.")


class NodeShape(Shape):
    """A table or a dataset."""

    name: str = Field(examples=[TABLE])
    kind: Literal["table", "dataset"]
    depth: int = Field(description="Steps from the table that was asked for; below 0 for what it came from.")
    more: bool = Field(description="It has neighbours that are left out, as they are too many or lie too deep.")
    written: OperationShape | None = Field(description="The newest operation that wrote it.")


class EdgeShape(Shape):
    """One table that was made from another."""

    source: str = Field(examples=[TABLE])
    target: str
    operations: int = Field(description="How often.")
    first_at: datetime
    last_at: datetime
    operation: OperationShape = Field(description="The newest of them.")


class LineageShape(Shape):
    """A table with what it came from and what came of it."""

    table: str = Field(examples=[TABLE])
    known: bool = Field(description="Whether anything is recorded of it.")
    nodes: list[NodeShape]
    edges: list[EdgeShape]
