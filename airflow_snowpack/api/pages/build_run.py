"""The page of one run: its shards with winners and losers, how unevenly they are filled, and what can be done with it."""

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.build_bodies import key_text
from airflow_snowpack.api.build_parameters import checked_run
from airflow_snowpack.api.pages.build import checked_dataset
from airflow_snowpack.api.pages.page import Here, PageRoute
from airflow_snowpack.api.pages.skew_chart import skew_chart
from airflow_snowpack.api.pages.task_link import task_link
from airflow_snowpack.builds.run_inspection import can_publish, can_roll_back_to

SHARDS = 100

router = APIRouter(route_class=PageRoute)


@router.get("/builds/{dataset}/runs/{run_id}")
def build_run(dataset: str, run_id: str, page: Here) -> HTMLResponse:
    manager = page.services.builds()
    known = manager.registry.dataset(checked_dataset(dataset))
    checked_run(dataset, run_id)
    asked = page.asked("after")
    after = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 7 else -1
    seen = page.services.ask_storage(dataset, lambda: manager.inspect(dataset, run_id, after=after, limit=SHARDS))
    manifest = seen.manifest
    return page.render(
        "build_run.html",
        f"Run {run_id} of {dataset}",
        known=known,
        run=seen.run,
        seen=seen,
        manifest=manifest,
        chart=skew_chart(manifest.shards) if manifest is not None and manifest.rows else None,
        after=after,
        next=seen.shards[-1].shard_id if seen.more and seen.shards else None,
        page_size=SHARDS,
        owner_link=task_link(seen.run.owner, page.airflow),
        may_publish=can_publish(seen.run),
        may_roll_back=can_roll_back_to(seen.run, known.current_run),
        key_text=key_text,
    )
