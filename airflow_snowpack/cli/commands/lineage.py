"""``airflow snowpack lineage``: the upstream and downstream tables of a table, as trees.

Upstream
└── lake.shop.orders  create by shop/manual__1/clean, 3 min ago, 1,000 rows
    └── …
"""

from argparse import Namespace
from datetime import datetime

from rich.text import Text
from rich.tree import Tree

from airflow_snowpack.cli.context import CommandContext, command
from airflow_snowpack.cli.output import DATA, console, note, print_data, print_rows, printable
from airflow_snowpack.lineage.graph import Direction, Edge, Lineage, LineageGraph
from airflow_snowpack.lineage.operation import DatasetAt, Operation
from airflow_snowpack.wire.lineage import EDGES, LineageShape, full_name, operation_in_words

HEADINGS = {Direction.UP: "Upstream", Direction.DOWN: "Downstream"}


@command
def show(args: Namespace, here: CommandContext) -> None:
    directions = _directions(args)
    lineage, name = Lineage(here.jobs.store), full_name(here.jobs.store, args.table, here.settings.catalog_name)
    graph = lineage.graph(name, *directions, depth=args.depth)
    now = here.now
    if args.output in DATA:
        print_data(args.output, LineageShape.encode(graph))
        return
    if args.output == "plain":
        print_rows(args.output, EDGES.columns, graph.edges, now)
        return
    if not graph.is_known:
        print(f"No operations on {graph.table} are recorded.")
        return
    root = graph.root
    console().print(operation_line(root.name, root.written, now), soft_wrap=True)
    for direction in directions:
        tree = tree_of(graph, direction, now, HEADINGS[direction])
        if tree.children:
            console().print(tree, soft_wrap=True)
    if any(node.more for node in graph.nodes):
        note("Tables are left out at …: increase --depth, or show the lineage of that table.")


def _directions(args: Namespace) -> tuple[Direction, ...]:
    if args.both or args.up == args.down:
        return tuple(Direction)
    return (Direction.UP,) if args.up else (Direction.DOWN,)


def tree_of(graph: LineageGraph, direction: Direction, now: datetime, heading: str) -> Tree:
    """Return the tree of one direction; a table with several ways to it has its own tree at the first one."""
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
            line = operation_line(other, edge.operation, now, times=edge.operations)
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


def operation_line(name: str, operation: Operation | None, now: datetime, *, times: int = 1) -> Text:
    """Return a table and its newest operation, in a line."""
    text = Text(printable(name))
    if operation is None:
        return text
    words = operation_in_words(operation, now, version=_version(name, operation), times=times)
    return text.append(f"  {printable(words)}", "dim")


def _version(name: str, operation: Operation) -> str:
    """Return the snapshot of the table, or the run of the dataset."""
    for table in (*operation.outputs, *operation.inputs):
        if table.name == name:
            if isinstance(table, DatasetAt):
                return f"run {table.run_id}" if table.run_id else ""
            return f"snapshot {table.snapshot_id}" if table.snapshot_id is not None else ""
    return ""
