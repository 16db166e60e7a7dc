"""The page of interim tables: the producer and consumers of each, until when it is kept, and what the collector does next."""

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.pages.navigation import task_link
from airflow_snowpack.api.pages.page import Here, PageRoute, choices_of
from airflow_snowpack.interim.explanation import explain
from airflow_snowpack.interim.model import InterimTable, TableState
from airflow_snowpack.preservation import Preservation

PAGE = 50

router = APIRouter(route_class=PageRoute)


@router.get("/interim")
def interim(page: Here) -> HTMLResponse:
    asked = page.filter("dag", "run") | {"state": page.choice("state", list(TableState))}
    state = TableState(asked["state"]) if asked["state"] else None
    which = {"dag_id": asked["dag"] or None, "run_id": asked["run"] or None}
    found = page.listed(lambda cursor: page.services.installation.interim.page(**which, state=state, limit=PAGE, after=cursor))
    tables = [(table, explain(table, page.now), task_link(table.producer.task.name, page.airflow)) for table in found.items]
    return page.render_list(
        "interim.html",
        "Interim tables",
        asked,
        (tables, found.next),
        can_be_dropped=_can_be_dropped,
        states=choices_of(TableState),
    )


def _can_be_dropped(table: InterimTable) -> bool:
    kept = table.preservation is Preservation.FULL or table.is_named
    return kept and table.state is TableState.READY and not (table.pins or table.readers or table.silent_readers)
