"""The examples of docs/schedules.md run, and its tables name every kind."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_snowpack import scheduling
from airflow_snowpack.scheduling import CONSTRAINTS, TRIGGERS, Schedule, parse_schedules, parse_trigger

PAGE = (Path(__file__).parents[3] / "docs" / "schedules.md").read_text()
GOALS = re.findall(r"^\| [a-z].*? \| (`.*`.*) \|$", PAGE.partition("| goal |")[2].partition("\n\n")[0], re.MULTILINE)
NAMES: dict[str, Any] = {name: getattr(scheduling, name) for name in scheduling.__all__}


def examples(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_schedule_in_python_is_the_schedule_in_yaml() -> None:
    (python, *_), (in_yaml, *_) = examples("python"), examples("yaml")
    names: dict[str, Any] = {}
    exec(compile(python, "schedules.md", "exec"), names)
    assert parse_schedules(in_yaml, "schedules.md") == [names["nightly"]]


def test_a_trigger_that_counts_changes_is_the_one_in_yaml() -> None:
    code, _, written = examples("python")[1].partition("#")
    assert eval(code.strip(), NAMES) == parse_trigger(yaml.safe_load(written))


def test_the_deadline_in_yaml_is_a_trigger() -> None:
    declared = yaml.safe_load(examples("yaml")[1])
    expected = eval(
        '(PartitionsAdded("web.a") & PartitionsAdded("web.b")).at_latest(Cron("0 7 * * 1-5", tz="Europe/Berlin"))', NAMES
    )
    assert parse_trigger(declared["trigger"]) == expected


@pytest.mark.parametrize("cell", GOALS)
def test_the_answer_to_each_goal_is_a_schedule(cell: str) -> None:
    values = [eval(code, NAMES) for code in re.findall(r"`([A-Z(].*?)`", cell.replace(r"\|", "|"))]
    triggers = [value for value in values if isinstance(value, TRIGGERS.base)] or [NAMES["CustomEvents"]("go")]
    constraints = [value for value in values if isinstance(value, CONSTRAINTS.base)]
    assert values
    assert len(triggers) + len(constraints) >= len(values)
    declared = Schedule("example", dag_id="example", trigger=triggers[0], constraints=constraints)
    assert Schedule.from_json(declared.to_json()) == declared


def test_the_page_names_every_trigger_and_constraint() -> None:
    assert len(GOALS) > 8
    named = {"AllOf": "all_of", "AnyOf": "any_of", "AtLatest": "at_latest", "ByHand": "registered runs"}
    classes = [kind.__name__ for kind in (*TRIGGERS.all().values(), *CONSTRAINTS.all().values())]
    assert [name for name in classes if f"`{name}" not in PAGE and named.get(name, name) not in PAGE] == []
