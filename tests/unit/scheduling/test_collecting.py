"""Which schedules the files of a folder declare."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_snowpack.scheduling import InvalidSchedule, collect

if TYPE_CHECKING:
    from pathlib import Path

PYTHON = """
from airflow_snowpack.scheduling import CommitsAdded, Schedule

TABLES = ("web.views", "web.clicks")
ONE = Schedule("one", dag_id="maintain", trigger=CommitsAdded("web.one"))
per_table = [Schedule(f"of_{table.partition('.')[2]}", dag_id="maintain", trigger=CommitsAdded(table)) for table in TABLES]
"""
YAML = "schedules: [{name: nightly, dag_id: maintain, trigger: {every: 4h}}]"


def names(root: Path, *patterns: str) -> list[str]:
    return [schedule.name for schedule in collect(root, patterns)]


def test_python_and_yaml_files_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "b_schedules.py").write_text(PYTHON)
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "schedules.yaml").write_text(YAML)
    (tmp_path / "other.py").write_text("raise AssertionError('no pattern fits this file')")

    assert names(tmp_path, "**/*schedules.py", "**/*schedules.yaml", "**/schedules.yaml") == [
        "one",
        "of_views",
        "of_clicks",
        "nightly",
    ]


def test_a_schedule_that_one_file_imports_from_another_is_one_schedule(tmp_path: Path) -> None:
    (tmp_path / "a_schedules.py").write_text(PYTHON)
    (tmp_path / "b_schedules.py").write_text("from a_schedules import ONE")

    assert names(tmp_path, "*_schedules.py") == ["one", "of_views", "of_clicks"]


def test_a_folder_without_such_files_declares_nothing(tmp_path: Path) -> None:
    assert names(tmp_path, "**/schedules.yaml") == []


@pytest.mark.parametrize("body", ["def (", "1 / 0", "import no_such_module_at_all"])
def test_a_file_that_cannot_be_run_is_an_error_that_names_it(tmp_path: Path, body: str) -> None:
    (tmp_path / "my_schedules.py").write_text(body)

    with pytest.raises(InvalidSchedule, match=r"^my_schedules\.py"):
        names(tmp_path, "*.py")


def test_a_declaration_that_cannot_be_used_is_an_error_that_names_file_and_field(tmp_path: Path) -> None:
    (tmp_path / "my_schedules.py").write_text(PYTHON.replace('"web.one"', '"web.one", count=0'))

    with pytest.raises(InvalidSchedule, match=r"^my_schedules\.py.*count"):
        names(tmp_path, "*.py")
