"""docs/jobs.md tells the truth: its examples run in order, and its tables are those of the code."""

from __future__ import annotations

import re
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow_snowpack.jobs import LifecyclePolicy
from airflow_snowpack.jobs.model import TRANSITIONS
from airflow_snowpack.store import Store

PAGE = Path(__file__).parents[3] / "docs" / "jobs.md"


def rows(heading: str) -> list[list[str]]:
    """The cells of the table whose first heading this is."""
    _, _, rest = PAGE.read_text().partition(f"| {heading} |")
    lines = rest.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_example_of_the_page_runs_on_both_databases(store_url: str, store: Store) -> None:
    text = PAGE.read_text()
    names: dict[str, Any] = {"url": store_url}
    for block in re.finditer(r"```python\n(.*?)```", text, re.DOTALL):
        line = text[: block.start(1)].count("\n")
        exec(compile("\n" * line + block[1], str(PAGE), "exec"), names)
    names["jobs"].close()


def test_the_states_of_the_page_are_those_of_the_code() -> None:
    told = {cells[0].strip("`"): set(re.findall(r"`(\w+)`", cells[-1])) for cells in rows("state")}

    assert told == {state.value: {after.value for after in following} for state, following in TRANSITIONS.items()}


def test_the_periods_and_limits_of_the_page_are_those_of_the_policy() -> None:
    told = {cells[0].strip("`"): cells[1] for cells in rows("`LifecyclePolicy`")}

    defaults = asdict(LifecyclePolicy()).items()
    assert told == {
        name: f"{value.total_seconds():.0f} s" if isinstance(value, timedelta) else str(value) for name, value in defaults
    }
