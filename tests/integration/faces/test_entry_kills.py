"""A task process that is killed with SIGKILL in any phase of an entry leaves nothing, and the next try counts."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from airflow_snowpack import hooks
from airflow_snowpack.interim import read_ref
from airflow_snowpack.interim.frames.tables import read_as_arrow
from airflow_snowpack.interim.model import TableState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REPOSITORY = Path(__file__).parents[3]
PATIENCE_S = 120
ANSWER = "answer:"
PHASES = ("before the run", "while the entry runs", "after it ended", "before the commit", "after the commit")


@pytest.fixture(scope="module")
def home(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a store and an empty catalog, which the settings of this process and of those below it lead to."""
    folder = tmp_path_factory.mktemp("killed")
    store = {"conn_type": "sqlite", "host": str(shutil.copy(migrated_sqlite, folder / "snowpack.db"))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_TEST_STORE", json.dumps(store))
        patch.setenv("AIRFLOW__SNOWPACK__STORE_CONN_ID", "test_store")
        patch.setenv("AIRFLOW__SNOWPACK__HOME", str(folder / "lake"))
        patch.setenv("PYTHONPATH", f"{REPOSITORY}:{REPOSITORY}/tests/support")
        yield folder


@pytest.fixture(scope="module")
def run_try(home: Path) -> Iterator[Callable[..., str]]:
    """Run one try in a process of its own; returns its answer."""
    script = [sys.executable, str(REPOSITORY / "tests/support/kill_entry.py")]
    with subprocess.Popen(script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        pipes = process.stdin, process.stdout

        def run(phase: str, try_number: int, folder: Path) -> str:
            print(json.dumps([phase, try_number, str(folder)]), file=pipes[0], flush=True)
            return next(line for line in pipes[1] if line.startswith(ANSWER)).removeprefix(ANSWER).strip()

        assert run("numbers", 1, home) == "null"
        yield run
        process.stdin.close()


def processes(folder: Path, try_number: int) -> list[int]:
    """The process of the entry, and the one below it in a session of its own."""
    file = folder / f"pids-{try_number}.json"
    found: list[int] = json.loads(file.read_text()) if file.exists() else []
    return found


def assert_gone(pids: list[int]) -> None:
    """Wait for the supervisor of the entry, which outlives its task for a moment."""
    for pid in pids:
        if psutil.pid_exists(pid):
            psutil.Process(pid).wait(PATIENCE_S)


@pytest.mark.parametrize("phase", PHASES)
def test_a_task_that_is_killed_leaves_nothing_and_its_next_try_counts(
    run_try: Callable[..., str], home: Path, phase: str
) -> None:
    folder = home / phase.replace(" ", "_")
    folder.mkdir()
    if phase == "while the entry runs":
        (folder / "wait-1").touch()

    assert run_try(phase, 1, folder) == "killed"
    assert_gone(processes(folder, 1))
    answer: dict[str, Any] = json.loads(run_try("", 2, folder))
    assert_gone(processes(folder, 2))

    with hooks.SnowpackHook() as hook:
        tables = [table for table in hook.interim().tables(dag_id="guard") if table.producer.run_id == folder.name]
    found = {(table.try_number, table.state) for table in tables}
    # What a killed try has begun is on record, without its fence, until the collector drops it.
    left = {"before the commit": {(1, TableState.WRITING)}, "after the commit": {(1, TableState.READY)}}.get(phase, set())
    assert found == {(2, TableState.READY)} | left
    rows = read_as_arrow(read_ref(answer), hooks.IcebergCatalogHook().catalog)
    assert rows["try"].to_pylist() == [2, 2, 2]
    assert list((home / "lake" / "entries").glob("entry-*")) == []
    assert processes(folder, 1) or phase == "before the run"
