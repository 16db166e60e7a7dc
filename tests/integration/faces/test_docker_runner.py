"""The runner ``docker``: the provider's own operator and client against a daemon.

Each test runs with the stand-in of ``docker_engine``, which records requests and runs commands as processes of this machine, and,
where Podman runs containers, with Podman's Docker API and real containers.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import tempfile
import threading
from datetime import timedelta
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

import pytest
from bounded import Beside, started
from docker_engine import DockerEngine
from entry_world import RUN_ID, SECRET, Lines, docker_runner, identity, invocation, python, swept
from podman_engine import PodmanEngine

from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.operators.entries.errors import (
    DockerRefused,
    DockerUnavailable,
    EntryRemoved,
    ExchangeFolderNotShared,
    ImageNotFound,
    ImageNotPulled,
    OutOfMemory,
    UnknownRunnerOption,
)
from airflow_snowpack.runners.errors import EntryCancelled, EntryNotStarted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_snowpack.operators.entries.isolated_runner import IsolatedRunner
    from airflow_snowpack.operators.entries.place import EntryIdentity

SUPPORT = Path(__file__).parents[2] / "support"
IMAGE = "acme/score:1.4"
DIGEST = "acme/score@sha256:" + "ab" * 32
# It prints its arguments, its environment and what it sees below /snowpack, and writes a file there.
SHOW = """
import json, os, sys
folder = sys.argv[1]
open(os.path.join(folder, "written"), "w").write("by the entry")
print(json.dumps({"argv": sys.argv[1:], "env": dict(os.environ), "files": sorted(os.listdir(folder))}))
"""
KILL_ITSELF = "import os; os.kill(os.getpid(), 9)"
WAIT = "import sys, time\nprint('started', flush=True)\ntime.sleep(600)"


class Daemon:
    """A daemon of Docker as a test uses it."""

    def __init__(self, engine: DockerEngine | PodmanEngine) -> None:
        self.engine = engine
        self.image = IMAGE if isinstance(engine, DockerEngine) else engine.image
        self.options: dict[str, Any] = {"docker_url": engine.url} if isinstance(engine, DockerEngine) else engine.options

    def runner(self, of: EntryIdentity | None = None, image: str | None = None, **options: Any) -> IsolatedRunner:
        return docker_runner(image or self.image, of or identity(), {**self.options, **options})

    def containers(self) -> list[dict[str, Any]]:
        """Return all containers, also those that have ended."""
        from docker.api import APIClient

        client = APIClient(base_url=self.engine.url)
        try:
            found: list[dict[str, Any]] = client.containers(all=True, filters={"label": ["airflow_snowpack.dag_id=flights"]})
            return found
        finally:
            client.close()


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
def engine() -> Iterator[DockerEngine]:
    with DockerEngine(images={IMAGE}) as engine:
        yield engine


@pytest.fixture(params=["stand-in", "podman"])
def daemon(request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """A daemon that has the image. The test leaves no container in it."""
    if request.param == "stand-in":
        with DockerEngine(images={IMAGE}) as engine:
            daemon = Daemon(engine)
            yield daemon
            assert daemon.containers() == []
        return
    podman = request.getfixturevalue("podman")
    if isinstance(podman, str):
        pytest.skip(podman)
    daemon = Daemon(podman)
    yield daemon
    assert daemon.containers() == []


def test_an_entry_receives_exactly_its_arguments_environment_and_folder(daemon: Daemon, tmp_path: Path) -> None:
    arguments = ["two words", "a'b\"c", "line\nbreak", "$HOME $(id) `id` *", "ünï", "", "{braces}"]
    run = invocation(tmp_path / "x", *python(SHOW, "/snowpack", *arguments), environment={"TOKEN": SECRET, "lower": "1"})
    (run.folder / "given").touch()
    lines = Lines()

    assert daemon.runner().run(run, lines) == 0

    seen = json.loads(lines.texts[-1])
    assert seen["argv"][1:] == arguments
    assert seen["files"] == ["given", "written"]
    assert (run.folder / "written").read_text() == "by the entry"
    assert seen["env"]["TOKEN"] == SECRET
    # A container's own variables: none of this process, which has AIRFLOW_HOME.
    own = {"PATH", "HOME", "HOSTNAME", "TERM", "container", "LC_CTYPE"}
    assert seen["env"].keys() - own == {"TOKEN", "lower"}


def test_the_request_names_the_task_and_no_secret_outside_of_the_environment(engine: DockerEngine, tmp_path: Path) -> None:
    engine.images.add(DIGEST)
    options = {
        "docker_url": engine.url,
        "labels": {"team": "lake"},
        "mem_limit": "1g",
        "network_mode": "none",
        "mounts": [{"target": "/models", "source": str(tmp_path), "type": "bind", "read_only": True}],
    }
    run = invocation(tmp_path / "x", "/bin/true", "--all", environment={"TOKEN": SECRET})

    assert docker_runner(DIGEST, identity("0196-b", 3), options).run(run, Lines()) == 0

    (request,) = engine.created
    assert request["Image"] == DIGEST
    assert (request["Entrypoint"], request["Cmd"]) == (["/bin/true"], ["--all"])
    assert request["Env"] == [f"TOKEN={SECRET}"]
    assert request["HostConfig"]["Mounts"] == [
        {"Target": "/models", "Source": str(tmp_path), "Type": "bind", "ReadOnly": True},
        {"Target": "/snowpack", "Source": str(run.folder), "Type": "bind", "ReadOnly": False},
    ]
    assert (request["HostConfig"]["Memory"], request["HostConfig"]["NetworkMode"]) == (1024**3, "none")
    assert request["Tty"] is False
    labels = request["Labels"]
    assert len(labels.pop("airflow_snowpack.task_instance")) == 40
    assert labels == {
        "team": "lake",
        "airflow_snowpack.dag_id": "flights",
        "airflow_snowpack.run_id": RUN_ID,
        "airflow_snowpack.task_id": "score",
        "airflow_snowpack.map_index": "2",
        "airflow_snowpack.try_number": "3",
        "airflow_snowpack.attempt": "0196-b",
        "airflow_snowpack.started": "1772366400",
    }
    del request["Env"]
    assert "hunter2" not in json.dumps(request)
    assert "hunter2" not in repr(engine.requests)
    assert "hunter2" not in repr(run)
    (removal,) = [query for method, path, query in engine.requests if method == "DELETE"]
    assert removal == {"v": ["True"], "link": ["False"], "force": ["True"]}


def test_both_streams_become_lines_with_their_levels(daemon: Daemon, tmp_path: Path) -> None:
    code = r"""
