"""Tables that the tests of tasks hand on, and what their entries leave.

xcom = handed(run_operator, NUMBERS)
assert rows(xcom) == NUMBERS.to_pylist()
assert left_behind() == []
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from airflow_snowpack import hooks
from airflow_snowpack.interim import read_ref
from airflow_snowpack.interim.frames.tables import read_as_arrow
from airflow_snowpack.settings import Settings
from tests.unit.faces.conftest import Runner

NUMBERS = pa.table({"number": [1, 2, 3]})


def handed(run_operator: Runner, table: pa.Table, task_id: str = "made", **arguments: Any) -> dict[str, Any]:
    """Return the XCom of a ``@task.snowpack`` with these arguments that returned the table."""
    from airflow.sdk import DAG, task

    with DAG("guard", schedule=None):

        @task.snowpack(task_id=task_id, **arguments)
        def made() -> pa.Table:
            return table

        called: Any = made()
    xcom: dict[str, Any] = run_operator(called.operator).xcom
    return xcom


def rows(xcom: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a table by its reference."""
    found: list[dict[str, Any]] = read_as_arrow(read_ref(xcom), hooks.IcebergCatalogHook().catalog).to_pylist()
    return found


def left_behind() -> list[Path]:
    """Return what entries have left in their exchange folders."""
    return [path for path in Settings.load().runner_folder.rglob("*") if path.is_file()]
