"""Tasks whose image is built from a Git repository, once, and run in a container or a pod; other tasks wait for the build.

Containers: Podman builds the image, and its engine runs it. Pods: Buildah or Podman builds it and pushes it to a registry of this
machine, and the stand-in for a cluster gets the pod.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from image_registry import ImageRegistry, digest_of, running_registry
from image_world import Repository
from kubernetes_api import CLAIM, KubernetesApi
from podman_engine import PodmanEngine
from trigger_rounds import fired, trigger_of

from airflow_snowpack import hooks, operators
from airflow_snowpack.runners.images import Building, ImageBuild, ImageBuilds, ImagePolicy, ImageRecord, ImageState
from airflow_snowpack.settings import Settings
from tests.unit.faces.conftest import Outcome, Runner

DOCKERFILE = "FROM scratch\nCOPY greeting /app/\n"
SHOW = "print(open('/app/greeting').read())"
SEE = "import json, os, sys\nprint(json.dumps({'argv': sys.argv[1:], 'env': dict(os.environ)}))"
SECRET, BUILD_SECRET, PASSWORD = "hunter2-of-the-entry", "hunter2-of-the-build", "hunter2-of-the-registry"
INSTANCE = uuid.uuid4()


@pytest.fixture
def installation(migrated_sqlite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings that lead to a store with all tables and no rows."""
    store = {"conn_type": "sqlite", "host": str(shutil.copy(migrated_sqlite, tmp_path / "snowpack.db"))}
    monkeypatch.setenv("AIRFLOW_CONN_TEST_STORE", json.dumps(store))
    monkeypatch.setenv("AIRFLOW__SNOWPACK__STORE_CONN_ID", "test_store")
    monkeypatch.setenv("AIRFLOW__SNOWPACK__HOME", str(tmp_path / "lake"))
    monkeypatch.setenv("AIRFLOW__SNOWPACK__RESUME_DELAY", "PT0.001S")
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
    use_builder("podman", podman.folder, monkeypatch)
    return podman


