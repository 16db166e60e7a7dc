"""``airflow snowpack lineage``: what a table came from, and what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.api.bodies import moment
from airflow_snowpack.api.lineage_bodies import lineage_body
from airflow_snowpack.api.lineage_name import full_name
from airflow_snowpack.cli.commands.lineage_tree import tree_of, what_happened
from airflow_snowpack.cli.opened import opened
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import Column, console, print_data, print_rows, say
from airflow_snowpack.lineage.graph import Direction, Lineage

if TYPE_CHECKING:
    from argparse import Namespace

    from airflow_snowpack.cli.exit_code import ExitCode
    from airflow_snowpack.lineage.graph import Edge

HEADINGS = {Direction.UP: "It came from", Direction.DOWN: "Of it came"}
EDGES: list[Column[Edge]] = [
    Column("source", lambda edge: edge.source),
    Column("target", lambda edge: edge.target),
    Column("kind", lambda edge: edge.operation.kind.value),
    Column("at", lambda edge: moment(edge.last_at)),
    Column("task", lambda edge: edge.operation.task),
    Column("job", lambda edge: edge.operation.job_id),
    Column("rows", lambda edge: edge.operation.rows),
    Column("operations", lambda edge: edge.operations),
]


@ends_cleanly
def show(args: Namespace) -> ExitCode | None:
    """``lineage``"""
    directions = _directions(args)
    with opened(args) as here:
        lineage, name = Lineage(here.jobs.store), full_name(here.jobs.store, args.table, here.settings.catalog_name)
        graph = lineage.around(name, args.depth, directions)
        now = here.now
    if args.output in ("json", "yaml"):
        print_data(args.output, lineage_body(graph))
        return None
    if args.output == "plain":
        print_rows(args.output, graph.edges, EDGES, empty="")
        return None
    if not graph.is_known:
        print(f"Nothing is recorded of {graph.table}.")
        return None
    root = graph.root
    console().print(what_happened(root.name, root.written, now), soft_wrap=True)
    for direction in directions:
        tree = tree_of(graph, direction, now, HEADINGS[direction])
        if tree.children:
            console().print(tree, soft_wrap=True)
    if any(node.more for node in graph.nodes):
        say("There is more at …: a greater --depth, or the lineage of that table, shows it.")
    return None


def _directions(args: Namespace) -> tuple[Direction, ...]:
    if args.both or args.up == args.down:
        return tuple(Direction)
    return (Direction.UP,) if args.up else (Direction.DOWN,)
