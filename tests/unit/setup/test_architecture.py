"""docs/architecture.md names files that exist, and each of its flows passes at most 12 of them."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
PAGE = (REPOSITORY / "docs" / "architecture.md").read_text()
FLOWS = re.split(r"^### ", PAGE.partition("## Six flows")[2], flags=re.MULTILINE)[1:]


def test_every_file_and_folder_of_the_page_exists() -> None:
    named = set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+(?:\.py|/))`", PAGE))

    assert len(named) > 40
    assert sorted(name for name in named if not (REPOSITORY / "airflow_snowpack" / name).exists()) == []


def test_each_flow_passes_at_most_twelve_files() -> None:
    steps = {flow.splitlines()[0]: re.findall(r"^\d+\. `([a-z_/]+\.py)`", flow, re.MULTILINE) for flow in FLOWS}

    assert len(steps) == 6
    assert {name: len(files) for name, files in steps.items() if not 5 <= len(set(files)) <= 12} == {}
