"""The folder of a build goes with the build, however its process ends."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from bounded import started

from airflow_snowpack.runners.images.scratch import scratch_folder

if TYPE_CHECKING:
    from pathlib import Path

HOLDER = """
from airflow_snowpack.runners.images.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "half").write_text("written")
    print(folder, flush=True)
    input()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def test_a_folder_is_removed_with_what_cannot_be_written(temporary: Path) -> None:
    def fail() -> None:
        with scratch_folder() as folder:
            (folder / "locked").mkdir()
            (folder / "locked" / "file").touch()
            (folder / "locked").chmod(0o500)
            (folder / "link").symlink_to(temporary)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(temporary.iterdir()) == []


def test_the_next_build_removes_the_folder_of_a_killed_one_and_keeps_that_of_a_running_one(temporary: Path) -> None:
    command = [sys.executable, "-c", HOLDER]
    with started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        with scratch_folder():
            assert os.path.exists(f"{name}/half")
        process.kill()
        process.wait()
        with scratch_folder() as folder:
            assert [str(each) for each in temporary.iterdir()] == [str(folder)]


def test_a_folder_without_a_lock_is_kept_for_an_hour(temporary: Path) -> None:
    new, old = temporary / "snowpack-image-new", temporary / "snowpack-image-old"
    for each in (new, old):
        each.mkdir()
    os.utime(old, (0, 0))
    with scratch_folder():
        assert new.exists()
        assert not old.exists()


def test_only_folders_of_builds_are_removed(temporary: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "shared").mkdir(parents=True)
    (elsewhere / "shared").chmod(0o755)
    os.utime(elsewhere, (0, 0))
    link, file = temporary / "snowpack-image-link", temporary / "snowpack-image-file"
    link.symlink_to(elsewhere)
    file.touch()
    os.utime(file, (0, 0))
    with scratch_folder():
        assert (elsewhere / "shared").stat().st_mode & 0o777 == 0o755, "another user of the host may have made the link"
        assert link.is_symlink()
        assert file.exists()
