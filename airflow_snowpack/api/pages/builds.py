"""The list of datasets: what readers of each see, since when, and how new it is."""

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.pages.page import Here, PageRoute

PAGE = 50

router = APIRouter(route_class=PageRoute)


@router.get("/builds")
def builds(page: Here) -> HTMLResponse:
    after = page.asked("after")
    found = page.services.builds().registry.datasets(limit=PAGE, after=after or None)
    return page.render(
        "builds.html",
        "Builds",
        datasets=found.items,
        after=after,
        next=found.next,
    )
