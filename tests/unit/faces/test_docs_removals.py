"""docs/removals.md: its DAGs can be parsed, and its states are those of the package."""

from __future__ import annotations

import re
from pathlib import Path

from airflow_snowpack.maintenance.options import parse_all_options
from airflow_snowpack.maintenance.removals.model import VALID_FOR, RemovalState

ORDER = [
    RemovalState.PLANNED, RemovalState.AWAITING_APPROVAL, RemovalState.APPROVED, RemovalState.DELETING, RemovalState.QUARANTINED,
    RemovalState.DELETED, RemovalState.RESTORED, RemovalState.REJECTED, RemovalState.EXPIRED, RemovalState.FAILED,
]  # fmt: skip
PAGE = (Path(__file__).parents[3] / "docs" / "removals.md").read_text()


def test_the_examples_are_tasks_whose_options_are_valid() -> None:
    from airflow.sdk import DAG

    with DAG("guard", schedule=None) as dag:
        for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
            exec(compile(block, "<removals.md>", "exec"), {})

    assert [task.task_id for task in dag.tasks] == ["clean", "plan", "approve", "delete"]
    parsed = parse_all_options(dag.get_task("clean").options)
    assert parsed["remove_orphan_files"].to_json()["approve_above_bytes"] == 10 * 1024**3
    assert dag.get_task("delete").upstream_task_ids == {"plan", "approve"}


def test_the_page_has_every_state_and_the_period() -> None:
    assert re.findall(r"^\| `(\w+)` \| ", PAGE, re.MULTILINE) == [state.value for state in ORDER]
    assert f"planned in the last {VALID_FOR.days} days" in PAGE
