"""The example DAG of removals in a running Airflow: a person responds through Airflow's API, as its UI does."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.maintenance.removals.model import RemovalState
from airflow_snowpack.maintenance.removals.records import Removals
from tests.system.conftest import Run, RunningAirflow

if TYPE_CHECKING:
    from pyiceberg.table import Table

DAG = "snowpack_remove_orphans"
WEEK = 7 * 24 * 3600


@pytest.fixture
def with_orphan(new_table: Callable[..., TableName], load: Callable[[TableName], Table]) -> tuple[TableName, Path]:
    """A table, and an orphan file of it."""
    table = new_table([pa.table({"id": pa.array(range(10))})])
    orphan = Path(load(table).location().removeprefix("file://")) / "data" / "orphan.parquet"
    orphan.write_bytes(b"orphan")
    moment = orphan.stat().st_mtime - WEEK
    os.utime(orphan, (moment, moment))
    return table, orphan


def respond(airflow: RunningAirflow, run: Run, response: dict[str, Any]) -> None:
    """Respond to the request of the run."""
    airflow.call("PATCH", f"{run.path}/taskInstances/approve/-1/hitlDetails", response)


def test_the_listed_files_are_deleted_after_a_person_has_approved_them(
    airflow: RunningAirflow, with_orphan: tuple[TableName, Path], jobs: Jobs
) -> None:
    table, orphan = with_orphan
    run = airflow.trigger(DAG, {"table": table.dotted})
    airflow.task_becomes(run, "approve", "awaiting_input")
    planned = airflow.result(run, "plan")
    removals = Removals(jobs.store)
    request = airflow.call("GET", f"{run.path}/taskInstances/approve/-1/hitlDetails")
    assert request["subject"] == f"Delete 1 orphan file of 6 B of {table.dotted}?"
    assert str(orphan) in request["body"]
    assert removals.get(planned["removal_id"]).state is RemovalState.AWAITING_APPROVAL
    assert orphan.exists()

    response = {"chosen_options": ["Approve"], "params_input": {"comment": "a leftover"}}
    respond(airflow, run, response)
    assert airflow.ended(run) == "success"
    removal = removals.get(planned["removal_id"])
    assert (removal.state, removal.deleted_count) == (RemovalState.DELETED, 1)
    assert (removal.decided_by, removal.comment) == ("admin", "a leftover")
    assert not orphan.exists()


def test_a_rejection_is_recorded_and_nothing_is_deleted(
    airflow: RunningAirflow, with_orphan: tuple[TableName, Path], jobs: Jobs
) -> None:
    table, orphan = with_orphan
    run = airflow.trigger(DAG, {"table": table.dotted})
    airflow.task_becomes(run, "approve", "awaiting_input")

    respond(airflow, run, {"chosen_options": ["Reject"], "params_input": {}})
    assert airflow.ended(run) == "success"
    removal = Removals(jobs.store).get(airflow.result(run, "plan")["removal_id"])
    assert (removal.state, removal.decided_by) == (RemovalState.REJECTED, "admin")
    assert orphan.exists()
