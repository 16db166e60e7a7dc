"""CONTRIBUTING.md lists the files that an action, a constraint, a trigger, an engine or a resource touches."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
PACKAGE = REPOSITORY / "airflow_snowpack"
ROW = re.compile(r"^\| an? (\w+), such as `(\w+)` \| (.+) \|$", re.MULTILINE)
ROWS = ROW.findall((REPOSITORY / "CONTRIBUTING.md").read_text())
FACES = ("wire", "api", "cli")
"""Where a resource is described; elsewhere its name is that of the domain."""


def files_that_name(name: str, rooms: tuple[str, ...]) -> set[Path]:
    words = re.compile(rf"\b({name}|{name.title().replace('_', '')})s?\b(?!/)")
    files = (file for room in rooms for file in (PACKAGE / room).rglob("*") if file.suffix in (".py", ".pyi", ".html"))
    return {file for file in files if words.search(file.read_text())}


@pytest.mark.parametrize(("what", "name", "listed"), ROWS)
def test_the_table_has_each_file_that_names_an_extension(what: str, name: str, listed: str) -> None:
    named = files_that_name(name, FACES if what == "resource" else (".",))
    found = [list(PACKAGE.glob(pattern)) for pattern in re.findall(r"`([\w/*]+\.\w+)`", listed)]
    assert named
    assert named - {file for files in found for file in files} == set()
    assert all(found), "a file of the table is gone"


def test_the_table_has_a_row_for_each_extension_in_the_package() -> None:
    assert [what for what, _, _ in ROWS] == ["action", "constraint", "trigger", "engine", "resource"]
