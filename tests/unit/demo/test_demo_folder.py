"""The demo empties a folder before it starts: only its own, and only its own at that moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.demo.errors import DemoRuns, NotADemoFolder
from examples.demo.folder import fresh_folder


def test_a_second_demo_finds_the_folder_empty(tmp_path: Path) -> None:
    home = tmp_path / "new" / "demo"
    with fresh_folder(home):
        (home / "airflow").mkdir()
        (home / "airflow" / "airflow.db").touch()
        (home / "spark.log").touch()
    with fresh_folder(home):
        assert [path for path in home.iterdir() if not path.name.startswith(".")] == []


def test_what_a_demo_wrote_stays_for_a_look(tmp_path: Path) -> None:
    with fresh_folder(tmp_path / "demo") as home:
        (home / "spark.log").touch()
    assert (home / "spark.log").exists()


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(NotADemoFolder, match=r"not empty, and no demo or cluster made it"), fresh_folder(tmp_path):
        pass
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_two_demos_cannot_share_a_folder(tmp_path: Path) -> None:
    home = tmp_path / "demo"
    with fresh_folder(home):
        (home / "airflow").mkdir()
        with pytest.raises(DemoRuns), fresh_folder(home):
            pass
        assert (home / "airflow").is_dir()
