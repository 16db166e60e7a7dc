"""A task whose image is built from a Git repository by Podman and run by Podman's engine; other tasks wait for its build."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from image_world import Repository
from podman_engine import PodmanEngine

from airflow_snowpack import hooks, operators
from airflow_snowpack.runners.images import ImageBuild, ImageState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.faces.conftest import Runner

DOCKERFILE = "FROM scratch\nCOPY greeting /app/\n"
SHOW = "print(open('/app/greeting').read())"


@pytest.fixture
def installation(migrated_sqlite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings that lead to a store with all tables and no rows, and to Podman as the builder of images."""
    store = {"conn_type": "sqlite", "host": str(shutil.copy(migrated_sqlite, tmp_path / "snowpack.db"))}
    monkeypatch.setenv("AIRFLOW_CONN_TEST_STORE", json.dumps(store))
    monkeypatch.setenv("AIRFLOW__SNOWPACK__STORE_CONN_ID", "test_store")
    monkeypatch.setenv("AIRFLOW__SNOWPACK__HOME", str(tmp_path / "lake"))
    monkeypatch.setenv("AIRFLOW__SNOWPACK__IMAGE_BUILDER", "podman")
    tmp_path.chmod(0o755)
    return tmp_path


@pytest.fixture(scope="module")
def podman() -> Iterator[PodmanEngine | str]:
    """Podman's engine, or why there is none."""
    folder = Path(tempfile.mkdtemp(prefix="podman", dir="/tmp"))
    if (reason := PodmanEngine.unusable(folder)) is not None:
        yield reason
        return
    with PodmanEngine(folder) as engine:
        yield engine


@pytest.fixture
def engine(podman: PodmanEngine | str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PodmanEngine:
    """The engine, in whose storage the builder stores its images."""
    if isinstance(podman, str):
        pytest.skip(podman)
    storage = tmp_path / "storage.conf"
    graph, run = podman.folder / "root", podman.folder / "run"
    storage.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{graph}"\nrunroot = "{run}"\n')
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(storage))
    monkeypatch.setenv("BUILDAH_ISOLATION", "chroot")
    return podman


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path / "score.git")
    repository.commit({"Dockerfile": DOCKERFILE, "greeting": "good morning"})
    return repository


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the entries have printed."""
    printed: list[str] = []
    monkeypatch.setattr(operators.RunEntryOperator, "_log_line", lambda self, line: printed.append(line.text))
    return printed


def score(engine: PodmanEngine, repository: Repository, task_id: str = "score") -> operators.RunEntryOperator:
    arguments: dict[str, Any] = {"runner_options": engine.options, "command": [sys.executable, "-c", SHOW]}
    return operators.RunEntryOperator(task_id=task_id, runner="docker", build=ImageBuild(repository.url, "main"), **arguments)


def test_the_first_task_builds_the_image_and_the_next_one_uses_it(
    run_operator: Runner, engine: PodmanEngine, repository: Repository, lines: list[str]
) -> None:
    outcomes = [run_operator(score(engine, repository, task_id)) for task_id in ("score", "again")]

    assert [(outcome.state, outcome.error) for outcome in outcomes] == [("success", None)] * 2
    assert lines == ["good morning"] * 2
    with hooks.SnowpackHook() as hook:
        (image,) = hook.installation.image_builds.list().items
    assert (image.state, image.attempts) == (ImageState.READY, 1)


def test_a_task_waits_in_the_triggerer_for_the_build_of_another_and_keeps_its_commit(
    run_operator: Runner, engine: PodmanEngine, repository: Repository, lines: list[str]
) -> None:
    with hooks.SnowpackHook() as hook:
        builds = hook.installation.image_builds
        wanted = builds.ensure(ImageBuild(repository.url, "main"))
        other = builds._attempts.claim(wanted.key, "guard/run1/other", is_task=True)
        assert other is not None

        waiting = run_operator(score(engine, repository))
        repository.commit({"Dockerfile": DOCKERFILE, "greeting": "good night"})
        assert builds._attempts.give_back(other)

    assert waiting.state == "deferred", waiting.error
    assert waiting.message.classpath == "airflow_snowpack.triggers.image_builds.ImageBuildTrigger"
    assert waiting.message.trigger_kwargs["key"] == wanted.key
    event = {"event": {"key": wanted.key, "state": "free"}, **waiting.message.next_kwargs}
    resumed = run_operator(score(engine, repository), resume=(waiting.message.next_method, event))
    assert (resumed.state, resumed.error) == ("success", None)
    assert lines == ["good morning"]


def test_an_image_that_cannot_be_built_fails_the_task_with_the_log(
    run_operator: Runner, engine: PodmanEngine, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_snowpack.runners.images import ImageBuilds, ImagePolicy

    repository.commit({"Dockerfile": "FROM scratch\nCOPY nothing /app/\n"})
    known = ImageBuilds.__init__

    def impatient(self: Any, store: Any, target: Any, *arguments: Any, **named: Any) -> None:
        known(self, store, target, ImagePolicy(max_attempts=1), **named)

    monkeypatch.setattr(ImageBuilds, "__init__", impatient)

    outcome = run_operator(score(engine, repository))

    assert "could not be built" in str(outcome.error)
    assert "COPY nothing /app/" in str(outcome.error)
