"""Entries in processes of their own, through Airflow's own processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from titled_process import gone, process_titled

from airflow_snowpack.interim.model import TableState
from airflow_snowpack.interim.registry import InterimRegistry
from airflow_snowpack.jobs import Jobs
from tests.system.conftest import AirflowHome, RunningAirflow

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


def test_a_task_process_that_is_killed_while_its_entry_runs_leaves_nothing_and_the_retry_counts(
    airflow: RunningAirflow,
    airflow_home: AirflowHome,
    jobs: Jobs,
    catalog: Catalog,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    run = airflow.trigger("system_entry", {"folder": str(tmp_path)})
    airflow.until((tmp_path / "pids.json").exists, "the entry runs")
    entry, below = (psutil.Process(pid) for pid in json.loads((tmp_path / "pids.json").read_text()))
    folders = airflow_home.home / "snowpack" / "entries"
    (killed,) = folders.glob("entry-*")
    task = process_titled(f"airflow worker -- {airflow.task(run, 'score')['id']}")
    assert task is not None
    assert task in entry.parents()
    task.kill()
    record_property("faults", 1)

    airflow.until(lambda: gone(entry) and gone(below), "the entry and what it started have ended")
    assert airflow.ended(run) == "success"
    assert airflow.task(run, "score")["try_number"] == 2
    assert airflow.result(run, "check") == [{"n": 1, "try": 2}, {"n": 2, "try": 2}]
    airflow.until(lambda: not killed.exists(), "the folder of the killed try is removed")
    assert list(folders.glob("entry-*")) == []
    handed_on = InterimRegistry(jobs.store).tables(dag_id=run.dag_id, run_id=run.run_id)
    found = {(table.producer.task_id, table.try_number, table.state) for table in handed_on}
    assert found == {("numbers", 1, TableState.READY), ("score", 2, TableState.READY)}
    on_record = {table.table.table for table in InterimRegistry(jobs.store).tables(limit=1000)}
    assert {name for _, name in catalog.list_tables("snowpack_interim")} <= on_record
