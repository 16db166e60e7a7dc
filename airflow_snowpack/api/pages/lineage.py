"""The lineage page: a graph of upstream and downstream tables, and the table's operations."""

from urllib.parse import urlencode

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.pages.lineage_chart import lineage_chart
from airflow_snowpack.api.pages.links import task_link
from airflow_snowpack.api.pages.page import Here, Page, PageRoute
from airflow_snowpack.builds.errors import DatasetNotFound
from airflow_snowpack.lineage.graph import DEEPEST, DEPTH, Direction, Lineage
from airflow_snowpack.lineage.operation import Operation
from airflow_snowpack.store import InvalidCursor, Page as PageOf
from airflow_snowpack.wire.lineage import full_name

PAGE = 50
WAYS: dict[str, tuple[str, tuple[Direction, ...]]] = {
    "up": ("Upstream", (Direction.UP,)),
    "": ("Both", tuple(Direction)),
    "down": ("Downstream", (Direction.DOWN,)),
}

router = APIRouter(route_class=PageRoute)


@router.get("/lineage")
def lineage(page: Here) -> HTMLResponse:
    store = page.services.jobs.store
    asked = {"table": page.asked("table"), "way": page.asked("way"), "depth": page.asked("depth")}
    way = asked["way"] if asked["way"] in WAYS else ""
    depth = _depth(asked["depth"])
    walk = Lineage(store)
    name = _name(page, asked["table"])
    graph = walk.around(name, depth, WAYS[way][1]) if name else None
    return page.render(
        "lineage.html",
        f"Lineage of {name}" if name else "Lineage",
        asked=asked | {"way": way},
        depth=depth,
        ways=[(value, label) for value, (label, _) in WAYS.items()],
        graph=graph,
        chart=lineage_chart(graph, page.now) if graph is not None and graph.is_known else None,
        operations=_operations(page, walk, name),
        after=page.asked("after"),
        summary=summary,
        url=lambda **changes: urlencode({key: value for key, value in (asked | changes).items() if value}),
        task_address=lambda operation: task_link(operation.task.name, page.airflow) if operation.task else None,
    )


def summary(operation: Operation) -> str:
    """What more is known of an operation, in a line."""
    detail = dict(operation.detail)
    action, message = detail.pop("action", None), detail.pop("message", None)
    if action is not None:
        return f"{str(action).replace('_', ' ')}: {message or detail.get('outcome', '')}"
    layers = detail.pop("layers", None)
    parts = [f"{len(layers)} layers"] if isinstance(layers, list) else []
    simple = [f"{key.replace('_', ' ')} {value}" for key, value in detail.items() if isinstance(value, str | int | float)]
    return ", ".join(parts + simple)


def _depth(text: str) -> int:
    return min(max(int(text), 1), DEEPEST) if text.isascii() and text.isdigit() and len(text) < 4 else DEPTH


def _name(page: Page, given: str) -> str:
    """Return the whole name; a word that is no dataset stays unchanged."""
    if not given:
        return ""
    try:
        return full_name(page.services.jobs.store, given, page.services.inventory.catalog_name)
    except DatasetNotFound:
        return given


def _operations(page: Page, walk: Lineage, name: str) -> PageOf[Operation]:
    def read(after: str | None) -> PageOf[Operation]:
        return walk.log.of_table(name, limit=PAGE, after=after) if name else walk.log.latest(limit=PAGE, after=after)

    try:
        return read(page.asked("after") or None)
    except InvalidCursor:
        return read(None)