def use_builder(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Build images with this program, in a storage in the folder."""
    storage = folder / "storage.conf"
    storage.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/root"\nrunroot = "{folder}/run"\n')
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(storage))
    monkeypatch.setenv("BUILDAH_ISOLATION", "chroot")
    monkeypatch.setenv("AIRFLOW__SNOWPACK__IMAGE_BUILDER", name)


@pytest.fixture
def registry(installation: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ImageRegistry]:
    """A registry that workers push their images to, and a builder."""
    builder = next(filter(shutil.which, ("buildah", "podman")), None)
    if builder is None:
        pytest.skip("NO BUILDAH AND NO PODMAN HERE: no pod got an image that was built. Install one of these packages.")
    use_builder(builder, installation, monkeypatch)
    monkeypatch.setenv("HOME", str(installation))
    with running_registry("ci", PASSWORD) as server:
        extra = {"repository": "team/images"}
        connection = {"conn_type": "docker", "host": f"http://{server.host}", "login": "ci", "password": PASSWORD, "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_IMAGES", json.dumps(connection))
        monkeypatch.setenv("AIRFLOW__SNOWPACK__IMAGE_REGISTRY_CONN_ID", "images")
        yield server


@pytest.fixture
def cluster(installation: Path) -> Iterator[KubernetesApi]:
    """A cluster. The test leaves no pod and no Secret in it."""
    with KubernetesApi(volumes={CLAIM: Settings.load().runner_folder}) as api:
        yield api
        assert (api.pods, api.secrets) == ({}, {})


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
    run_operator: Runner, engine: PodmanEngine, repository: Repository
) -> None:
    repository.commit({"Dockerfile": "FROM scratch\nCOPY nothing /app/\n"})
    fail_all_but_the_last_attempt(ImageBuild(repository.url, "main"))

    outcome = run_operator(score(engine, repository))

    assert "could not be built in 3 attempts" in str(outcome.error)
    assert "COPY nothing /app/" in str(outcome.error)


def test_a_pod_gets_the_digest_that_the_registry_has_and_exactly_its_arguments_and_environment(
    run_operator: Runner,
    registry: ImageRegistry,
    cluster: KubernetesApi,
    repository: Repository,
    installation: Path,
    lines: list[str],
) -> None:
    argv = [sys.executable, "-c", SEE, "two words", "$HOME $(TOKEN) 'quoted'", "line\nbreak"]
    options: dict[str, Any] = {"runner_options": cluster.options(installation), "command_env": {"TOKEN": SECRET, "lower": "1"}}
    build = ImageBuild(repository.url, "main", build_args={"LICENCE": BUILD_SECRET})
    task = operators.RunEntryOperator(task_id="score", runner="kubernetes", build=build, command=argv, **options)

    outcome = run_operator(task)

    assert (outcome.state, outcome.error) == ("success", None)
    (pod,) = cluster.created
    (container,) = pod["spec"]["containers"]
    image = only_image()
    assert container["image"] == f"{registry.host}/team/images@{digest_of(registry.manifests['team/images', image.key])}"
    assert (image.state, image.attempts, image.reference) == (ImageState.READY, 1, container["image"])
    seen = json.loads(lines[-1])
    assert seen["argv"] == argv[3:]
    own = {"PATH", "LC_CTYPE", "KUBERNETES_SERVICE_HOST"}  # of the cluster, and of the image
    assert {name: value for name, value in seen["env"].items() if name not in own} == {"TOKEN": SECRET, "lower": "1"}
    assert (container["env"], container["envFrom"]) == ([], [{"secretRef": {"name": pod["metadata"]["name"]}}])
    (secret,) = cluster.secrets_created
    assert secret["stringData"] == {"TOKEN": SECRET, "lower": "1"}
    for hidden in (SECRET, PASSWORD, BUILD_SECRET):
        assert hidden not in json.dumps([pod, cluster.requests])
    assert PASSWORD not in json.dumps(secret)


def test_a_task_that_waited_for_the_build_runs_its_pod_from_the_same_digest(
    run_operator: Runner,
    registry: ImageRegistry,
    cluster: KubernetesApi,
    repository: Repository,
    installation: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second task begins while the first one builds, and defers twice: for the image, and for its pod."""
    from airflow.sdk import DAG, task

    from airflow_snowpack.operators.entries.built_image import BuiltImage

    build = ImageBuild(repository.url, "main")
    options = cluster.options(installation)
    first = operators.RunEntryOperator(
        task_id="first", runner="kubernetes", build=build, command=["/bin/true"], runner_options=options
    )
    with DAG("guard", schedule=None):

        @task.snowpack(runner="kubernetes", build=build, runner_options=options | {"deferrable": True})
        def second(number: int) -> int:
            return number * 2

        called: Any = second(21)
    waiting: list[Outcome] = []
    built: list[str] = []

    def log_line(self: BuiltImage, line: str) -> None:
        built.append(line)
        if len(built) == 1:
            waiting.append(run_operator(called.operator, instance_id=INSTANCE))
            assert asyncio.run(trigger_of(waiting[0].message).ask()) is None  # it waits on
            repository.commit({"Dockerfile": DOCKERFILE, "greeting": "good night"})

    monkeypatch.setattr(BuiltImage, "_log_line", log_line)
    assert run_operator(first).error is None
    lines_of_the_build = len(built)
    for _ in range(2):
        assert waiting[-1].state == "deferred", waiting[-1].error
        event = fired(trigger_of(waiting[-1].message))
        resume = (waiting[-1].message.next_method, {**waiting[-1].message.next_kwargs, "event": event})
        waiting.append(run_operator(called.operator, resume=resume, instance_id=INSTANCE))

    assert (waiting[-1].state, waiting[-1].xcom, waiting[-1].error) == ("success", 42, None)
    assert [each.message.next_method for each in waiting[:2]] == ["image_ended", "entry_ended"]
    image = only_image()
    assert image.attempts == 1
    assert len(built) == lines_of_the_build > 0
    assert [pod["spec"]["containers"][0]["image"] for pod in cluster.created] == [image.reference] * 2


def test_no_pod_is_created_if_its_image_cannot_be_built(
    run_operator: Runner, registry: ImageRegistry, cluster: KubernetesApi, repository: Repository, installation: Path
) -> None:
    repository.commit({"Dockerfile": "FROM scratch\nCOPY nothing /app/\n"})
    build = ImageBuild(repository.url, "main")
    fail_all_but_the_last_attempt(build)

    outcomes = []
    for task_id in ("last", "late"):
        arguments: dict[str, Any] = {"command": ["/bin/true"], "runner_options": cluster.options(installation)}
        outcomes.append(run_operator(operators.RunEntryOperator(task_id=task_id, runner="kubernetes", build=build, **arguments)))

    for outcome in outcomes:
        assert "could not be built in 3 attempts" in str(outcome.error)
        assert "COPY nothing /app/" in str(outcome.error).partition("End of the build log:")[2]
    assert (only_image().state, only_image().attempts) == (ImageState.FAILED, 3)
    assert (cluster.created, registry.manifests) == ([], {})


def only_image() -> ImageRecord:
    with hooks.SnowpackHook() as hook:
        (image,) = hook.installation.image_builds.list().items
    return image


def fail_all_but_the_last_attempt(build: ImageBuild) -> None:
    """Build an image twice, without the time that passes between two attempts."""
    with hooks.SnowpackHook() as hook:
        known = hook.installation.image_builds
        builds = ImageBuilds(known.store, known.target, ImagePolicy(max_attempts=3, retry_base=timedelta(0)))
        for _ in range(2):
            assert isinstance(builds.ensure(build, build=True), Building)
