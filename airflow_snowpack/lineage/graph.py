"""The upstream and downstream tables of a table.

    lineage = Lineage(store)
    graph = lineage.graph("lake.shop.report", Direction.UP, depth=3)
    [(edge.source, edge.target, edge.operation.kind) for edge in graph.edges]
    lineage.graph("lake.shop.orders")                                # upstream and downstream

Each level costs one statement, regardless of the number of its tables. The invariants: a table is in a graph once, so cycles end;
only what is shown is read, however often each pair was connected; and a table whose neighbours were left out is marked.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.lineage.operation import Operation
from airflow_snowpack.lineage.operations import OperationLog, chunks, is_dataset
from airflow_snowpack.store.dialect import storable
from airflow_snowpack.store.store import Store
from airflow_snowpack.store.tables.lineage import operation_edges

DEPTH = 5
DEEPEST = 50
NEIGHBOURS = 20
"""How many neighbours of one table are shown, the latest first; a source of interim tables has thousands."""
MOST_TABLES = 300


class Direction(StrEnum):
    """Upstream or downstream."""

    UP = "up"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class Edge:
    """One table that was made from another.

    :param operation: the newest operation that did it.
    :param operations: how many did it, including those that were deleted since.
    """

    source: str
    target: str
    operation: Operation
    operations: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True)
class Node:
    """A table, or a dataset, in a graph.

    :param depth: how many steps from the requested table; negative for upstream tables.
    :param written: the newest operation that wrote it; ``None`` if unknown.
    :param more: some of its neighbours are left out, because there are too many or they are too deep.
    """

    name: str
    depth: int
    written: Operation | None = None
    more: bool = False

    @property
    def is_dataset(self) -> bool:
        return is_dataset(self.name)


@dataclass(frozen=True, slots=True)
class LineageGraph:
    """A table with its upstream and downstream tables: the nodes by depth, then in the order in which they were found."""

    table: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    @property
    def root(self) -> Node:
        return next(node for node in self.nodes if node.name == self.table)

    @property
    def is_known(self) -> bool:
        """Return whether any operation on the table is recorded."""
        return bool(self.edges) or self.root.written is not None


class Lineage:
    """Reads lineage graphs.

    :param neighbours: how many neighbours of each table are shown.
    :param most: how many tables are shown in one direction.
    """

    def __init__(self, store: Store, *, neighbours: int = NEIGHBOURS, most: int = MOST_TABLES) -> None:
        self._store = store
        self._neighbours = neighbours
        self._most = most
        self.log = OperationLog(store)

    def graph(self, table: str, *directions: Direction, depth: int = DEPTH) -> LineageGraph:
        """Return the table with its upstream and downstream tables, not other tables downstream of a source.

        :param table: its full name, ``catalog.database.table``, or a dataset's URL.
        :param directions: only these; none for both.
        :param depth: how many steps, from 0 to :data:`DEEPEST`, which also replaces a higher number.
        """
        table = storable(table)
        walks = [self._walk(table, min(max(depth, 0), DEEPEST), direction) for direction in directions or Direction]
        depths: dict[str, int] = {table: 0}
        for walk in walks:  # a cycle makes a table both upstream and downstream: it is where it was found first
            depths = {**walk.depths, **depths}
        pairs = {(row.source, row.target): row for walk in walks for row in walk.rows}
        more = {name for walk in walks for name in walk.more}
        operations = self.log.named(row.operation_id for row in pairs.values())
        written = self.log.last_written(depths)
        nodes = [Node(name, at, written.get(name), name in more) for name, at in depths.items()]
        edges = [
            Edge(row.source, row.target, operations[row.operation_id], row.operations, row.first_at, row.last_at)
            for row in pairs.values()
            if row.operation_id in operations
        ]
        return LineageGraph(table, tuple(sorted(nodes, key=lambda node: node.depth)), tuple(edges))

    def _walk(self, table: str, depth: int, direction: Direction) -> _Walk:
        walk = _Walk({table: 0}, [], set())
        frontier = [table]
        step = -1 if direction is Direction.UP else 1
        for level in range(1, depth + 2):  # one level more than shown, to mark where the graph continues
            following: list[str] = []
            for name, rows in self._neighbours_of(frontier, direction).items():
                for place, row in enumerate(rows):
                    found = row.source if direction is Direction.UP else row.target
                    if found not in walk.depths:
                        if level > depth or place >= self._neighbours or len(walk.depths) > self._most:
                            walk.more.add(name)
                            continue
                        walk.depths[found] = level * step
                        following.append(found)
                    walk.rows.append(row)
            frontier = following
            if not frontier:
                break
        return walk

    def _neighbours_of(self, names: list[str], direction: Direction) -> dict[str, list[Any]]:
        e = operation_edges.c
        here, there = (e.target, e.source) if direction is Direction.UP else (e.source, e.target)
        found: dict[str, list[Any]] = {name: [] for name in names}
        newest = sa.select(operation_edges).order_by(e.last_at.desc(), there).limit(self._neighbours + 1)
        for chunk in chunks(names):
            # In SQLite, only a subquery gives each part of a union its own order and limit.
            query = sa.union_all(*(sa.select(newest.where(here == name).subquery()) for name in chunk))
            for row in self._store.all(query):
                found[row.target if direction is Direction.UP else row.source].append(row)
        return {name: sorted(rows, key=lambda row: row.last_at, reverse=True) for name, rows in found.items()}


@dataclass(frozen=True, slots=True)
class _Walk:
    depths: dict[str, int]
    rows: list[Any]
    more: set[str]
