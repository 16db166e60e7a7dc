"""Lineage: which operations read and wrote which tables, and which tables came from which."""

from airflow_snowpack.lineage.graph import Direction, Edge, Lineage, LineageGraph, Node
from airflow_snowpack.lineage.operation import DatasetAt, Operation, OperationKind, TableAt
from airflow_snowpack.lineage.operations import OperationLog, forget_operations, note_operation, record_operation

__all__ = [
    "DatasetAt",
    "Direction",
    "Edge",
    "Lineage",
    "LineageGraph",
    "Node",
    "Operation",
    "OperationKind",
    "OperationLog",
    "TableAt",
    "forget_operations",
    "note_operation",
    "record_operation",
]
