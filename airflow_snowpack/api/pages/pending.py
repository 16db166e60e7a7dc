"""The queue of pending jobs: what waits for its trigger, for its constraints, or to be started.

Below it, where nothing narrows the page, the runs that have begun and wait at a gate of their own for the same constraints.
"""

from urllib.parse import urlencode

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.pages.links import run_link
from airflow_snowpack.api.pages.page import Here, PageRoute
from airflow_snowpack.scheduling import PendingQueue, PendingState, QueuedRun, longest_at_gates
from airflow_snowpack.store import InvalidCursor
from airflow_snowpack.store.paging import Page

PAGE = 50
WORDS = {
    PendingState.TRIGGER: "waits for its trigger",
    PendingState.CONSTRAINT: "waits for its constraints",
    PendingState.LAUNCH: "starting",
}
TONES = {PendingState.TRIGGER: "pending", PendingState.CONSTRAINT: "partial", PendingState.LAUNCH: "running"}

router = APIRouter(route_class=PageRoute)


@router.get("/pending")
def pending(page: Here) -> HTMLResponse:
    queue = PendingQueue(page.services.jobs.store)
    asked = {name: page.asked(name) for name in ("schedule", "state")}
    state = asked["state"] if asked["state"] in WORDS else ""
    states, cursor = [PendingState(state)] if state else [], page.asked("cursor")
    counts = queue.count_by_state()
    shown = _page(queue, states, asked["schedule"], cursor)
    gated = [] if state or cursor or asked["schedule"] else longest_at_gates(page.services.jobs.store, PAGE + 1)
    return page.render(
        "pending.html",
        "Pending",
        jobs=shown.items,
        next=shown.next,
        gated=[(each, run_link(each.place.dag_id, each.place.run_id, page.airflow)) for each in gated[:PAGE]],
        more_gated=len(gated) > PAGE,
        cursor=cursor,
        asked=asked | {"state": state},
        counts=counts,
        everything=sum(counts.values()),
        words=WORDS,
        tones=TONES,
        url=lambda **changes: urlencode({name: value for name, value in (asked | changes).items() if value}),
    )


def _page(queue: PendingQueue, states: list[PendingState], schedule: str, cursor: str) -> Page[QueuedRun]:
    """Return the page; the first one for an invalid cursor."""
    try:
        return queue.page(states=states, schedule=schedule or None, after=cursor or None, limit=PAGE)
    except InvalidCursor:
        return queue.page(states=states, schedule=schedule or None, limit=PAGE)
