"""What a killed process leaves of its exchange folder is removed by the next attempt, and what a live one has is not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from bounded import started

from airflow_snowpack.runners import Exchanges

TASK = "dag/run/task/-1"
BEGIN = """
import sys
from pathlib import Path
from airflow_snowpack.runners import Exchanges, ModuleEntry

exchange = Exchanges(Path(sys.argv[1])).begin(sys.argv[2], "1")
exchange.write_call(ModuleEntry("f", source="def f(): ..."))
exchange.invocation(isolated=False, inside=None)
print(exchange.folder, flush=True)
sys.stdin.read()
"""


@contextmanager
def attempt(root: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """An attempt in another process, between its inputs and its entry."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-c", BEGIN, str(root), TASK]
    with started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())


def test_the_next_attempt_removes_the_folder_of_one_that_was_killed(tmp_path: Path) -> None:
    with attempt(tmp_path) as (process, folder):
        process.kill()
        process.wait()
    assert (folder / "call.json").exists()
    with Exchanges(tmp_path).begin(TASK, "2"):
        assert not folder.exists()


def test_neither_the_next_attempt_nor_a_sweep_removes_the_folder_of_a_live_process(tmp_path: Path) -> None:
    with attempt(tmp_path) as (_, folder):
        with Exchanges(tmp_path).begin(TASK, "2"):
            assert Exchanges(tmp_path).sweep(unused_for=timedelta(0)) == []
        assert (folder / "call.json").exists()
    assert Exchanges(tmp_path).sweep(unused_for=timedelta(0)) == [folder]
