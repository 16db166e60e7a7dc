"""Lineage as JSON, the same for the API and the command line.

lineage_body(graph)
operation_body(operation)
read_place(place_text(page.after))
"""

from datetime import UTC, datetime
from typing import Any

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.api.bodies import moment
from airflow_snowpack.lineage.graph import Edge, LineageGraph, Node
from airflow_snowpack.lineage.operation import DatasetAt, Operation, TableAt
from airflow_snowpack.lineage.operations import OperationPage, Place

Body = dict[str, Any]


def lineage_body(graph: LineageGraph) -> Body:
    """A table with what it came from and what came of it."""
    return {
        "table": graph.table,
        "known": graph.is_known,
        "nodes": [_node_body(node) for node in graph.nodes],
        "edges": [_edge_body(edge) for edge in graph.edges],
    }


def operations_body(page: OperationPage) -> Body:
    """Some operations, the newest first."""
    return {"operations": [operation_body(each) for each in page.operations], "next": place_text(page.after)}


def operation_body(operation: Operation) -> Body:
    """What was done, to what, by whom."""
    return {
        "operation_id": operation.operation_id,
        "kind": operation.kind.value,
        "at": moment(operation.at),
        "inputs": [_table_body(table) for table in operation.inputs],
        "outputs": [_table_body(table) for table in operation.outputs],
        "task": None if operation.task is None else _task_body(operation.task),
        "job_id": operation.job_id,
        "rows": operation.rows,
        "detail": dict(operation.detail),
    }


def place_text(place: Place | None) -> str | None:
    """Where a page ends, as the text that the next page is asked for with."""
    return None if place is None else f"{moment(place[0])}_{place[1]}"


def read_place(text: str) -> Place:
    """What :func:`place_text` gave.

    :raises ValueError: it is not that.
    """
    at, _, operation_id = text.partition("_")
    when = datetime.fromisoformat(at)
    if not operation_id or when.tzinfo is None:
        raise ValueError(text)
    return when.astimezone(UTC), operation_id


def _node_body(node: Node) -> Body:
    return {
        "name": node.name,
        "kind": "dataset" if node.is_dataset else "table",
        "depth": node.depth,
        "more": node.more,
        "written": None if node.written is None else operation_body(node.written),
    }


def _edge_body(edge: Edge) -> Body:
    return {
        "source": edge.source,
        "target": edge.target,
        "operations": edge.operations,
        "first_at": moment(edge.first_at),
        "last_at": moment(edge.last_at),
        "operation": operation_body(edge.operation),
    }


def _table_body(table: TableAt | DatasetAt) -> Body:
    return {
        "name": table.name,
        "snapshot_id": table.snapshot_id if isinstance(table, TableAt) else None,
        "run_id": table.run_id if isinstance(table, DatasetAt) else None,
    }


def _task_body(task: TaskRef) -> Body:
    return {
        "dag_id": task.dag_id,
        "run_id": task.run_id,
        "task_id": task.task_id,
        "map_index": task.map_index,
        "try_number": task.try_number,
    }
