"""Folders that killed writers left are removed by the next one on the machine, and those of living ones never are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from airflow_snowpack.builds.scratch import scratch, sweep
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.write.attempt import AttemptPlace, ShardPlan, write_attempt

if TYPE_CHECKING:
    from pathlib import Path

WRITER = (
    "import sys, time\n"
    "from airflow_snowpack.builds.scratch import scratch\n"
    "with scratch('snowpack-shard-') as folder:\n"
    "    (folder / 'shard.parquet').write_bytes(b'half')\n"
    "    print(folder, flush=True)\n"
    "    sys.stdin.read()\n"
)
MINUTES = 120.0


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The machine's folder for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_the_folder_of_a_killed_process_is_swept_and_that_of_a_living_one_is_not(temporary: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        folder = writer.stdout.readline().strip()
        assert sweep(time.time() + 30 * 24 * 3600) == [], "it is alive, however old its folder is"
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    assert sweep() == [], "another one could be about to lock its own"
    assert [str(path) for path in sweep(time.time() + MINUTES)] == [folder]
    assert list(temporary.iterdir()) == []


def test_a_writer_sweeps_before_it_begins_and_removes_its_own_folder(temporary: Path, tmp_path: Path) -> None:
    left = temporary / "snowpack-spool-old"
    left.mkdir()
    (left / ".in-use").touch()
    old = time.time() - MINUTES
    os.utime(left, (old, old))
    schema = pa.schema([("id", pa.int64())])
    write_attempt(Storage(tmp_path / "set"), AttemptPlace("r1", 0, 0, "0"), ShardPlan(schema, "id"), [])
    assert list(temporary.iterdir()) == []


def test_writers_that_come_and_go_side_by_side_do_not_disturb_each_other() -> None:
    def write(_: int) -> None:
        for _ in range(100):
            with scratch("snowpack-shard-") as folder:
                (folder / "shard.parquet").touch()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))


def test_what_is_not_a_writers_folder_is_left_alone(temporary: Path) -> None:
    (temporary / "snowpack-shard-file").touch()
    (temporary / "snowpack-shard-never-locked").mkdir()
    (temporary / "another-shard").mkdir()
    (temporary / "snowpack-shard-link").symlink_to(temporary / "another-shard")
    assert sweep(time.time() + MINUTES) == []
    with scratch("snowpack-shard-") as folder:
        assert folder.parent == temporary
    assert len(list(temporary.iterdir())) == 4
    assert [path.name for path in sweep(time.time() + 30 * 24 * 3600)] == ["snowpack-shard-never-locked"]
