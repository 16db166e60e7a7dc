"""Lineage as JSON, the same for the API and the command line.

lineage_body(graph)
operation_body(operation)
"""

from typing import Any

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.api.bodies import moment
from airflow_snowpack.lineage.graph import Edge, LineageGraph, Node
from airflow_snowpack.lineage.operation import DatasetAt, Operation, TableAt
from airflow_snowpack.store import Page

Body = dict[str, Any]


def lineage_body(graph: LineageGraph) -> Body:
    """A table with what it came from and what came of it."""
    return {
        "table": graph.table,
        "known": graph.is_known,
        "nodes": [_node_body(node) for node in graph.nodes],
        "edges": [_edge_body(edge) for edge in graph.edges],
    }


def operations_body(page: Page[Operation]) -> Body:
    """Some operations, the newest first."""
    return {"operations": [operation_body(each) for each in page.items], "next": page.next}


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
