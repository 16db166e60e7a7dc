"""Planning a removal in a task, deciding on it as Airflow's HITLOperator does, and deleting it on Spark in another."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from airflow_snowpack import hooks, operators
from airflow_snowpack.maintenance.removals.model import RemovalState
from airflow_snowpack.store import Actor, AuditTrail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.catalog import Catalog

    from airflow_snowpack.hooks import SnowpackHook
    from airflow_snowpack.iceberg import TableName
    from tests.unit.faces.conftest import Outcome, Runner

LATER = "2999-01-01T00:00:00+00:00"  # after any plan of these tests
APPROVED = {
    "chosen_options": ["Approve"],
    "params_input": {"comment": "fine"},
    "responded_at": LATER,
    "responded_by_user": {"id": "7", "name": "vera"},
}
REJECTED = APPROVED | {"chosen_options": ["Reject"]}
WEEK = 7 * 24 * 3600


@pytest.fixture
def hook(installation: Path) -> Iterator[SnowpackHook]:
    with hooks.SnowpackHook() as hook:
        yield hook


@pytest.fixture
def stray(small_files: TableName, catalog: Catalog) -> Path:
    """An orphan file of the table."""
    path = Path(urlsplit(catalog.load_table(small_files.identifier).location()).path) / "data" / "stray.parquet"
    path.write_bytes(b"stray")
    moment = path.stat().st_mtime - WEEK
    os.utime(path, (moment, moment))
    return path


@pytest.fixture
def plan(run_operator: Runner) -> Callable[..., Outcome]:
    """Run the planning task with a task after it."""

    def run(table: TableName, **arguments: Any) -> Outcome:
        from airflow.providers.standard.operators.empty import EmptyOperator
        from airflow.sdk import DAG

        with DAG("guard", schedule=None):
            planning = operators.PlanRemovalOperator(task_id="plan", table=table.dotted, **arguments)
            planning >> EmptyOperator(task_id="approve")
        return run_operator(planning)

    return run


def delete(removal_id: str, **arguments: Any) -> operators.RunRemovalOperator:
    return operators.RunRemovalOperator(task_id="delete", removal_id=removal_id, **arguments)


def skipped(outcome: Outcome) -> list[str]:
    return [name for each in outcome.sent if type(each).__name__ == "SkipDownstreamTasks" for name in each.tasks]


def test_a_task_plans_a_person_approves_and_another_task_deletes(
    run_operator: Runner, plan: Callable[..., Outcome], small_files: TableName, stray: Path, hook: SnowpackHook
) -> None:
    planned = plan(small_files)
    assert planned.state == "success", planned.error
    assert planned.xcom["summary"] == f"1 orphan file of 5 B of {small_files.dotted}"
    assert [Path(path).name for path in planned.xcom["sample"]] == ["stray.parquet"]
    assert skipped(planned) == []
    (pushed,) = [each.value for each in planned.sent if type(each).__name__ == "SetXCom" and each.key == "removal_id"]
    assert pushed == planned.xcom["removal_id"], 'plan.output["removal_id"] is an XCom of its own'
    assert stray.exists()

    done = run_operator(delete(planned.xcom["removal_id"], decision=APPROVED))

    assert done.state == "success", done.error
    assert (done.xcom["deleted"], done.xcom["left_out"], done.xcom["state"]) == (1, 0, "deleted")
    assert not stray.exists()
    removal = hook.installation.removals.get(planned.xcom["removal_id"])
    assert (removal.decided_by, removal.comment) == ("vera", "fine")
    (entry,) = AuditTrail(hook.store()).of(f"removal:{removal.removal_id}")
    assert (entry.actor, entry.via) == ("vera", "task")

    again = run_operator(delete(planned.xcom["removal_id"], decision=APPROVED), try_number=2)
    assert (again.state, again.xcom["deleted"]) == ("success", 1), "a task that is cleared finds its removal deleted"


def test_a_rejection_is_recorded_and_skips_the_task(
    run_operator: Runner, plan: Callable[..., Outcome], small_files: TableName, stray: Path, hook: SnowpackHook
) -> None:
    removal_id = plan(small_files).xcom["removal_id"]

    assert run_operator(delete(removal_id, decision=REJECTED)).state == "skipped"

    assert stray.exists()
    assert hook.installation.removals.get(removal_id).state is RemovalState.REJECTED


def test_a_rejection_counts_against_an_approval_from_elsewhere(
    run_operator: Runner, plan: Callable[..., Outcome], small_files: TableName, stray: Path, hook: SnowpackHook
) -> None:
    removal_id = plan(small_files).xcom["removal_id"]
    hook.installation.removals.approve(removal_id, actor=Actor("ann", "page"))

    assert run_operator(delete(removal_id, decision=REJECTED)).state == "skipped"

    assert stray.exists()
    removal = hook.installation.removals.get(removal_id)
    assert (removal.state, removal.decided_by) == (RemovalState.REJECTED, "vera")
    assert run_operator(delete(removal_id, decision=REJECTED), try_number=2).state == "skipped"


def test_a_removal_without_a_decision_needs_an_approval_from_elsewhere(
    run_operator: Runner, plan: Callable[..., Outcome], small_files: TableName, stray: Path, hook: SnowpackHook
) -> None:
    removal_id = plan(small_files).xcom["removal_id"]
    refused = run_operator(delete(removal_id))
    assert refused.state == "failed", "a retry would be refused again"
    assert "cannot be run: it awaits approval" in str(refused.error)
    stale = run_operator(delete(removal_id, decision=APPROVED | {"responded_at": datetime(2026, 1, 2, tzinfo=UTC)}))
    assert "The decision is from 2026-01-02 00:00:00 UTC, and the removal" in str(stale.error)
    unreadable = run_operator(delete(removal_id, decision={"approved": True}))
    assert "is not the response of a human-in-the-loop task" in str(unreadable.error)
    assert stray.exists()

    hook.installation.removals.approve(removal_id, actor=Actor("ann", "page"))
    assert run_operator(delete(removal_id)).state == "success"
    assert not stray.exists()


def test_without_anything_to_decide_the_next_tasks_are_skipped(
    plan: Callable[..., Outcome], small_files: TableName, stray: Path
) -> None:
    within = plan(small_files, approve_above_files=10)
    assert (within.xcom["state"], within.xcom["deleted"]) == ("deleted", 1)
    assert skipped(within) == ["approve"]

    nothing = plan(small_files)
    assert (nothing.xcom["removal_id"], nothing.xcom["summary"]) == (None, "nothing")
    assert skipped(nothing) == ["approve"]
