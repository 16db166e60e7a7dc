"""docs/interim-tables.md, "Pass a table to another DAG": the examples run, and the collector keeps the table in between."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from airflow_snowpack import hooks
from airflow_snowpack.interim import TableRef
from airflow_snowpack.preservation import Preservation
from tests.unit.faces.conftest import Runner

PAGE = (Path(__file__).parents[3] / "docs" / "interim-tables.md").read_text()


def test_a_preserved_table_goes_to_another_dag_in_the_event_of_an_asset(run_operator: Runner) -> None:
    from airflow.sdk import DAG, Asset, task

    section = PAGE.partition("\n## Pass a table to another DAG\n")[2].partition("\n## ")[0]
    names: dict[str, Any] = {"task": task, "Asset": Asset, "pa": pa, "TableRef": TableRef}
    with DAG("guard", schedule=None):
        for block in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
            exec(compile(block, "interim-tables.md", "exec"), names)

    def ran(called: str, *args: Any, run_id: str = "run1") -> Any:
        with DAG("guard", schedule=None):
            operator = names[called](*args).operator
        outcome = run_operator(operator, run_id=run_id)
        assert outcome.state == "success", outcome.error
        return outcome

    made = ran("make").xcom
    (event,) = ran("announce", made).events
    told = names["announced"].function({"features": [SimpleNamespace(extra=event["extra"])] * 2})

    assert told == [made, made]
    assert ran("use", told, run_id="of the other DAG").xcom == 6
    with hooks.SnowpackHook() as hook:
        table = hook.interim().table(made["table_id"])
    assert (table.preservation, table.expires_at) == (Preservation.FULL, (table.ready_at or table.created_at) + timedelta(days=7))
    assert "guard/of the other DAG/use" in table.pins
