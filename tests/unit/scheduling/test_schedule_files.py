"""Which schedules the files of a folder declare."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from airflow_snowpack.scheduling import InvalidSchedule, collect, deployment

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


def test_one_yaml_file_runs_no_code_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "cronsim.py").write_text("raise AssertionError('read from the folder of the YAML file')")
    (tmp_path / "schedules.yaml").write_text(YAML.replace("every: 4h", "cron: '0 2 * * *'"))
    read = "import pathlib, sys; from airflow_snowpack.scheduling import load_schedules as read; read(pathlib.Path(sys.argv[1]))"

    done = subprocess.run([sys.executable, "-c", read, tmp_path / "schedules.yaml"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


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


SCHEDULE = """
from airflow_snowpack.scheduling import CommitsAdded, Schedule
from {module} import TABLE
ONE = Schedule("one", dag_id="maintain", trigger=CommitsAdded(TABLE))
"""


def trigger_of(root: Path) -> str:
    (schedule,) = collect(root, ["*schedules.py"])
    return str(schedule.to_json()["trigger"])


@pytest.mark.parametrize("module", ["our_tables", "our_company.tables", "our_company.deep.tables"])
def test_what_a_file_imports_is_read_anew_each_time(tmp_path: Path, module: str) -> None:
    """As a scheduler does, which collects for weeks; a package without an ``__init__.py`` is one too."""
    (tmp_path / "my_schedules.py").write_text(SCHEDULE.format(module=module))
    imported = tmp_path.joinpath(*module.split(".")).with_suffix(".py")
    imported.parent.mkdir(parents=True, exist_ok=True)
    imported.write_text("TABLE = 'web.views'")
    assert "web.views" in trigger_of(tmp_path)

    imported.write_text("TABLE = 'web.clicks_and_more'")

    assert "web.clicks_and_more" in trigger_of(tmp_path)
    assert [name for name in sys.modules if name.startswith("our_")] == []


def test_a_module_of_a_package_that_was_there_before_is_read_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "our_shop").mkdir()
    (tmp_path / "our_shop" / "__init__.py").write_text("")
    (tmp_path / "our_shop" / "tables.py").write_text("TABLE = 'web.views'")
    (tmp_path / "my_schedules.py").write_text(
        SCHEDULE.replace("from {module} import TABLE", "from our_shop import tables").replace("TABLE", "tables.TABLE")
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    before = importlib.import_module("our_shop")
    assert "web.views" in trigger_of(tmp_path)

    (tmp_path / "our_shop" / "tables.py").write_text("TABLE = 'web.clicks_and_more'")

    assert "web.clicks_and_more" in trigger_of(tmp_path)
    assert sys.modules["our_shop"] is before, "what others have imported stays theirs"
    del sys.modules["our_shop"]


def test_what_is_not_from_the_folder_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "this_is_installed"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / f"{module}.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    monkeypatch.setattr(deployment, "INSTALLED", (tmp_path / "elsewhere",))
    (tmp_path / "my_schedules.py").write_text(f"import {module}\n{PYTHON}")

    collect(tmp_path, ["*schedules.py"])

    assert sys.modules.pop(module)


def test_a_file_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "our_fault.py").write_text("TABLE = 'web.views'")
    (tmp_path / "my_schedules.py").write_text("import our_fault\n1 / 0")
    with pytest.raises(InvalidSchedule):
        collect(tmp_path, ["*schedules.py"])

    assert "our_fault" not in sys.modules
    assert os.fspath(tmp_path) not in sys.path


def test_a_module_that_another_thread_imports_meanwhile_does_not_end_the_collection(tmp_path: Path) -> None:
    class Importing(ModuleType):
        """Stands for the other thread: reading where this module is from imports one more."""

        @property
        def __spec__(self) -> None:
            sys.modules[f"imported_meanwhile_{len(sys.modules)}"] = ModuleType("imported_meanwhile")

        @__spec__.setter
        def __spec__(self, _: object) -> None:
            """The import system sets it."""

    (tmp_path / "my_schedules.py").write_text(f"import sys\nsys.modules['our_probe'] = sys.our_probe\n{PYTHON}")
    sys.our_probe = Importing("our_probe")  # type: ignore[attr-defined]  # how the file gets at it
    try:
        assert "one" in names(tmp_path, "*schedules.py")
    finally:
        del sys.our_probe  # type: ignore[attr-defined]
        for name in [name for name in sys.modules.copy() if name.startswith(("our_probe", "imported_meanwhile"))]:
            del sys.modules[name]
