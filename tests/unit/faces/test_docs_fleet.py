"""docs/fleet.md is true: its DAGs are DAGs, its tables are those of the code, and its report is one that a pass writes."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow_since import since_airflow
from made_plans import made_plan

from airflow_snowpack import dags
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.maintenance.fleet import Budget, EntryState, Pass, PassEntry, PassState
from airflow_snowpack.maintenance.fleet.budget import READERS
from airflow_snowpack.maintenance.fleet.report import PassReport
from airflow_snowpack.maintenance.planning import Estimate

PAGE = Path(__file__).parents[3] / "docs" / "fleet.md"
STARTED = datetime(2026, 11, 23, 2, tzinfo=UTC)


def first_cells(heading: str) -> list[str]:
    _, _, rest = PAGE.read_text().partition(f"| {heading} |")
    cells = [line.strip("|").split("|")[0] for line in rest.partition("\n\n")[0].splitlines()[2:]]
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


def test_the_dags_of_the_page_have_the_tasks_that_it_names() -> None:
    names: dict[str, Any] = {}
    tasks = []
    for block in re.finditer(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(block[1].replace("):\n", ") as dag:\n", 1), str(PAGE), "exec"), names)
        tasks.append(sorted(names["dag"].task_ids))
    assert tasks == [["maintain", "plan", "report"], ["maintain_fleet"]]


@since_airflow(3, 2)
def test_the_example_runs_for_its_schedule_and_by_hand_and_not_for_a_backfill() -> None:
    """A pass maintains the tables of now, whatever its data interval is."""
    assert not any(kind.value == "backfill" for kind in dags.fleet.allowed_run_types)
    assert {"scheduled", "manual"} <= {kind.value for kind in dags.fleet.allowed_run_types}


def test_the_limits_and_states_of_the_page_are_those_of_the_code() -> None:
    assert first_cells("limit") == list(READERS)
    assert first_cells("state") == [state.value for state in EntryState]


def report() -> PassReport:
    """The pass that the page shows."""

    def entry(name: str, number: int, state: EntryState, reason: str | None = None, **more: Any) -> PassEntry:
        return PassEntry(TableName("lake", "analytics", name), number, state, reason=reason, **more)

    estimate = Estimate(files_removed=41_310, bytes_rewritten=1_319_000_000_000, gb_hours=176.02, seconds=1.0)
    plan = made_plan(TableName("lake", "analytics", "sessions"), estimate, rewrite_data_files="…")
    spent = replace(estimate, files_removed=41_201, gb_hours=181.3)
    entries = [
        entry("sessions", 0, EntryState.MAINTAINED, plan=plan, spent=spent),
        *(entry(f"t{number}", number, EntryState.MAINTAINED) for number in range(1, 50)),
        entry("page_views", 50, EntryState.FAILED, "Access denied to s3://lake/analytics/page_views/data/7f3a.parquet."),
        entry("events", 51, EntryState.WAITING, "Needs 40.00 GB·h, and 18.70 GB·h of the budget are left."),
    ]
    counts = {"listed": 1_000, "unchanged": 948}
    ended = STARTED + timedelta(hours=3, minutes=12)
    owner, budget = "snowpack_maintain_fleet/night/plan", Budget(gb_hours=200)
    planned = Pass("4f1c2d", owner, "lake", "", PassState.ENDED, budget, 4, STARTED, ended, ended_at=ended, counts=counts)
    return PassReport.of(planned, entries, ended)


def test_the_report_of_the_page_is_one_that_a_pass_writes() -> None:
    (text,) = re.findall(r"```text\n(.*?)\n```", PAGE.read_text(), re.DOTALL)
    assert "\n".join(report().lines()) == text


def test_the_keys_of_the_report_are_those_of_its_xcom() -> None:
    assert first_cells("key") == [*report().to_json(), "digest"], "the task adds the digest of all jobs"
