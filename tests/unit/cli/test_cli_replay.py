"""``policies replay``: what a policy would have done, and docs/replay.md tells the truth about it."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from command_line import Run
from table_zoo import Zoo, append, commit_times

from airflow_snowpack import hooks

PAGE = (Path(__file__).parents[3] / "docs" / "replay.md").read_text()
POLICY = """
rules:
  - tables: "**"
    cadence: 1h
    actions:
      rewrite_data_files: {{thresholds: {{small_files: {least}}}, options: {{min_input_files: 2}}}}
"""
DAY = timedelta(days=1)


@pytest.fixture
def zoo(installation: Path, monkeypatch: pytest.MonkeyPatch) -> Zoo:
    """A table with a file for each of ten days, one that was never written, and two policies in the current folder."""
    monkeypatch.chdir(installation)
    (installation / "policies.yaml").write_text(POLICY.format(least=100))
    (installation / "new.yaml").write_text(POLICY.format(least=4))
    zoo = Zoo(hooks.IcebergCatalogHook().catalog)
    table = zoo.create("clicks")
    for _ in range(10):
        append(table, ["a"])
    begin = datetime.now(UTC) - DAY * 9.5
    commit_times(zoo, zoo.named("clicks"), [begin + DAY * each for each in range(10)])
    zoo.new("never_written", "never_written")
    return zoo


def test_two_policies_are_compared_with_what_was_and_a_table_that_has_forgotten_its_past_begins_later(
    snowpack: Run, zoo: Zoo, installation: Path
) -> None:
    said = snowpack("policies", "replay", "zoo.clicks", "--policies", "new.yaml", "--against", "policies.yaml", "-o", "json")

    assert said.code == 0
    [table] = said.json["tables"]
    assert [each["policy"] for each in table["outcomes"]] == ["as it was", "without maintenance", "policies.yaml", "new.yaml"]
    assert [each["files"] for each in table["outcomes"]] == [10, 10, 10, 1]
    assert [len(each["runs"]) for each in table["outcomes"]] == [0, 0, 0, 3]
    assert said.json["outcomes"] == table["outcomes"]
    assert "Replayed 9 commits of 1 table" in said.err

    said = snowpack("policies", "replay", "zoo.clicks", "--days", "90")

    assert "1 table had no older snapshot and began later." in said.err

    both = ("--policies", "new.yaml", "--against", "policies.yaml")
    assert snowpack("policies", "replay", *both, "--html", "replay.html").code == 0

    page = (installation / "replay.html").read_text()
    assert re.findall(r'<path class="line-(\w+)"', page) == ["off", "waiting", "running", "changed"] * 2
    assert not re.search(r"(?:src|href)=|url\(|@import", page)
    assert "zoo.never_written" in page

    assert snowpack("policies", "replay", "zoo.never_written").code == 1

    assert snowpack("policies", "replay", "--every", "0s").code == 2

    said = snowpack("policies", "replay", "--policies", "new.yaml")

    assert re.search(r"new\.yaml +\| 3 ", said.out)
    assert re.search(r"zoo\.clicks +\|", said.out)
    assert "▁" in said.out
    assert "█" in said.out
    assert "zoo.never_written was not replayed: The table 'zoo.never_written' has no current snapshot" in said.err


def test_every_command_of_the_page_runs(snowpack: Run, zoo: Zoo) -> None:
    demo = Zoo(zoo.catalog, namespace="demo")
    append(demo.create("clicks"), ["a"])
    commands = re.findall(r"^airflow snowpack (.*?)(?: > \S+)?$", PAGE, re.MULTILINE)

    assert len(commands) == 4
    for command in commands:
        said = snowpack(*shlex.split(command))
        assert said.code == 0, f"{command}\n{said.err}"
