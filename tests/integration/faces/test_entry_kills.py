"""A task process that is killed with SIGKILL in any phase of an entry leaves nothing, and the next try counts.

Containers are those of Podman and, where it runs none, of the stand-in for a Docker daemon; pods are those of the stand-in for a
cluster. ``make test`` kills in the phases that all runners share with one of them; ``make soak`` with each.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
from clocks import ShiftedClock
from docker_engine import DockerEngine
from effort import SOAK
from handed_tables import rows
from interim_lake import ReportedRuns
from kubernetes_api import CLAIM, KubernetesApi
from podman_engine import PodmanEngine

from airflow_snowpack import hooks
from airflow_snowpack.interim.collection.collector import Collector
from airflow_snowpack.interim.collection.model import RunPhase
from airflow_snowpack.interim.model import InterimTable, TableState

REPOSITORY = Path(__file__).parents[3]
PATIENCE_S = 120
ANSWER = "answer:"
IMAGE = "acme/score:1.4"
LEASES_ARE_OVER = timedelta(hours=2)

SHARED = ("before the run", "after it ended", "before the commit", "after the commit")
ISOLATED = ("after it was created", "while the entry runs", "before it is removed", *(SHARED if SOAK else ()))
CASES = [
    *(("subprocess", phase) for phase in (*SHARED, "while the entry runs")),
    *(("docker", phase) for phase in ISOLATED),
    *(("kubernetes", phase) for phase in (*ISOLATED, "before it defers")),
]
LEFT = {
    ("docker", "after it was created"): "created",
    ("docker", "while the entry runs"): "running",
    ("docker", "before it is removed"): "exited",
    ("kubernetes", "after it was created"): "Pending",
    ("kubernetes", "while the entry runs"): "Running",
    ("kubernetes", "before it defers"): "Running",
    ("kubernetes", "before it is removed"): "Succeeded",
}
"""The state of the container or pod that the killed process leaves; in the other phases it leaves none."""


class Place(NamedTuple):
    """Where entries run.

    :ivar arguments: of a task.
    :ivar left: returns the states of the containers or pods that are there.
    """

    arguments: dict[str, Any]
    left: Callable[[], list[str]]


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
def places(home: Path) -> Iterator[dict[str, Place]]:
    """Where entries run, by the name of the runner."""
    folder = Path(tempfile.mkdtemp(prefix="podman", dir="/tmp"))  # a short path, for a socket
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        cluster = stack.enter_context(KubernetesApi(volumes={CLAIM: home / "lake" / "entries"}))
        is_real = PodmanEngine.unusable(folder) is None
        engine: PodmanEngine | DockerEngine = PodmanEngine(folder) if is_real else DockerEngine({IMAGE})
        stack.enter_context(engine)
        yield {"subprocess": Place({}, list), "docker": _in_containers(engine), "kubernetes": _in_pods(cluster, home)}


def _in_containers(engine: PodmanEngine | DockerEngine) -> Place:
    def left() -> list[str]:
        from docker.api import APIClient

        with closing(APIClient(base_url=engine.url)) as client:
            return [container["State"] for container in client.containers(all=True)]

    if isinstance(engine, PodmanEngine):
        return Place({"image": engine.image, "runner_options": engine.options}, left)
    return Place({"image": IMAGE, "runner_options": {"docker_url": engine.url}}, left)


def _in_pods(cluster: KubernetesApi, home: Path) -> Place:
    def left() -> list[str]:
        assert set(cluster.secrets) <= set(cluster.pods), "a Secret is deleted with its pod"
        return [pod.status["phase"] for pod in cluster.pods.values()]

    return Place({"image": IMAGE, "runner_options": cluster.options(home)}, left)


@pytest.fixture(scope="module")
def run_try(home: Path) -> Iterator[Callable[..., str]]:
    """Run one try in a process of its own; returns its answer."""
    script = [sys.executable, str(REPOSITORY / "tests/support/kill_entry.py")]
    with subprocess.Popen(script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        pipes = process.stdin, process.stdout

        def run(phase: str, try_number: int, folder: Path, place: dict[str, Any]) -> str:
            print(json.dumps([phase, try_number, str(folder), place]), file=pipes[0], flush=True)
            return next(line for line in pipes[1] if line.startswith(ANSWER)).removeprefix(ANSWER).strip()

        assert run("numbers", 1, home, {}) == "written"
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


def collected(run_id: str, *, phase: RunPhase) -> list[InterimTable]:
    """Return what a collector keeps of a run whose task ``score`` has finished, when no dead process has a lease any more."""
    reported = ReportedRuns({("guard", run_id): phase})
    reported.set("score", "success", run_id=run_id, dag_id="guard")
    with hooks.SnowpackHook() as hook:
        registry = hook.interim()
        registry.store.clock = ShiftedClock(LEASES_ARE_OVER)
        registry.nudge("guard", run_id)
        Collector(registry, reported, lambda _: hooks.IcebergCatalogHook().catalog).run()
        return registry.tables(dag_id="guard", run_id=run_id)


@pytest.mark.parametrize(("runner", "phase"), CASES)
def test_a_task_that_is_killed_leaves_nothing_and_its_next_try_counts(
    run_try: Callable[..., str], home: Path, places: dict[str, Place], runner: str, phase: str
) -> None:
    folder, place = home / f"{runner} {phase}".replace(" ", "_"), places[runner]
    folder.mkdir()
    options = place.arguments.get("runner_options", {})
    deferrable = {"runner_options": options | {"deferrable": True}} if phase == "before it defers" else {}
    numbers = json.loads((home / "numbers.json").read_text())

    assert run_try(phase, 1, folder, {"runner": runner, **place.arguments, **deferrable}) == "killed"
    assert place.left() == ([LEFT[runner, phase]] if (runner, phase) in LEFT else [])
    assert_gone(processes(folder, 1))
    answer: dict[str, Any] = json.loads(run_try("", 2, folder, {"runner": runner, **place.arguments}))
    assert_gone(processes(folder, 2))

    assert rows(answer) == [{"number": number, "try": 2} for number in (1, 2, 3)]
    assert place.left() == []
    assert list((home / "lake" / "entries").glob("entry-*")) == []
    assert bool(processes(folder, 1)) == (runner == "subprocess" and phase != "before the run")
    # A try that was killed after its commit has handed on nothing: its table has no name any more, and goes with its consumers.
    kept = {(table.try_number, table.state, table.is_named) for table in collected(folder.name, phase=RunPhase.ACTIVE)}
    assert kept == {(2, TableState.READY, True)} | ({(1, TableState.READY, False)} if phase == "after the commit" else set())
    assert collected(folder.name, phase=RunPhase.OVER) == []
    with hooks.SnowpackHook() as hook:
        table = hook.interim().table(numbers["table_id"])
    assert (table.readers, table.silent_readers, table.pins) == (0, 0, ())
