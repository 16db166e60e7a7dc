"""The permission to start a DAG is checked for the DAG that a change really starts, without locks while the answer is awaited."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_snowpack.scheduling import CustomEvents, Schedule, Schedules, run_now
from airflow_snowpack.scheduling.errors import DagNotAllowed
from airflow_snowpack.store import Actor

GO = CustomEvents("go")


@pytest.mark.parametrize("change", [lambda of: of.resume("s"), lambda of: run_now(of, "s")], ids=["resume", "run"])
def test_a_schedule_that_gets_another_dag_while_the_permission_is_checked_does_not_start_it(scheduler: Any, change: Any) -> None:
    scheduler.schedules.create(Schedule("s", dag_id="mine", trigger=GO))
    asked = []

    def may_start(dag_id: str) -> bool:
        asked.append(dag_id)
        if dag_id == "mine":  # another user is faster; this would wait for a lock that the change still has
            scheduler.schedules.update(Schedule("s", dag_id="payroll", trigger=GO))
        return dag_id == "mine"

    limited = Schedules(scheduler.store, catalog="lake", actor=Actor("olga", "api"), may_start=may_start)
    with pytest.raises(DagNotAllowed, match="olga may not start the DAG 'payroll'"):
        change(limited)
    assert asked == ["mine", "payroll"]
    assert (scheduler.schedules.get("s").enabled, scheduler.pending("s")) == (False, [])
