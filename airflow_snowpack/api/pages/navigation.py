"""The menu of the pages, and the links from them to task instances and DAG runs in Airflow's own UI.

    task_link("nightly/manual__2026-11-21T06:00:00+00:00/compact[3]", "")
    # '/dags/nightly/runs/manual__2026-11-21T06%3A00%3A00%2B00%3A00/tasks/compact/mapped/3'

The addresses are those of Airflow 3's own UI: ``dags/:dagId/runs/:runId/tasks/:taskId`` and ``…/mapped/:mapIndex``.
"""

from typing import NamedTuple
from urllib.parse import quote

from fastapi import Request

from airflow_snowpack.airflow.task_ref import TaskRef

MOUNTED_AT = "/snowpack"


class Place(NamedTuple):
    """A page of the menu.

    :param key: pressed after ``g``, it opens the page.
    :param templates: of the page and of the pages below it.
    """

    label: str
    address: str
    key: str
    templates: tuple[str, ...]


class Group(NamedTuple):
    """An item of the menu. It opens its first page, and lists the others while one of them is open."""

    label: str
    places: tuple[Place, ...]

    def shows(self, template: str) -> bool:
        """Whether the page of this template belongs to the group."""
        return any(template in place.templates for place in self.places)


# In the order in which people look for something.
MENU = (
    Group("Last night", (Place("Last night", "/ui/", "h", ("home",)),)),
    Group("Tables", (Place("Tables", "/ui/tables", "t", ("tables", "table", "table_metadata")),)),
    Group("Jobs", (Place("Jobs", "/ui/jobs", "j", ("jobs", "job")),)),
    Group(
        "Schedules",
        (
            Place("Schedules", "/ui/schedules", "s", ("schedules", "schedule", "schedule_runs")),
            Place("Pending runs", "/ui/pending", "p", ("pending",)),
            Place("Events", "/ui/events", "e", ("events",)),
        ),
    ),
    Group(
        "Data",
        (
            Place("Builds", "/ui/builds", "b", ("builds", "build", "build_run")),
            Place("Interim tables", "/ui/interim", "i", ("interim",)),
            Place("Lineage", "/ui/lineage", "n", ("lineage",)),
        ),
    ),
    Group(
        "Operations",
        (
            Place("Queue", "/ui/queue", "q", ("queue",)),
            Place("Locks", "/ui/locks", "l", ("locks",)),
            Place("Removals", "/ui/removals", "d", ("removals", "removal")),
            Place("Images", "/ui/images", "m", ("images", "image")),
            Place("Audit trail", "/ui/audit", "a", ("audit",)),
        ),
    ),
)


def airflow_root(request: Request) -> str | None:
    """Where the Airflow is that this app is mounted in; ``None`` when it is served alone."""
    root = str(request.scope.get("root_path", "")).rstrip("/")
    # Only an app that is served alone lets probes in by itself; Airflow has its own.
    alone = request.app.state.auth.probes_are_open
    return root.removesuffix(MOUNTED_AT) if root.endswith(MOUNTED_AT) and not alone else None


def task_link(owner: str | None, airflow: str | None) -> str | None:
    """Return the address of a task instance; ``None`` when there is no owner, or no Airflow to show it."""
    ref = TaskRef.parse(owner)
    if ref is None or airflow is None:
        return None
    dag, run, task = (quote(part, safe="") for part in (ref.dag_id, ref.run_id, ref.task_id))
    mapped = f"/mapped/{ref.map_index}" if ref.map_index >= 0 else ""
    return f"{airflow}/dags/{dag}/runs/{run}/tasks/{task}{mapped}"


def run_link(dag_id: str, run_id: str | None, airflow: str | None) -> str | None:
    """Return the address of a DAG run; ``None`` when there is no run, or no Airflow to show it."""
    if run_id is None or airflow is None:
        return None
    return f"{airflow}/dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe='')}"
