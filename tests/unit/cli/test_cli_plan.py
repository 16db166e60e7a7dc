"""``airflow snowpack tables plan``, ``jobs submit --action auto`` and docs/plans.md."""

from __future__ import annotations

import json
import re
import shlex
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from command_line import Run
from table_zoo import Zoo

from airflow_snowpack import hooks
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.iceberg.health import SpecField
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.maintenance import action_names
from airflow_snowpack.maintenance.planning.where import where_of
from airflow_snowpack.maintenance.policies import Policies

PAGE = (Path(__file__).parents[3] / "docs" / "plans.md").read_text()
EVIDENCE = "6 of 6 files below 384.0 MiB; threshold 100"


def test_a_plan_shows_each_action_with_its_numbers_and_those_of_several_tables_are_one_document(
    snowpack: Run, flights: TableName
) -> None:
    said = snowpack("tables", "plan", "demo.flights")

    assert said.code == 0, said.err
    assert said.out.startswith("demo.flights: score ")
    assert EVIDENCE in said.out
    assert "disabled by default" in said.out  # orphan files

    said = snowpack("tables", "plan", "demo.flights", "demo.flights", "-o", "json")

    (plan,) = json.loads(said.out)["plans"]
    assert plan["table_name"] == "flights"
    assert plan["decisions"][0] | {"metrics": {}} == {
        "action": "rewrite_data_files",
        "verdict": "skip",
        "cause": "healthy",
        "evidence": EVIDENCE,
        "metrics": {},
        "estimate": None,
        "options": {},
        "reconsider_at": None,
    }

    said = snowpack("jobs", "submit", "demo.flights", "--action", "auto", "--dry-run")

    assert f"Skipped by the plan: {EVIDENCE}" in " ".join(said.out.split())


def test_a_table_that_is_missing_or_cannot_be_read_does_not_keep_the_others_from_being_planned(
    snowpack: Run, flights: TableName
) -> None:
    said = snowpack("tables", "plan", "demo.airports", "demo.flights")

    assert said.code == 4
    assert said.out.startswith("demo.flights: score ")
    assert "airports" in said.err

    Zoo(hooks.IcebergCatalogHook().catalog).new("missing_manifest", "broken")

    said = snowpack("tables", "plan", "zoo.broken", "demo.flights")

    assert said.code == 6
    assert said.out.startswith("demo.flights: score ")
    assert "The metadata of table 'zoo.broken' cannot be read" in said.err
    assert snowpack("tables", "plan", "zoo.broken", "demo.airports").code == 1, "no single code is that of both errors"


def test_a_submit_with_auto_runs_the_plan_and_repeats_with_its_key(snowpack: Run, jobs: Jobs, flights: TableName) -> None:
    first = snowpack("jobs", "submit", "demo.flights", "--action", "auto", "--idempotency-key", "k")
    again = snowpack("jobs", "submit", "demo.flights", "--action", "auto", "--idempotency-key", "k")

    assert (first.code, again.code) == (0, 0), first.err + again.err
    (job,) = jobs.list()
    assert job.plan is not None
    assert job.plan["decisions"][0]["evidence"] == EVIDENCE


class TestPage:
    """docs/plans.md."""

    @pytest.fixture(autouse=True)
    def sick(self, flights: TableName) -> None:
        """The table of the page: six small files are too many."""
        with hooks.IcebergCatalogHook().catalog.load_table(flights.identifier).transaction() as change:
            change.set_properties({"snowpack.rewrite_data_files.thresholds.small_files": "6"})

    def test_its_plan_is_what_the_command_prints(self, snowpack: Run) -> None:
        (shown,) = re.findall(r"```text\n(demo\.flights: .*?)```", PAGE, re.DOTALL)
        printed = snowpack("tables", "plan", "demo.flights").out

        first, *rows = [line for line in shown.splitlines() if "=+=" not in line]
        assert printed.startswith(first.rpartition(" score ")[0])
        assert len(rows) == 1 + len(action_names())
        for row in rows:
            cells = [cell.strip() for cell in row.split("|")[:3]]
            assert any(cells == [cell.strip() for cell in line.split("|")[:3]] for line in printed.splitlines()), cells

    def test_its_commands_run(self, snowpack: Run) -> None:
        commands = re.findall(r"^airflow snowpack (.*)$", PAGE, re.MULTILINE)
        assert len(commands) == 3
        for command in (*commands[::2], commands[1]):  # a dry run before the job that locks the table
            said = snowpack(*shlex.split(command))
            assert said.code == 0, said.err

    def test_its_policy_that_prefers_a_writer_rewrites_less_at_a_time_and_at_another_hour(self, tmp_path: Path) -> None:
        (text,) = re.findall(r"```yaml\n(- tables: sales\.orders\n.*?)```", PAGE, re.DOTALL)
        file = tmp_path / "policies.yaml"
        file.write_text(f"rules:\n{text}")
        policy = Policies.load(file).of(TableName.parse("sales.orders", catalog="lake"), {})

        assert policy.max_rewrite_bytes == 2 * 1024**3
        assert "268435456" in str(policy.actions["rewrite_data_files"])
        assert len(policy.quiet) == 1

    def test_its_operator_can_be_made(self) -> None:
        (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
        names: dict[str, Any] = {}
        exec(code, names)
        assert names["maintain"].actions == "auto"

    def test_its_predicate_is_the_generated_one(self) -> None:
        (where,) = re.findall(r"```sql\n(.*?)\n```", PAGE, re.DOTALL)
        days = [(date(2026, 11, day) - date(1970, 1, 1)).days for day in (19, 20)]
        assert where_of([SpecField("ts", "timestamptz", "day", "ts_day")], [(day,) for day in days], catalog="lake") == where