import os, sys
os.write(1, b"out \xff\n")
os.write(2, "warn é\n".encode())
os.write(1, b"no end of line")
"""
    lines = Lines()

    assert daemon.runner().run(invocation(tmp_path / "x", *python(code)), lines) == 0

    assert sorted((line.text, line.level) for line in lines.received) == [
        ("no end of line", logging.INFO),
        ("out \N{REPLACEMENT CHARACTER}", logging.INFO),
        ("warn é", logging.ERROR),
    ]


def test_lines_arrive_while_the_entry_runs(daemon: Daemon, tmp_path: Path) -> None:
    code = "import os, sys, time\nprint('first', flush=True)\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.05)"
    run = invocation(tmp_path / "x", *python(code, "/snowpack/seen"))
    lines = Lines()

    def on_line(line: Any) -> None:
        lines(line)
        (run.folder / "seen").touch()  # without this line the entry would never end

    assert daemon.runner().run(run, on_line) == 0
    assert lines.texts == ["first"]


def test_ten_megabytes_of_output_arrive(daemon: Daemon, tmp_path: Path) -> None:
    code = "import sys\nfor _ in range(10 * 1024): sys.stdout.write('x' * 1023 + '\\n')"
    lines = Lines()

    assert daemon.runner().run(invocation(tmp_path / "x", *python(code)), lines) == 0
    assert sum(len(text) + 1 for text in lines.texts) == 10 * 1024**2


@pytest.mark.parametrize(
    ("code", "ended"), [("exit(3)", 3), ("import os; os.kill(os.getpid(), 9)", -9)], ids=["exit 3", "SIGKILL"]
)
def test_the_exit_code_and_the_signal_are_returned(daemon: Daemon, tmp_path: Path, code: str, ended: int) -> None:
    if ended < 0:  # a process with the id 1 is not killed by itself
        code = f"import subprocess, sys; code = subprocess.call([sys.executable, '-c', {code!r}]); exit(128 - code)"

    assert daemon.runner().run(invocation(tmp_path / "x", *python(code)), Lines()) == ended


def test_a_program_that_does_not_exist_is_named(daemon: Daemon, tmp_path: Path) -> None:
    with pytest.raises(EntryNotStarted, match=r"The program 'scoer' could not be started: .*not found"):
        daemon.runner().run(invocation(tmp_path / "x", "scoer"), Lines())


@pytest.mark.parametrize(
    ("status", "message", "error"),
    [
        (500, "failed to create task for container: failed to create shim task: no space left on device", DockerUnavailable),
        (400, "network lake not found", DockerRefused),
    ],
)
def test_a_container_that_cannot_start_for_another_reason_does_not_blame_the_program(
    engine: DockerEngine, tmp_path: Path, status: int, message: str, error: type[Exception]
) -> None:
    engine.start_error = (status, message)

    with pytest.raises(error, match=message):
        docker_runner(IMAGE, identity(), {"docker_url": engine.url}).run(invocation(tmp_path / "x", "/bin/true"), Lines())
    assert not engine.containers


def test_an_exchange_folder_that_the_daemon_does_not_have_is_named(engine: DockerEngine, tmp_path: Path) -> None:
    """Docker refuses it; Podman creates an empty folder."""
    run = invocation(tmp_path / "x", "/bin/true")
    run.folder.rmdir()  # as for a daemon on another host

    with pytest.raises(ExchangeFolderNotShared, match="runner_folder") as refused:
        docker_runner(IMAGE, identity(), {"docker_url": engine.url}).run(run, Lines())
    assert str(run.folder) in str(refused.value)


@pytest.mark.parametrize(
    ("problem", "error", "kind", "words"),
    [
        (None, ImageNotFound, Kind.NOT_FOUND, r"'acme/scoer:1.4' cannot be pulled: pull access denied.*docker_conn_id"),
        (
            "Get https://registry.acme.example/v2/: dial tcp: i/o timeout",
            ImageNotPulled,
            Kind.UNAVAILABLE,
            r"i/o timeout. Check that its registry is available\.",
        ),
    ],
    ids=["missing", "no answer"],
)
def test_an_image_that_cannot_be_pulled_is_named_and_retried_if_the_registry_did_not_answer(
    engine: DockerEngine, tmp_path: Path, problem: str | None, error: type[SnowpackError], kind: Kind, words: str
) -> None:
    engine.pull_error = problem
    runner = docker_runner("acme/scoer:1.4", identity(), {"docker_url": engine.url})

    with pytest.raises(error, match=words) as failed:
        runner.run(invocation(tmp_path / "x", "/bin/true"), Lines())
    assert failed.value.kind is kind


def test_an_image_is_pulled_once(engine: DockerEngine, tmp_path: Path) -> None:
    engine.pullable.add(DIGEST)
    for attempt in ("0196-a", "0196-b"):
        runner = docker_runner(DIGEST, identity(attempt), {"docker_url": engine.url})
        assert runner.run(invocation(tmp_path / "x", "/bin/true"), Lines()) == 0
    pulls = [query for method, path, query in engine.requests if path.endswith("/images/create")]
    assert pulls == [{"fromImage": ["acme/score"], "tag": ["sha256:" + "ab" * 32]}]


def test_a_container_out_of_memory_is_reported(engine: DockerEngine, tmp_path: Path) -> None:
    engine.out_of_memory = True
    with pytest.raises(OutOfMemory, match=r"by the signal SIGKILL. It exceeded the memory limit.*mem_limit"):
        docker_runner(IMAGE, identity(), {"docker_url": engine.url}).run(
            invocation(tmp_path / "x", *python(KILL_ITSELF)), Lines()
        )
    assert not engine.containers


def test_a_daemon_that_does_not_answer_is_named(tmp_path: Path) -> None:
    runner = docker_runner(IMAGE, identity(), {"docker_url": f"unix://{tmp_path}/docker.sock"})

    with pytest.raises(DockerUnavailable, match=r"docker\.sock cannot be used.*docker_url.*DOCKER_HOST") as failed:
        runner.run(invocation(tmp_path / "x", "/bin/true"), Lines())
    assert failed.value.kind is Kind.UNAVAILABLE


def test_a_broken_daemon_is_a_reason_to_retry(engine: DockerEngine, tmp_path: Path) -> None:
    engine.answers_500 = True

    with pytest.raises(DockerUnavailable, match="the engine is broken"):
        docker_runner(IMAGE, identity(), {"docker_url": engine.url}).run(invocation(tmp_path / "x", "/bin/true"), Lines())


def test_stop_ends_the_entry_and_removes_its_container(daemon: Daemon, tmp_path: Path) -> None:
    code = "import signal, sys\nsignal.signal(15, lambda *_: (print('asked to end', flush=True), exit(0)))\n" + WAIT
    runner, lines, has_started = daemon.runner(), Lines(), threading.Event()

    def on_line(line: Any) -> None:
        lines(line)
        has_started.set()

    def stop() -> None:
        has_started.wait()
        runner.stop()
        runner.stop()

    stopping = Beside(stop)
    with pytest.raises(EntryCancelled):
        runner.run(invocation(tmp_path / "x", *python(code)), on_line)
    stopping.join()
    assert lines.texts == ["started", "asked to end"]


def test_an_entry_that_was_stopped_before_it_started_never_starts(daemon: Daemon, tmp_path: Path) -> None:
    runner = daemon.runner()
    runner.stop()
    run = invocation(tmp_path / "x", *python("open('/snowpack/written', 'w')"))

    with pytest.raises(EntryCancelled):
        runner.run(run, Lines())
    assert not (run.folder / "written").exists()


def test_a_task_that_is_ended_leaves_no_container(daemon: Daemon, tmp_path: Path) -> None:
    def on_line(line: Any) -> None:
        raise SystemExit(143)

    with pytest.raises(SystemExit):
        daemon.runner().run(invocation(tmp_path / "x", *python(WAIT)), on_line)


def test_an_entry_out_of_time_gets_sigterm_before_its_container_is_removed(daemon: Daemon, tmp_path: Path) -> None:
    from airflow.sdk.exceptions import AirflowTaskTimeout

    code = "import signal, sys\nsignal.signal(15, lambda *_: exit(open(sys.argv[1], 'w').close()))\n" + WAIT
    run = invocation(tmp_path / "x", *python(code, "/snowpack/asked"))

    def on_line(line: Any) -> None:
        raise AirflowTaskTimeout

    with pytest.raises(AirflowTaskTimeout):
        daemon.runner().run(run, on_line)
    assert (run.folder / "asked").exists()


def test_a_task_that_is_ended_before_the_daemon_answers_leaves_no_container(engine: DockerEngine, tmp_path: Path) -> None:
    is_over = threading.Event()

    def created() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        is_over.wait()

    def end_task(*_: object) -> None:
        raise SystemExit(143)

    engine.on_created = created
    before = signal.signal(signal.SIGTERM, end_task)
    try:
        with pytest.raises(SystemExit):
            docker_runner(IMAGE, identity(), {"docker_url": engine.url}).run(invocation(tmp_path / "x", "/bin/true"), Lines())
    finally:
        signal.signal(signal.SIGTERM, before)
        is_over.set()
    assert len(engine.created) == 1
    assert not engine.containers


def test_stop_needs_no_registry(engine: DockerEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_REGISTRY", "docker://robot:pass@registry.acme.example")

    docker_runner(IMAGE, identity(), {"docker_url": engine.url, "docker_conn_id": "registry"}).stop()

    paths = [path.rpartition("/")[2] for _, path, _ in engine.requests]
    assert "auth" not in paths
    assert paths[-1] == "json"  # the list of containers


def test_the_next_attempt_removes_what_a_killed_one_left(daemon: Daemon, tmp_path: Path) -> None:
    left, others = _left_over(daemon, tmp_path), _left_over(daemon, tmp_path, identity("0196-o", task="other"))
    assert len(daemon.containers()) == 2

    next_runner = daemon.runner(identity("0196-b", 2, timedelta(minutes=5)))
    assert next_runner.run(invocation(tmp_path / "y", "/bin/true"), Lines()) == 0

    assert [each["Id"] for each in daemon.containers()] == [others]
    assert left != others
    daemon.runner(identity("0196-p", 2, task="other")).run(invocation(tmp_path / "y", "/bin/true"), Lines())


def test_a_container_whose_task_was_killed_is_removed_by_the_next_attempt(daemon: Daemon, tmp_path: Path) -> None:
    _kill_task(daemon, tmp_path)

    next_runner = daemon.runner(identity("0196-b", 2, timedelta(minutes=5)))
    assert next_runner.run(invocation(tmp_path / "y", "/bin/true"), Lines()) == 0


def test_a_container_whose_task_was_killed_is_removed_by_the_sweep_once_the_task_has_ended(
    daemon: Daemon, tmp_path: Path
) -> None:
    _kill_task(daemon, tmp_path)

    assert swept(tmp_path, "running") == []
    assert len(daemon.containers()) == 1
    assert swept(tmp_path, "failed") == [f"flights/{RUN_ID}/score[2]"]
    assert daemon.containers() == []
    assert swept(tmp_path, "failed") == []


def test_an_attempt_that_continues_late_removes_nothing_of_its_successor(daemon: Daemon, tmp_path: Path) -> None:
    successor = _left_over(daemon, tmp_path, identity("0196-b", 2, timedelta(minutes=5)))

    assert daemon.runner(identity("0196-a", 1)).run(invocation(tmp_path / "y", "/bin/true"), Lines()) == 0

    assert [each["Id"] for each in daemon.containers()] == [successor]
    daemon.runner(identity("0196-c", 3, timedelta(minutes=9))).run(invocation(tmp_path / "y", "/bin/true"), Lines())


def test_a_container_that_another_process_removed_is_reported(daemon: Daemon, tmp_path: Path) -> None:
    removing: list[Beside] = []

    def on_line(line: Any) -> None:
        later = daemon.runner(identity("0196-b", 2, timedelta(minutes=5)))
        removing.append(Beside(lambda: later.run(invocation(tmp_path / "y", "/bin/true"), Lines())))

    with pytest.raises(EntryRemoved, match="later attempt"):
        daemon.runner().run(invocation(tmp_path / "x", *python(WAIT)), on_line)
    removing[0].join()


@pytest.mark.parametrize("option", ["memlimit", "execution_timeout", "task_id"])
def test_an_option_that_the_provider_does_not_have_is_refused(engine: DockerEngine, tmp_path: Path, option: str) -> None:
    with pytest.raises(
        UnknownRunnerOption, match=f"'{option}', which is no argument of the provider's DockerOperator"
    ) as refused:
        docker_runner(IMAGE, identity(), {"docker_url": engine.url, option: 1}).run(
            invocation(tmp_path / "x", "/bin/true"), Lines()
        )
    assert refused.value.kind is Kind.INVALID
    assert engine.created == []


def _kill_task(daemon: Daemon, tmp_path: Path) -> None:
    """Run an entry in a task, and kill the task while the entry runs."""
    arguments = [json.dumps(daemon.options), daemon.image, str(tmp_path / "x"), *python(WAIT)]
    program = [sys.executable, str(SUPPORT / "run_container.py"), *arguments]
    with started(program, stdout=PIPE, env={**os.environ, "PYTHONPATH": str(SUPPORT)}) as task:
        assert task.stdout is not None
        while (line := task.stdout.readline()) != "started\n":
            assert line, "the task has ended"
        task.kill()
        task.wait()
    assert [each["State"] for each in daemon.containers()] == ["running"]


def _left_over(daemon: Daemon, tmp_path: Path, of: EntryIdentity | None = None) -> str:
    """Return the id of a container that runs, and whose task does not exist any more."""
    from docker.api import APIClient
    from docker.types import Mount

    of = of or identity()
    client = APIClient(base_url=daemon.engine.url)
    host = client.create_host_config(mounts=[Mount(**each) for each in daemon.options.get("mounts", ())], network_mode="none")
    argv = python(WAIT)
    made = client.create_container(daemon.image, entrypoint=argv[:1], command=argv[1:], labels=of.labels(), host_config=host)
    client.start(made["Id"])
    client.close()
    return str(made["Id"])
