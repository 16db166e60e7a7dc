"""The page of interim tables: who made each, who needs it still, until when, and what the collector makes of it."""

from dataclasses import dataclass
from urllib.parse import urlencode

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.pages.links import task_link
from airflow_snowpack.api.pages.page import Here, Page, PageRoute
from airflow_snowpack.interim.explanation import Explanation, explain
from airflow_snowpack.interim.model import InterimTable, TableState
from airflow_snowpack.preservation import Preservation
from airflow_snowpack.store.errors import InvalidCursor
from airflow_snowpack.store.paging import Page as ListPage

PAGE = 50
TONES = {TableState.WRITING: "running", TableState.READY: "succeeded", TableState.DROPPING: "cancelled"}

router = APIRouter(route_class=PageRoute)


@dataclass(frozen=True, slots=True)
class Shown:
    """A table as the page has it.

    :param made_at: the task instance in Airflow's own UI, if there is one around.
    :param can_be_dropped: a user may release the table: it is preserved and has no consumers.
    """

    table: InterimTable
    explanation: Explanation
    made_at: str | None
    can_be_dropped: bool


@router.get("/interim")
def interim(page: Here) -> HTMLResponse:
    asked = {name: page.asked(name) for name in ("dag", "run", "state")}
    state = TableState(asked["state"]) if asked["state"] in list(TableState) else None
    found = _found(page, asked, state)
    return page.render(
        "interim.html",
        "Interim tables",
        tables=[_shown(page, table) for table in found.items],
        next=found.next,
        cursor=page.asked("cursor"),
        asked=asked | {"state": state.value if state else ""},
        states=list(TableState),
        tones=TONES,
        url=lambda **changes: urlencode({name: value for name, value in (asked | changes).items() if value}),
    )


def _found(page: Page, asked: dict[str, str], state: TableState | None) -> ListPage[InterimTable]:
    """Return the page; the first one for an invalid cursor."""
    registry, which = page.services.interim(), {"dag_id": asked["dag"] or None, "run_id": asked["run"] or None}
    try:
        return registry.page(**which, state=state, limit=PAGE, after=page.asked("cursor") or None)
    except InvalidCursor:
        return registry.page(**which, state=state, limit=PAGE)


def _shown(page: Page, table: InterimTable) -> Shown:
    producer = table.producer
    mapped = f"[{producer.map_index}]" if producer.map_index >= 0 else ""
    owner = f"{producer.dag_id}/{producer.run_id}/{producer.task_id}{mapped}"
    kept = table.preservation is Preservation.FULL or table.is_named
    free = table.state is TableState.READY and not (table.pins or table.readers or table.silent_readers)
    return Shown(table, explain(table, page.now), task_link(owner, page.airflow), kept and free)
