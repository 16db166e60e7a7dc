"""The page of a table: its score and what lowers it, its files and partitions, its plan, and what happened to it.

All of it is from stored rows, by a bounded number of statements: a catalog that does not answer slows the page down no more than
a table with a million files does. The button "Read again" reads the metadata.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.pages.drawing import LineChart, Series, line_chart, size_chart
from airflow_snowpack.api.pages.figures import FULL
from airflow_snowpack.api.pages.page import Here, Page, PageRoute
from airflow_snowpack.api.pages.tables import did, ended, suggested
from airflow_snowpack.api.parameters import NamedTable
from airflow_snowpack.iceberg import TableHealth, TableName, TableNotFound
from airflow_snowpack.inventory import Condition, HealthPoint
from airflow_snowpack.jobs import PRIORITIES, JobFilter, explain_tables
from airflow_snowpack.lineage.graph import Lineage, LineageGraph
from airflow_snowpack.maintenance.fleet import EntryState, PassEntry
from airflow_snowpack.maintenance.planning import TablePlan
from airflow_snowpack.maintenance.planning.table_plan import plan_table
from airflow_snowpack.maintenance.policies import InvalidPolicies, PoliciesNotFound
from airflow_snowpack.wire.plan import work

TREND_DAYS = 30
PARTITIONS = 10
JOBS = 8
CHART_WIDTH = 600
"""Of a chart that has one column of the page."""

router = APIRouter(route_class=PageRoute)


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
    history = records.history(name, TREND_DAYS)
    planned = _plan(page, name, health) if health else None
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
        score_trend=line_chart([_series("score", "running", history)], width=CHART_WIDTH) if history else None,
        files_trend=_files_trend(history) if history else None,
        points=list(reversed(history)),
        partitions=[each for each in health.partitions if each.label][:PARTITIONS] if health else [],
        planned=planned,
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
        actions=services.order,
        priorities=PRIORITIES,
        suggested=suggested,
    )


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan of a table from its stored health.

    :param plan: ``None`` when there is a problem.
    :param problem: why the policies cannot be used.
    :param is_inexact: the health was read with other bounds than those of the policy.
    """

    plan: TablePlan | None
    problem: str | None = None
    is_inexact: bool = False


def _plan(page: Page, name: TableName, health: TableHealth) -> Planned:
    services = page.services
    try:
        policy = services.installation.policies.of(name, health.properties)
    except (InvalidPolicies, PoliciesNotFound) as problem:
        return Planned(None, str(problem))
    history = services.jobs.action_histories([name])[name]
    plan = plan_table(health, policy, now=page.now, history=history, order=services.order)
    return Planned(plan, is_inexact=policy.bounds != health.bounds)


def _waits(page: Page, name: TableName) -> PassEntry | None:
    entry = page.services.installation.fleet_passes.latest_entry(name)
    return entry if entry is not None and entry.state is EntryState.WAITING else None


def _series(label: str, tone: str, history: Sequence[HealthPoint]) -> Series:
    name = label.replace(" ", "_")
    return Series(label, tone, [(point.read_at, getattr(point, name)) for point in history])


def _files_trend(history: Sequence[HealthPoint]) -> LineChart:
    tones = {"data files": "running", "small files": "waiting", "delete files": "deletes"}
    return line_chart([_series(label, tone, history) for label, tone in tones.items()], width=CHART_WIDTH)


def _neighbours(graph: LineageGraph, depth: int) -> list[str]:
    return [node.name for node in graph.nodes if node.depth == depth]
