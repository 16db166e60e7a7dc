"""The lineage page: a graph of upstream and downstream tables, and the table's operations.

    chart = lineage_chart(graph, now)
    chart.boxes[0].x, chart.lines[0].path       # in units of the drawing

The graph has a column for each step from the requested table, upstream on the left. Within a column, tables are near those that
they are connected with; the line of a cycle goes around the column.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.pages.navigation import task_link
from airflow_snowpack.api.pages.page import Here, HtmlPage, PageRoute
from airflow_snowpack.builds.errors import DatasetNotFound
from airflow_snowpack.humanize import ago
from airflow_snowpack.lineage.graph import DEEPEST, DEPTH, Direction, Edge, Lineage, LineageGraph, Node
from airflow_snowpack.lineage.operation import Operation
from airflow_snowpack.store import Page
from airflow_snowpack.wire.lineage import full_name, operation_in_words

PAGE = 50
WIDTH, HEIGHT = 200, 64
BETWEEN_COLUMNS, BETWEEN_ROWS, MARGIN = 44, 14, 12
LONGEST = 27
"""Characters of a name that fit into a box."""
WAYS: dict[str, tuple[str, tuple[Direction, ...]]] = {
    "up": ("Upstream", (Direction.UP,)),
    "": ("Both", tuple(Direction)),
    "down": ("Downstream", (Direction.DOWN,)),
}

router = APIRouter(route_class=PageRoute)


@router.get("/lineage")
def lineage(page: Here) -> HTMLResponse:
    asked = page.filter("table", "depth") | {"way": page.choice("way", WAYS)}
    steps = page.number("depth", digits=3)
    depth = DEPTH if steps is None else min(max(steps, 1), DEEPEST)
    walk, name = Lineage(page.services.jobs.store), _name(page, asked["table"])
    graph = walk.graph(name, *WAYS[asked["way"]][1], depth=depth) if name else None

    def operations(after: str | None) -> Page[Operation]:
        return walk.log.of_table(name, limit=PAGE, after=after) if name else walk.log.latest(limit=PAGE, after=after)

    return page.render(
        "lineage.html",
        f"Lineage of {name}" if name else "Lineage",
        asked,
        depth=depth,
        ways=[(value, label) for value, (label, _) in WAYS.items()],
        graph=graph,
        chart=lineage_chart(graph, page.now) if graph is not None and graph.is_known else None,
        operations=page.listed(operations),
        cursor=page.asked("cursor"),
        summary=summary,
        task_address=lambda operation: task_link(operation.task.name, page.airflow) if operation.task else None,
    )


def summary(operation: Operation) -> str:
    """Return what else is recorded about an operation, in a line."""
    detail = dict(operation.detail)
    action, message = detail.pop("action", None), detail.pop("message", None)
    if action is not None:
        return f"{str(action).replace('_', ' ')}: {message or detail.get('outcome', '')}"
    layers = detail.pop("layers", None)
    parts = [f"{len(layers)} layers"] if isinstance(layers, list) else []
    simple = [f"{key.replace('_', ' ')} {value}" for key, value in detail.items() if isinstance(value, str | int | float)]
    return ", ".join(parts + simple)


def _name(page: HtmlPage, given: str) -> str:
    """Return the whole name; a word that is no dataset stays unchanged."""
    if not given:
        return ""
    try:
        return full_name(page.services.jobs.store, given, page.services.inventory.catalog_name)
    except DatasetNotFound:
        return given


@dataclass(frozen=True, slots=True)
class Box:
    """One table.

    :param name: its own name, as much of it as fits.
    :param home: its catalog and database.
    :param detail: how and when it was written.
    :param more: on which side neighbours are left out: ``left``, ``right``, or none.
    """

    node: Node
    x: float
    y: float
    name: str
    home: str
    detail: str
    more: str
    is_root: bool


@dataclass(frozen=True, slots=True)
class LineageLine:
    """From a source to what was made of it.

    :param title: the tooltip.
    """

    path: str
    title: str
    kind: str


@dataclass(frozen=True, slots=True)
class LineageChart:
    """The drawing, boxes in the order in which a reader goes through them."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    lines: tuple[LineageLine, ...]
    box_width: int = WIDTH
    box_height: int = HEIGHT


def lineage_chart(graph: LineageGraph, now: datetime) -> LineageChart:
    columns = _ordered(graph)
    tallest = max(len(column) for column in columns.values())
    height = tallest * (HEIGHT + BETWEEN_ROWS) - BETWEEN_ROWS
    boxes: dict[str, Box] = {}
    for place, depth in enumerate(sorted(columns)):
        column = columns[depth]
        top = (height - (len(column) * (HEIGHT + BETWEEN_ROWS) - BETWEEN_ROWS)) / 2
        for row, node in enumerate(column):
            x = MARGIN + place * (WIDTH + BETWEEN_COLUMNS)
            boxes[node.name] = _box(graph, node, x, MARGIN + top + row * (HEIGHT + BETWEEN_ROWS), now)
    lines = tuple(_line(edge, boxes[edge.source], boxes[edge.target], now) for edge in graph.edges)
    width = len(columns) * (WIDTH + BETWEEN_COLUMNS) - BETWEEN_COLUMNS + 2 * MARGIN
    return LineageChart(width, height + 2 * MARGIN, tuple(boxes.values()), lines)


def _ordered(graph: LineageGraph) -> Mapping[int, list[Node]]:
    """The columns from the middle outwards, each in the order of its neighbours that are placed already."""
    columns: dict[int, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        columns[node.depth].append(node)
    beside: dict[str, set[str]] = defaultdict(set)
    for edge in graph.edges:
        beside[edge.source].add(edge.target)
        beside[edge.target].add(edge.source)
    heights: dict[str, float] = {}
    for depth in sorted(columns, key=abs):
        column = columns[depth]
        wanted = {node.name: _mean([heights[name] for name in beside[node.name] if name in heights]) for node in column}
        column.sort(key=lambda node: (wanted[node.name], node.name))
        for row, node in enumerate(column):
            heights[node.name] = row - (len(column) - 1) / 2
    return columns


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _box(graph: LineageGraph, node: Node, x: float, y: float, now: datetime) -> Box:
    home, _, name = node.name.rpartition("/" if node.is_dataset else ".")
    written = "" if node.written is None else f"{node.written.kind.value} {ago(node.written.at, now)}"
    home = _clipped("dataset" if node.is_dataset else home)
    side = "" if not node.more else "left" if node.depth < 0 else "right" if node.depth > 0 else "both"
    return Box(node, x, y, _clipped(name), home, written, side, node.name == graph.table)


def _clipped(text: str) -> str:
    """Its beginning and its end, by which names of interim tables differ."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 12]}…{text[-11:]}"


def _line(edge: Edge, source: Box, target: Box, now: datetime) -> LineageLine:
    begin, end = source.x + WIDTH, target.x - 3
    from_y, to_y = source.y + HEIGHT / 2, target.y + HEIGHT / 2
    bend = max(22.0, (end - begin) / 2)
    if end < begin:  # a cycle: above everything in between
        bend = 90.0
    path = f"M{begin:g} {from_y:g}C{begin + bend:g} {from_y:g} {end - bend:g} {to_y:g} {end:g} {to_y:g}"
    return LineageLine(path, operation_in_words(edge.operation, now, times=edge.operations), edge.operation.kind.value)
