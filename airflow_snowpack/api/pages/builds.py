"""The pages of builds: the datasets, one dataset with its runs, publications and cleanup, and one run with its shards."""

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.pages.charts import skew_chart
from airflow_snowpack.api.pages.navigation import task_link
from airflow_snowpack.api.pages.page import Here, HtmlPage, PageRoute
from airflow_snowpack.api.problems import InvalidRequest
from airflow_snowpack.api.routes.builds import MAX_RUNS, DatasetName, RunName, checked_run
from airflow_snowpack.builds.manager import BuildManager, can_publish, can_roll_back_to
from airflow_snowpack.builds.model import CleanupPhase, Retention
from airflow_snowpack.builds.registry.publications import audit_subject
from airflow_snowpack.durations import parse_duration
from airflow_snowpack.wire.build import cleanup_body, key_text
from airflow_snowpack.wire.shape import Body

router = APIRouter(route_class=PageRoute)

DATASETS = 50
RUNS = 50
PUBLICATIONS = 20
SHOWN_ACTIONS = 200
PHASES = {
    CleanupPhase.LOSERS: "Losing attempts",
    CleanupPhase.STALE_ATTEMPTS: "Failed and abandoned runs",
    CleanupPhase.OLD_RUNS: "Old runs",
}
SHARDS = 100


@router.get("/builds")
def builds(page: Here) -> HTMLResponse:
    found = page.services.builds().registry.datasets(limit=DATASETS, after=page.asked("cursor") or None)
    return page.render_list("builds.html", "Builds", {}, (found.items, found.next))


@router.get("/builds/{dataset}")
def build(page: Here, dataset: DatasetName) -> HTMLResponse:
    manager = page.services.builds()
    known = manager.registry.dataset(dataset)
    cursor = page.asked("cursor")
    found = manager.registry.runs(dataset, limit=RUNS, before=checked_run(dataset, cursor) if cursor else None)
    asked = {"keep_runs": page.asked("keep_runs") or "7", "stale_attempt_age": page.asked("stale_attempt_age") or "1d"}
    return page.render(
        "build.html",
        f"Dataset {dataset}",
        asked,
        known=known,
        runs=found.items,
        cursor=cursor,
        next=found.next,
        can_roll_back_to=can_roll_back_to,
        moves=manager.registry.publications(dataset, limit=PUBLICATIONS),
        plan=_plan(page, manager, dataset, asked) if page.asked("plan") else None,
        shown=SHOWN_ACTIONS,
        phases=PHASES,
        audit=page.changes(audit_subject(dataset)),
    )


def _plan(page: HtmlPage, manager: BuildManager, dataset: str, asked: dict[str, str]) -> Body:
    keep = asked["keep_runs"]
    if not (keep.isascii() and keep.isdigit() and 1 <= int(keep) <= MAX_RUNS):
        raise InvalidRequest.at("keep_runs", f"it must be a whole number from 1 to {MAX_RUNS}")
    try:
        retention = Retention(int(keep), parse_duration(asked["stale_attempt_age"]))
    except ValueError as error:
        raise InvalidRequest.at("stale_attempt_age", f"it {error}") from None
    actions = page.services.ask_storage(dataset, lambda: manager.cleanup(dataset, retention, actor=None))
    return cleanup_body(dataset, actions, dry_run=True)


@router.get("/builds/{dataset}/runs/{run_id}")
def build_run(page: Here, dataset: DatasetName, run_id: RunName) -> HTMLResponse:
    manager = page.services.builds()
    known = manager.registry.dataset(dataset)
    after = -1 if (shard := page.number("cursor", digits=6)) is None else shard
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
