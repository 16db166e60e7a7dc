"""The pages of tables: the list, those that need maintenance most first, and one table with its score, plan and jobs.

These are made from stored rows, by a bounded number of statements: a catalog that does not answer delays none of them. The page
of a table's snapshots and schema loads the table once, and shows its stored health if that takes too long.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.pages.charts import LineChart, Series, heat_map, line_chart, size_chart
from airflow_snowpack.api.pages.figures import FULL
from airflow_snowpack.api.pages.page import Here, HtmlPage, PageRoute
from airflow_snowpack.api.parameters import NamedTable
from airflow_snowpack.api.routes.tables import read_description
from airflow_snowpack.iceberg import TableHealth, TableName, TableNotFound
from airflow_snowpack.inventory import Condition, HealthPoint
from airflow_snowpack.jobs import PRIORITIES, Job, JobFilter, JobStatus, TableExplanation, explain_tables
from airflow_snowpack.lineage.graph import Lineage, LineageGraph
from airflow_snowpack.maintenance import Action, in_order
from airflow_snowpack.maintenance.fleet import EntryState, PassEntry
from airflow_snowpack.maintenance.options import usable_actions
from airflow_snowpack.maintenance.planning import TablePlan
from airflow_snowpack.maintenance.planning.table_plan import plan_table
from airflow_snowpack.maintenance.policies import InvalidPolicies, PoliciesNotFound
from airflow_snowpack.maintenance.table_list import Order, Show, list_tables
from airflow_snowpack.wire.plan import work
from airflow_snowpack.wire.table_metadata import partition_text, snapshots_after

PAGE = 50
STALE_AFTER_S = 600

SHOWN = {"": "All", Show.FAILED: "Last job failed", Show.NEVER: "Never maintained", Show.RUNNING: "Waiting or running"}
ORDERS = {"": "Need", Order.NAME: "Name"}

TREND_DAYS = 30
PARTITIONS = 10
JOBS = 8
SNAPSHOTS = 50
MOST_NAMES = 300
"""Of branches and tags, and of columns."""
FILES = {"data files": "running", "small files": "waiting", "delete files": "deletes"}
CHART_WIDTH = 600
"""Of a chart that has one column of the page."""

router = APIRouter(route_class=PageRoute)


@router.get("/tables")
def tables(page: Here) -> HTMLResponse:
    asked = page.filter("database", "search") | {"show": page.choice("show", SHOWN), "order": page.choice("order", ORDERS)}
    services = page.services
    state = services.inventory.state()
    found = page.listed(
        lambda after: list_tables(
            services.jobs,
            services.inventory,
            database=asked["database"] or None,
            search=asked["search"] or None,
            show=Show(asked["show"]) if asked["show"] else None,
            order=Order(asked["order"] or Order.NEED),
            after=after,
            limit=PAGE,
        )
    )
    return page.render_list(
        "tables.html",
        "Tables",
        asked,
        (found.items, found.next),
        narrowed=any([asked["database"], asked["search"], asked["show"], page.asked("cursor")]),
        searched=found.searched,
        state=state,
        stale=state.refreshed_at is not None and (page.now - state.refreshed_at).total_seconds() > STALE_AFTER_S,
        orders=list(ORDERS.items()),
        shown=[(value, label, None) for value, label in SHOWN.items()],
        actions=in_order(usable_actions(), services.order),
        priorities=PRIORITIES,
        suggested=suggested,
        did=did,
        ended=ended,
    )


def suggested(each: TableExplanation) -> str:
    """The actions that the newest dry run found work for, else the two that nearly every table needs."""
    if each.plan is not None:
        found = [result.action for result in each.plan.results if result.success and result.has_work]
        if found:
            return " ".join(found)
    return f"{Action.REWRITE_DATA_FILES} {Action.EXPIRE_SNAPSHOTS}"


def did(job: Job) -> str:
    """What a job did, in a line."""
    if job.status is JobStatus.FAILED and job.error:
        return job.error.strip().splitlines()[0][:300]
    return "; ".join(result.message for result in job.results)[:300]


def ended(job: Job) -> datetime:
    """The moment that matters most: its end, else its start, else its submission."""
    return job.completed_at or job.started_at or job.submitted_at


@router.get("/tables/{database:name}/{table:name}")
def table(page: Here, name: NamedTable) -> HTMLResponse:
    services = page.services
    records, jobs = services.installation.health_records, services.jobs
    record = records.get([name]).get(name)
    is_listed = services.inventory.has(name)
    latest = jobs.page(JobFilter(table=name), limit=JOBS).items
    if not is_listed and record is None and not latest:
        raise TableNotFound(name.dotted, name.catalog)
    health = None if record is None else record.health
    partitions = [each for each in health.partitions if each.label] if health else []
    history = records.history(name, TREND_DAYS)
    plan, plan_problem, is_inexact = _plan(page, name, health) if health else (None, None, False)
    lineage = Lineage(jobs.store).graph(str(name), depth=1)
    condition = Condition.of(record.score.total if record and record.score else None, record.problem if record else None)
    return page.render(
        "table.html",
        name.dotted,
        table=name,
        is_listed=is_listed,
        record=record,
        health=health,
        score=record.score if record else None,
        condition=condition,
        sizes=size_chart(health.file_sizes, width=CHART_WIDTH) if health and health.data_files else None,
        score_trend=_trend(history, page.now, {"score": "running"}) if history else None,
        files_trend=_trend(history, page.now, FILES) if history else None,
        points=list(reversed(history)),
        partitions=partitions[:PARTITIONS],
        heat=heat_map(partitions) if len(partitions) > 1 else None,
        plan=plan,
        plan_problem=plan_problem,
        is_inexact=is_inexact,
        work=work,
        waits=_waits(page, name),
        explained=explain_tables(jobs, [name], {name: condition.first_step})[name],
        jobs=latest,
        schedules=services.schedules().of_table(name),
        upstream=_neighbours(lineage, -1),
        downstream=_neighbours(lineage, 1),
        full=FULL,
        did=did,
        ended=ended,
        actions=in_order(usable_actions(), services.order),
        priorities=PRIORITIES,
        suggested=suggested,
    )


@router.get("/tables/{database:name}/{table:name}/metadata")
def table_metadata(page: Here, name: NamedTable) -> HTMLResponse:
    """The only page of tables that reads from the catalog; while that does not answer, it shows the stored health."""
    found, problem = read_description(page.services, name)
    snapshots, following = page.listed(
        lambda cursor: snapshots_after(found, None if cursor is None else page.number("cursor", digits=19), SNAPSHOTS)
    )
    committed = {each.snapshot_id: each.committed_at for each in found.snapshots}
    return page.render(
        "table_metadata.html",
        name.dotted,
        {},
        table=name,
        found=found,
        problem=problem,
        snapshots=snapshots,
        cursor=page.asked("cursor"),
        next=following,
        refs=[(ref, committed.get(ref.snapshot_id)) for ref in found.refs[:MOST_NAMES]],
        most=MOST_NAMES,
        names={each.snapshot_id: [ref.name for ref in found.refs if ref.snapshot_id == each.snapshot_id] for each in snapshots},
        partitioned_by=", ".join(partition_text(field) for field in found.spec),
        partitioned={field.source for field in found.spec},
    )


def _plan(page: HtmlPage, name: TableName, health: TableHealth) -> tuple[TablePlan | None, str | None, bool]:
    """Return the plan by the stored health, why there is none, and whether that was read with other bounds than the policy's."""
    services = page.services
    try:
        policy = services.installation.policies.of(name, health.properties)
    except (InvalidPolicies, PoliciesNotFound) as problem:
        return None, str(problem), False
    history = services.jobs.action_histories([name])[name]
    plan = plan_table(health, policy, now=page.now, history=history, order=services.order)
    return plan, None, policy.bounds != health.bounds


def _waits(page: HtmlPage, name: TableName) -> PassEntry | None:
    entry = page.services.installation.fleet_passes.latest_entry(name)
    return entry if entry is not None and entry.state is EntryState.WAITING else None


def _trend(history: Sequence[HealthPoint], now: datetime, tones: Mapping[str, str]) -> LineChart:
    series = [
        Series(label, tone, [(point.read_at, getattr(point, label.replace(" ", "_"))) for point in history])
        for label, tone in tones.items()
    ]
    return line_chart(series, width=CHART_WIDTH, until=now, tips=True)


def _neighbours(graph: LineageGraph, depth: int) -> list[str]:
    return [node.name for node in graph.nodes if node.depth == depth]
