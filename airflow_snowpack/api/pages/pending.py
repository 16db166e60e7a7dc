"""The queue of pending jobs: what waits for its trigger, for its constraints, or to be started."""

from urllib.parse import urlencode

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.pages.page import Here, PageRoute
from airflow_snowpack.scheduling import InvalidPendingCursor, PendingPage, PendingQueue, PendingState

PAGE = 50
WORDS = {
    PendingState.TRIGGER: "waits for its trigger",
    PendingState.CONSTRAINT: "waits for its constraints",
    PendingState.LAUNCH: "is being started",
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
    return page.render(
        "pending.html",
        "Pending",
        jobs=shown.jobs,
        next=shown.next,
        cursor=cursor,
        asked=asked | {"state": state},
        counts=counts,
        everything=sum(counts.values()),
        words=WORDS,
        tones=TONES,
        url=lambda **changes: urlencode({name: value for name, value in (asked | changes).items() if value}),
    )


def _page(queue: PendingQueue, states: list[PendingState], schedule: str, cursor: str) -> PendingPage:
    """A page; the first one for a cursor that somebody has bent."""
    try:
        return queue.page(states=states, schedule=schedule or None, after=cursor or None, limit=PAGE)
    except InvalidPendingCursor:
        return queue.page(states=states, schedule=schedule or None, limit=PAGE)
