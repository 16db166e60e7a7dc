"""From a job to the Airflow task instance that made it.

    task_link("nightly/manual__2026-11-21T06:00:00+00:00/compact[3]", "")
    # '/dags/nightly/runs/manual__2026-11-21T06%3A00%3A00%2B00%3A00/tasks/compact/mapped/3'

The addresses are those of Airflow 3's own UI: ``dags/:dagId/runs/:runId/tasks/:taskId`` and ``…/mapped/:mapIndex``.
"""

import re
from urllib.parse import quote

from fastapi import Request

MOUNTED_AT = "/snowpack"
# Neither a DAG's id nor a task's may hold a slash.
OWNER = re.compile(r"(?P<dag>[^/]+)/(?P<run>.+)/(?P<task>[^/\[\]]+)(\[(?P<index>\d+)\])?")


def airflow_root(request: Request) -> str | None:
    """Where the Airflow is that this app is mounted in; ``None`` when it is served alone."""
    root = str(request.scope.get("root_path", "")).rstrip("/")
    # Only an app that is served alone lets probes in by itself; Airflow has its own.
    alone = request.app.state.auth.probes_are_open
    return root.removesuffix(MOUNTED_AT) if root.endswith(MOUNTED_AT) and not alone else None


def task_link(owner: str | None, airflow: str | None) -> str | None:
    """The address of the task instance; ``None`` when there is none, or no Airflow to show it.

    :param owner: ``dag/run/task`` or ``dag/run/task[index]``, as ``operators/identity.py`` writes it.
    :param airflow: as :func:`airflow_root` gives it.
    """
    named = OWNER.fullmatch(owner or "")
    if named is None or airflow is None:
        return None
    dag, run, task = (quote(named[part], safe="") for part in ("dag", "run", "task"))
    mapped = "" if named["index"] is None else f"/mapped/{named['index']}"
    return f"{airflow}/dags/{dag}/runs/{run}/tasks/{task}{mapped}"
