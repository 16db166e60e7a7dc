"""DAG runs from outside of a task, through Airflow's REST API.

RestDagRuns(AirflowRest.from_connection("snowpack_airflow")).start(launch)
"""

from __future__ import annotations

import sys
from datetime import datetime
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow_snowpack.hooks.api_client import AirflowRest, Answer
from airflow_snowpack.hooks.dag_runs import ACTIVE, AirflowDagRuns, RunState, told
from airflow_snowpack.hooks.errors import AirflowRefuses
from airflow_snowpack.scheduling.airflow_port import EndsFound, FreeSlots, NotStarted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from airflow_snowpack.scheduling.airflow_port import EndedRun, EndsQuery, Launch, Slots

NOT_FOUND, CONFLICT = 404, 409
NO_LIMIT = -1
"""What the API says of a pool whose slots are not counted."""
ENDED = ("success", "failed")
IN_A_POOL = ("queued", "running", "deferred")
PAGE = 100


class RestDagRuns(AirflowDagRuns):
    """Asks the REST API."""

    def __init__(self, rest: AirflowRest) -> None:
        self._rest = rest

    def free_slots(self, pools: Iterable[str]) -> Mapping[str, Slots]:
        return {pool: told(partial(self._slots_of, pool)) for pool in pools}

    def _slots_of(self, pool: str) -> Slots:
        every = self._pages("/dags/~/dagRuns/~/taskInstances", "task_instances", pool=[pool], state=list(IN_A_POOL))
        taken_by = frozenset((task["dag_id"], task["dag_run_id"]) for task in every)
        answer = self._found(f"/pools/{_quoted(pool)}", pool)
        if answer is None:
            return None
        free = int(answer["open_slots"])
        return FreeSlots(sys.maxsize if free == NO_LIMIT == int(answer["slots"]) else free, taken_by)

    def is_paused(self, dag_id: str) -> bool | None:
        dag = self._found(f"/dags/{_quoted(dag_id)}", dag_id)
        return None if dag is None else bool(dag["is_paused"])

    def is_missing(self, dag_id: str) -> bool:
        """Whether Airflow has no such DAG, or its file is gone. A file that does not parse is there: its author will fix it."""
        dag = self._found(f"/dags/{_quoted(dag_id)}", dag_id)
        return dag is None or bool(dag.get("is_stale") and not dag.get("has_import_errors"))

    def trigger(self, launch: Launch) -> NotStarted | None:
        note = f"Started by the Snowpack schedule {launch.schedule}."
        body = {"dag_run_id": launch.run_id, "logical_date": None, "conf": dict(launch.conf), "note": note}
        answer = self._rest.ask("POST", f"/dags/{_quoted(launch.dag_id)}/dagRuns", body=body)
        if answer.is_ok or (answer.status == CONFLICT and self.find(launch.dag_id, launch.run_id) is not None):
            return None
        if answer.status == NOT_FOUND:  # the DAG was there a moment ago, so that it is one that Airflow calls stale
            return NotStarted(f"the file of the DAG {launch.dag_id} is gone, or does not parse any more ({answer.says})")
        return NotStarted(answer.says, may_exist=True)

    def find(self, dag_id: str, run_id: str) -> RunState | None:
        run = self._found(f"/dags/{_quoted(dag_id)}/dagRuns/{_quoted(run_id)}", run_id)
        if run is None:
            return None
        return _state_of(run)

    def ended_runs(self, asked: Sequence[EndsQuery]) -> Mapping[str, EndsFound]:
        """Every end since the earliest of the moments; what is on record already is told again, and does no harm."""
        found: dict[str, dict[str, EndedRun]] = {one.dag_id: {} for one in asked}
        wanted = {
            "dag_ids": sorted(found),
            "states": list(ENDED),
            "end_date_gte": min(one.since for one in asked).isoformat(),
            "order_by": "id",
            "page_limit": PAGE,
        }
        for offset in count(0, PAGE):
            answer = self._rest.ask("POST", "/dags/~/dagRuns/list", body={**wanted, "page_offset": offset})
            page = _required(answer, "/dags/~/dagRuns/list")["dag_runs"]
            for run in page:
                found[run["dag_id"]][run["dag_run_id"]] = _state_of(run).to_ended()
            if len(page) < PAGE:
                break
        return {dag_id: EndsFound(ends) for dag_id, ends in found.items()}

    def count_active(self, dag_id: str, among: frozenset[str]) -> tuple[int, int]:
        runs = self._pages(f"/dags/{_quoted(dag_id)}/dagRuns", "dag_runs", of=dag_id, state=list(ACTIVE))
        active = {run["dag_run_id"] for run in runs}
        return len(active), len(active & among)

    def gone_dags(self) -> frozenset[str]:
        """The DAGs that Airflow had and knows to be gone. One whose file does not parse is not: its author will mend it."""
        every = self._pages("/dags", "dags", exclude_stale=False)
        return frozenset(dag["dag_id"] for dag in every if dag["is_stale"] and not dag["has_import_errors"])

    def _found(self, path: str, name: str) -> Any:
        """What stands there; ``None`` when Airflow says that there is nothing of this name."""
        answer = self._rest.ask("GET", path)
        if answer.says_there_is_no(name):
            return None
        return _required(answer, path)

    def _pages(self, path: str, key: str, *, of: str | None = None, **params: Any) -> Iterator[Any]:
        """:param of: whose they are; where there is nothing of this name, there is nothing on its pages either."""
        offset = 0
        while True:
            answer = self._rest.ask("GET", path, params={"limit": PAGE, "offset": offset, **params})
            page = [] if of is not None and answer.says_there_is_no(of) else _required(answer, path)[key]
            yield from page
            offset += PAGE
            if len(page) < PAGE:
                return


def _required(answer: Answer, path: str) -> Any:
    if not answer.is_ok:
        raise AirflowRefuses(f"it refuses GET {path}: {answer.says}")
    return answer.body


def _state_of(run: Any) -> RunState:
    began_at, ended_at = (datetime.fromisoformat(run[name]) if run[name] else None for name in ("start_date", "end_date"))
    return RunState(str(run["state"]), ended_at, began_at)


def _quoted(part: str) -> str:
    return quote(part, safe="")
