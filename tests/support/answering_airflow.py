"""An Airflow that tells how its runs and their tasks stand, as its REST API does: a real HTTP server.

    with answering_airflow({("flights", "r1"): RunTold("running", {"clean": {-1: "success"}})}) as address:
        AirflowRest(address, token="t")

A run that is not in the dictionary is one that somebody deleted. The dictionary may change while it is served.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import unquote

from http_stand_in import AnswersByPath


@dataclass(frozen=True)
class RunTold:
    """A run, and the states of its tasks by map index."""

    state: str
    tasks: Mapping[str, Mapping[int, str | None]] = field(default_factory=dict)


@contextmanager
def answering_airflow(runs: Mapping[tuple[str, str], RunTold]) -> Iterator[str]:
    """Serve it; gives its address."""

    with AnswersByPath(partial(_answer, runs)) as service:
        yield f"http://{service.address}"


def _answer(runs: Mapping[tuple[str, str], RunTold], path: str, query: dict[str, list[str]]) -> tuple[int, Any]:
    match [unquote(part) for part in path.removeprefix("/api/v2/").split("/")]:
        case ["dags", dag_id, "dagRuns", run_id, *rest]:
            run = runs.get((dag_id, run_id))
            if run is None:
                return 404, {"detail": f"The DagRun with dag_id: `{dag_id}` and run_id: `{run_id}` was not found"}
            if rest == ["taskInstances"]:
                return 200, _instances(run, query["task_id"][0])
            return 200, {"dag_id": dag_id, "dag_run_id": run_id, "state": run.state}
    return 404, {"detail": "Not Found"}


def _instances(run: RunTold, task_id: str) -> dict[str, Any]:
    states = run.tasks.get(task_id, {})
    found = [{"task_id": task_id, "map_index": index, "state": state} for index, state in states.items()]
    return {"task_instances": found, "total_entries": len(found)}
