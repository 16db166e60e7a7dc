"""The home page: what maintenance did last night, what failed and for which cause, and which tables need it most."""

from fastapi import APIRouter, Response

from airflow_snowpack.api.pages.page import Here, HtmlPage, PageRoute
from airflow_snowpack.inventory import TableScores
from airflow_snowpack.maintenance.digest import MOST_CAUSES, PERIOD, Digest, read_digest
from airflow_snowpack.notifications import Notifications

EXPENSIVE_JOBS = 1_000
"""The digest of more jobs is kept for a minute: a page that is open refreshes itself."""
NEEDIEST = 5
MOST_NAMED = 20
FORMER = ("search", "database", "show", "after")
"""Parameters of the list of tables, which was at this address."""

router = APIRouter(route_class=PageRoute)


@router.get("/")
def home(page: Here) -> Response:
    if any(name in page.request.query_params for name in FORMER):
        return page.redirect(f"tables?{page.request.url.query}")
    digest = _digest(page)
    scores = TableScores(page.services.jobs.store, page.services.inventory)
    passes = page.services.installation.fleet_passes.list(limit=1).items
    return page.render(
        "home.html",
        "Last night",
        digest=digest,
        hours=int(PERIOD.total_seconds() // 3600),
        most=MOST_NAMED,
        most_causes=MOST_CAUSES,
        needy=[each for each in scores.page(limit=NEEDIEST).items if each.condition in ("unreadable", "sick", "fair")],
        undelivered=Notifications(page.services.jobs.store).undelivered(),
        last_pass=passes[0] if passes else None,
        table_path=lambda dotted: "/ui/tables/" + "/".join(dotted.rpartition(".")[::2]),
    )


def _digest(page: HtmlPage) -> Digest:
    state, now = page.request.app.state, page.now
    kept: Digest | None = getattr(state, "digest", None)
    if kept is not None and kept.jobs + kept.active > EXPENSIVE_JOBS and 0 <= (now - kept.until).total_seconds() < 60:
        return kept
    services = page.services
    digest = state.digest = read_digest(services.jobs, TableScores(services.jobs.store, services.inventory))
    return digest
