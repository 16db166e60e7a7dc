"""A scratch folder goes with its process, however that ends, and the folder of a live process stays."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from bounded import started

from airflow_snowpack.scratch import LOCK, PREFIX, scratch_folder

HOLDER = """
from airflow_snowpack.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "half").write_text("written")
    print(folder, flush=True)
    input()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The machine's folder for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
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


def test_the_next_process_removes_the_folder_of_a_killed_one_and_keeps_that_of_a_live_one(temporary: Path) -> None:
    command = [sys.executable, "-c", HOLDER]
    with started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        os.utime(name, (0, 0))
        with scratch_folder():
            assert os.path.exists(f"{name}/half"), "it is alive, however old its folder is"
        process.kill()
        process.wait()
        with scratch_folder() as folder:
            assert [str(each) for each in temporary.iterdir()] == [str(folder)]


def test_processes_that_come_and_go_side_by_side_do_not_disturb_each_other() -> None:
    def write(_: int) -> None:
        for _ in range(100):
            with scratch_folder() as folder:
                (folder / "shard.parquet").touch()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))


def test_a_folder_that_was_never_locked_is_kept_for_an_hour(temporary: Path) -> None:
    new, old, unlocked = (temporary / f"{PREFIX}{name}" for name in ("new", "old", "unlocked"))
    for each in (new, old, unlocked):
        each.mkdir()
    (unlocked / LOCK).touch()
    os.utime(old, (0, 0))
    with scratch_folder():
        assert (new.exists(), old.exists(), unlocked.exists()) == (True, False, False)


def test_only_scratch_folders_are_removed(temporary: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "shared").mkdir(parents=True)
    (elsewhere / "shared").chmod(0o755)
    os.utime(elsewhere, (0, 0))
    link, file, other = temporary / f"{PREFIX}link", temporary / f"{PREFIX}file", temporary / "other"
    link.symlink_to(elsewhere)
    file.touch()
    other.mkdir()
    for each in (file, other):
        os.utime(each, (0, 0))
    with scratch_folder():
        assert (elsewhere / "shared").stat().st_mode & 0o777 == 0o755, "another user of the host may have made the link"
        assert link.is_symlink()
        assert file.exists()
        assert other.exists()
