"""Lineage as a tree for people: a table, and below it what it came from, or what came of it.

    tree_of(graph, Direction.UP, now, "It came from")

    It came from
    └── lake.shop.orders  create by shop/manual__1/clean, 3 min ago, 1,000 rows
        └── …

A table to which several ways lead stands at each of them, and what lies behind it at the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from rich.tree import Tree

from airflow_snowpack.cli.job_id import short_id
from airflow_snowpack.cli.output import printable
from airflow_snowpack.humanize import ago
from airflow_snowpack.lineage.graph import Direction
from airflow_snowpack.lineage.operation import DatasetAt

if TYPE_CHECKING:
    from datetime import datetime

    from airflow_snowpack.lineage.graph import Edge, LineageGraph
    from airflow_snowpack.lineage.operation import Operation


def tree_of(graph: LineageGraph, direction: Direction, now: datetime, heading: str) -> Tree:
    """One way from the table that was asked for."""
    tree = Tree(Text(heading, "bold"), guide_style="dim")
    more = {node.name for node in graph.nodes if node.more}
    edges: dict[str, list[Edge]] = {}
    for edge in graph.edges:
        edges.setdefault(edge.target if direction is Direction.UP else edge.source, []).append(edge)
    seen = {graph.table}
    left: list[tuple[str, Tree]] = [(graph.table, tree)]
    while left:
        name, branch = left.pop(0)
        for edge in edges.get(name, []):
            other = edge.source if direction is Direction.UP else edge.target
            line = what_happened(other, edge.operation, now, times=edge.operations)
            again = other in seen
            if again and other in edges:
                line.append("  (see above)", "dim")
            below = branch.add(line)
            if not again:
                seen.add(other)
                left.append((other, below))
        if name in more:
            branch.add(Text("…", "dim"))
    return tree


def what_happened(name: str, operation: Operation | None, now: datetime, *, times: int = 1) -> Text:
    """A table and the operation that tells of it, in a line."""
    text = Text(printable(name))
    if operation is None:
        return text
    by = str(operation.task) if operation.task else ""
    job = f"job {short_id(operation.job_id)}" if operation.job_id else ""
    told = [
        f"{operation.kind.value}{f' by {by}' if by else ''}",
        job,
        ago(operation.at, now),
        _rows(operation),
        _version(name, operation),
    ]
    told.append(f"{times:,} times" if times > 1 else "")
    return text.append(f"  {printable(', '.join(part for part in told if part))}", "dim")


def _rows(operation: Operation) -> str:
    return "" if operation.rows is None else f"{operation.rows:,} row{'' if operation.rows == 1 else 's'}"


def _version(name: str, operation: Operation) -> str:
    """At which snapshot the table was read or written, or which run of the dataset it was."""
    for table in (*operation.outputs, *operation.inputs):
        if table.name == name:
            if isinstance(table, DatasetAt):
                return f"run {table.run_id}" if table.run_id else ""
            return f"snapshot {table.snapshot_id}" if table.snapshot_id is not None else ""
    return ""
