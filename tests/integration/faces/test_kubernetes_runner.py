"""The runner ``kubernetes``: the provider's own operator, trigger and clients against a stand-in for a cluster."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from bounded import Beside
from entry_world import RUN_ID, SECRET, Lines, identity, invocation, python, swept
from kubernetes_api import KubernetesApi

from airflow_snowpack.errors import Kind
from airflow_snowpack.operators.entries.errors import (
    ClusterNotConfigured,
    ClusterRefused,
    ClusterUnavailable,
    EntryRemoved,
    ExchangeFolderNotShared,
    ImageNotFound,
    ImageNotPulled,
    OutOfMemory,
    PodEvicted,
    PodNotAdmitted,
    PodNotStarted,
    PodOutOfTime,
    UnknownRunnerOption,
)
from airflow_snowpack.runners.errors import EntryCancelled, EntryNotStarted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow.sdk.exceptions import TaskDeferred

    from airflow_snowpack.operators.entries.isolated_runner import IsolatedRunner
    from airflow_snowpack.operators.entries.place import EntryIdentity, RunPlace
    from airflow_snowpack.runners.invocation import Invocation

MANIFESTS = Path(__file__).parents[3] / "docker" / "kubernetes"
IMAGE = "acme/score@sha256:" + "ab" * 32
SHOW = """
import json, os, sys
folder = sys.argv[1]
open(os.path.join(folder, "written"), "w").write("by the entry")
print(json.dumps({"argv": sys.argv[1:], "env": dict(os.environ), "files": sorted(os.listdir(folder))}))
"""
# The provider passes on a line when the next one has arrived.
WAIT = "import time\nprint('started'); print('waits', flush=True)\ntime.sleep(600)"
TEMPLATE = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"namespace": "lake", "labels": {"team": "lake"}},
    "spec": {
        "serviceAccountName": "entries",
        "containers": [
            {
                "name": "base",
                "args": ["what", "the", "template", "says"],
                "env": [{"name": "REGION", "value": "eu"}, {"name": "TOKEN", "value": "of the template"}],
                "volumeMounts": [{"name": "exchange", "mountPath": "/snowpack"}],
                "resources": {"limits": {"memory": "4Gi"}},
            }
        ],
        "volumes": [{"name": "exchange", "persistentVolumeClaim": {"claimName": "snowpack-entries"}}],
    },
}


class Cluster:
    """A cluster, and the worker's mount of its volume."""

    def __init__(self, api: KubernetesApi, root: Path, folder: Path) -> None:
        self.api = api
        self.root = root
        self.options = api.options(folder, TEMPLATE) | {"deferrable": False}
        self.template = folder / "template.yaml"

    def place(self, of: EntryIdentity, time_limit: timedelta | None = None, **options: Any) -> RunPlace:
        from airflow_snowpack.operators.entries.place import RunPlace

        chosen = {name: value for name, value in {**self.options, **options}.items() if value is not ...}
        return RunPlace(IMAGE, of, chosen, context(of), self.root, time_limit)

    def runner(self, of: EntryIdentity | None = None, *, time_limit: timedelta | None = None, **options: Any) -> IsolatedRunner:
        from airflow_snowpack.operators.entries.isolated_runner import IsolatedRunner, open_runner

        runner = open_runner("kubernetes", self.place(of or identity(), time_limit, **options))
        assert isinstance(runner, IsolatedRunner)
        return runner

    def deferred(self, run: Invocation, of: EntryIdentity | None = None, *, time_limit: timedelta | None = None) -> TaskDeferred:
        """Run the entry in a task that waits in the triggerer."""
        from airflow.sdk.exceptions import TaskDeferred

        with pytest.raises(TaskDeferred) as deferred:
            self.runner(of, time_limit=time_limit, deferrable=True).run(run, Lines())
        return deferred.value

    def run_of(self, *argv: str, attempt: str = "0196-a", environment: dict[str, str] | None = None) -> Invocation:
        return invocation(self.root / attempt, *argv, environment=environment)


def context(of: EntryIdentity) -> Any:
    """Return what the provider reads of Airflow's context."""
    task, pushed = of.attempt.task, dict[str, Any]()
    instance = SimpleNamespace(
        dag_id=task.dag_id,
        task_id=task.task_id,
        run_id=task.run_id,
        map_index=task.map_index,
        try_number=of.attempt.try_number,
        start_date=datetime.now(UTC),
        xcom_push=lambda key, value: pushed.__setitem__(key, value),
    )
    return {"ti": instance, "run_id": task.run_id, "dag": SimpleNamespace(), "pushed": pushed}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster. The test leaves no pod and no Secret in it."""
    root = tmp_path / "exchange"
    root.mkdir()
    with KubernetesApi(volumes={"snowpack-entries": root}) as api:
        yield Cluster(api, root, tmp_path)
        assert api.pods == {}
        assert api.secrets == {}


def test_an_entry_receives_exactly_its_arguments_environment_and_folder(cluster: Cluster) -> None:
    arguments = ["two words", "a'b\"c", "line\nbreak", "$HOME $(TOKEN) $$(TOKEN) $$ `id` *", "ünï", "", "{braces}"]
    run = cluster.run_of(*python(SHOW, "/snowpack", *arguments), environment={"TOKEN": SECRET, "lower": "1"})
    (run.folder / "given").touch()
    lines = Lines()

    assert cluster.runner().run(run, lines) == 0

    seen = json.loads(lines.texts[-1])
    assert seen["argv"][1:] == arguments
    assert seen["files"] == ["given", "written"]
    assert (run.folder / "written").read_text() == "by the entry"
    own = {"PATH", "LC_CTYPE", "KUBERNETES_SERVICE_HOST"}  # and no address of another Service
    assert {name: value for name, value in seen["env"].items() if name not in own} == {
        "TOKEN": SECRET,
        "lower": "1",
        "REGION": "eu",  # of the template
    }


def test_the_pod_names_the_task_and_contains_no_secret(cluster: Cluster) -> None:
    run = cluster.run_of("/bin/true", environment={"TOKEN": SECRET})
    runner = cluster.runner(
        identity("0196-b", 3), time_limit=timedelta(minutes=90), node_selector={"disk": "ssd"}, name="Score.It"
    )

    assert runner.run(run, Lines()) == 0

    (pod,) = cluster.api.created
    spec, (container,) = pod["spec"], pod["spec"]["containers"]
    assert pod["metadata"]["namespace"] == "lake"
    assert pod["metadata"]["name"].startswith("score-it-")
    assert (spec["activeDeadlineSeconds"], spec["restartPolicy"]) == (5400, "Never")
    assert (spec["serviceAccountName"], spec["nodeSelector"]) == ("entries", {"disk": "ssd"})
    assert spec["volumes"] == TEMPLATE["spec"]["volumes"]  # type: ignore[index]
    assert container["image"] == IMAGE
    assert container["command"] == ["/bin/true"]
    assert "args" not in container
    assert container["volumeMounts"] == [{"name": "exchange", "mountPath": "/snowpack", "subPath": "0196-a", "readOnly": False}]
    assert container["resources"] == {"limits": {"memory": "4Gi"}}
    assert container["env"] == [{"name": "REGION", "value": "eu"}]
    assert container["envFrom"] == [{"secretRef": {"name": pod["metadata"]["name"]}}]
    assert "hunter2" not in json.dumps(pod)
    assert "hunter2" not in repr(cluster.api.requests)

    labels = pod["metadata"]["labels"]
    own = {name: value for name, value in labels.items() if name.startswith("airflow_snowpack.")}
    assert len(own.pop("airflow_snowpack.task_instance")) == 40
    assert own == {
        "airflow_snowpack.attempt": "0196-b",
        "airflow_snowpack.try_number": "3",
        "airflow_snowpack.started": "1772366400",
    }
    assert {name: labels[name] for name in ("team", "dag_id", "task_id", "map_index", "try_number")} == {
        "team": "lake",
        "dag_id": "flights",
        "task_id": "score",
        "map_index": "2",
        "try_number": "3",
    }
    assert labels["run_id"].startswith("scheduled__2026-03-01")
    assert labels["run_id"] != RUN_ID  # made valid as a label

    (secret,) = cluster.api.secrets_created
    assert secret["stringData"] == {"TOKEN": SECRET}
    assert [owner["name"] for owner in secret["metadata"]["ownerReferences"]] == [pod["metadata"]["name"]]


def test_an_entry_without_variables_needs_no_secret(cluster: Cluster) -> None:
    assert cluster.runner().run(cluster.run_of("/bin/true"), Lines()) == 0
    assert not any("/secrets" in path for _, path in cluster.api.requests)


def test_a_mount_below_the_root_of_the_volume_keeps_its_folder(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "exchange").rename(tmp_path / "volume")
    cluster.root = tmp_path / "volume" / "entries"
    cluster.api.volumes = {"snowpack-entries": tmp_path / "volume"}
    template = yaml.safe_load(cluster.template.read_text())
    template["spec"]["containers"][0]["volumeMounts"][0]["subPath"] = "entries"
    cluster.template.write_text(yaml.safe_dump(template))

    assert cluster.runner().run(cluster.run_of(*python("open('/snowpack/x', 'w')")), Lines()) == 0

    assert cluster.api.created[0]["spec"]["containers"][0]["volumeMounts"][0]["subPath"] == "entries/0196-a"
    assert (cluster.root / "0196-a" / "x").exists()


def test_the_volume_may_come_from_options_without_a_template(cluster: Cluster) -> None:
    from kubernetes.client import models as k8s

    claim = k8s.V1PersistentVolumeClaimVolumeSource(claim_name="snowpack-entries")
    volumes = [k8s.V1Volume(name="exchange", persistent_volume_claim=claim)]
    mounts = [k8s.V1VolumeMount(name="exchange", mount_path="/snowpack")]
    for attempt in ("0196-a", "0196-b"):
        runner = cluster.runner(identity(attempt), pod_template_file=..., namespace="ns", volumes=volumes, volume_mounts=mounts)
        assert runner.run(cluster.run_of("/bin/true", attempt=attempt), Lines()) == 0
    found = [pod["spec"]["containers"][0]["volumeMounts"][0]["subPath"] for pod in cluster.api.created]
    assert found == ["0196-a", "0196-b"]  # the options are not changed


def test_a_pod_without_the_exchange_volume_is_refused_before_it_is_created(cluster: Cluster) -> None:
    with pytest.raises(ExchangeFolderNotShared, match=r"the pod mounts no volume at /snowpack. In its template"):
        cluster.runner(pod_template_file=...).run(cluster.run_of("/bin/true"), Lines())
    assert cluster.api.created == []


def test_lines_arrive_while_the_entry_runs_with_the_levels_that_they_begin_with(cluster: Cluster) -> None:
    # The provider passes on a line when the next one has arrived.
    code = (
        "import os, sys, time\nprint('first'); print('second', flush=True)\n"
        "while not os.path.exists(sys.argv[1]): time.sleep(0.05)\nprint('ERROR: worse'); print('WARNING - bad', flush=True)"
    )
    run = cluster.run_of(*python(code, "/snowpack/seen"))
    lines = Lines()

    def on_line(line: Any) -> None:
        lines(line)
        (run.folder / "seen").touch()  # without this line the entry would never end

    assert cluster.runner().run(run, on_line) == 0
    assert [(line.text, line.level) for line in lines.received] == [
        ("first", logging.INFO),
        ("second", logging.INFO),
        ("ERROR: worse", logging.ERROR),
        ("WARNING - bad", logging.WARNING),
    ]


@pytest.mark.parametrize(
    ("code", "ended"), [("exit(3)", 3), ("import os; os.kill(os.getpid(), 9)", -9)], ids=["exit 3", "SIGKILL"]
)
def test_the_exit_code_and_the_signal_are_returned(cluster: Cluster, code: str, ended: int) -> None:
    assert cluster.runner().run(cluster.run_of(*python(code)), Lines()) == ended


def test_a_program_that_does_not_exist_is_named(cluster: Cluster) -> None:
    with pytest.raises(EntryNotStarted, match=r"The program 'scoer' could not be started: .*not found"):
        cluster.runner().run(cluster.run_of("scoer"), Lines())


@pytest.mark.parametrize(
    ("message", "error", "kind"),
    [
        ('failed to resolve reference "acme/score": not found', ImageNotFound, Kind.NOT_FOUND),
        ("dial tcp 10.0.0.1:443: connection refused", ImageNotPulled, Kind.UNAVAILABLE),
        (
            "rpc error: code = Unknown desc = failed to pull and unpack image: dial tcp: lookup registry: server misbehaving",
            ImageNotPulled,
            Kind.UNAVAILABLE,
        ),
        ("rpc error: code = Unknown desc = failed to resolve reference: manifest unknown", ImageNotFound, Kind.NOT_FOUND),
    ],
)
def test_an_image_that_cannot_be_pulled_is_named(cluster: Cluster, message: str, error: type[Exception], kind: Kind) -> None:
    cluster.api.waiting = {"reason": "ErrImagePull", "message": message}

    with pytest.raises(error, match=r"acme/score@sha256:.* pulled: ") as failed:
        cluster.runner().run(cluster.run_of("/bin/true"), Lines())
    assert getattr(failed.value, "kind", None) is kind


def test_a_pod_that_does_not_start_in_time_is_deleted(cluster: Cluster) -> None:
    cluster.api.waiting = {"reason": "ContainerCreating"}

    with pytest.raises(PodNotStarted, match="startup_timeout_seconds") as failed:
        cluster.runner(startup_timeout_seconds=0, schedule_timeout_seconds=0.2).run(cluster.run_of("/bin/true"), Lines())
    assert failed.value.kind is Kind.UNAVAILABLE
    assert len(cluster.api.deleted) == 1


@pytest.mark.parametrize(
    ("ending", "terminated", "error", "words"),
    [
        ({}, {"reason": "OOMKilled"}, OutOfMemory, "memory limit.*container_resources"),
        ({"reason": "Evicted", "message": "low on disk"}, {}, PodEvicted, r"\(Evicted\): low on disk. A retry"),
        ({"reason": "DeadlineExceeded"}, {}, PodOutOfTime, "its limit of 60 s. Raise the task's execution_timeout"),
        (
            {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "m"}]},
            {},
            PodEvicted,
            "PreemptionByScheduler",
        ),
    ],
    ids=["out of memory", "evicted", "deadline", "preempted"],
)
def test_what_the_cluster_ended_is_reported_even_if_the_entry_exits_with_0(
    cluster: Cluster, ending: dict[str, Any], terminated: dict[str, Any], error: type[Exception], words: str
) -> None:
    cluster.api.ending, cluster.api.terminated = ending | ({"phase": "Failed"} if "reason" in ending else {}), terminated
    killed = "import os; os.kill(os.getpid(), 9)"
    for number, code in enumerate([killed, "exit(0)"] if ending else [killed]):
        of, attempt = identity(f"0196-{number}"), f"0196-{number}"
        with pytest.raises(error, match=words):
            cluster.runner(of, time_limit=timedelta(minutes=1)).run(cluster.run_of(*python(code), attempt=attempt), Lines())


def test_an_entry_that_exits_with_0_when_its_pod_is_deleted_has_not_succeeded(cluster: Cluster) -> None:
    def on_line(line: Any) -> None:
        for pod in cluster.api.pods.values():
            pod.body["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"

    with pytest.raises(EntryRemoved):
        cluster.runner().run(cluster.run_of(*python("print('ends'); print('well')")), on_line)


def test_a_pod_that_another_process_deleted_is_reported(cluster: Cluster) -> None:
    def on_line(line: Any) -> None:
        for pod in list(cluster.api.pods.values()):
            cluster.api.delete(pod, {})

    with pytest.raises(EntryRemoved, match="later attempt"):
        cluster.runner().run(cluster.run_of(*python(WAIT)), on_line)


def test_a_permission_that_is_missing_is_named(cluster: Cluster) -> None:
    cluster.api.refused = 'pods is forbidden: User "worker" cannot list resource "pods"'

    with pytest.raises(ClusterRefused, match=r'status 403: pods is forbidden.*"worker".*Grant the worker') as refused:
        cluster.runner().run(cluster.run_of("/bin/true"), Lines())
    assert refused.value.kind is Kind.MISCONFIGURED


@pytest.mark.parametrize(
    ("kind", "status", "message"),
    [
        ("pods", 403, 'pods "score" is forbidden: exceeded quota: lake, requested: cpu=1, used: cpu=8, limited: cpu=8'),
        ("secrets", 409, 'Operation cannot be fulfilled on resourcequotas "lake": the object has been modified'),
    ],
)
def test_a_quota_that_others_use_up_is_a_reason_to_retry(cluster: Cluster, kind: str, status: int, message: str) -> None:
    cluster.api.refuses[kind] = (status, message)

    with pytest.raises(PodNotAdmitted, match=f"with status {status}: .*quota") as failed:
        cluster.runner().run(cluster.run_of("/bin/true", environment={"TOKEN": SECRET}), Lines())
    assert failed.value.kind is Kind.UNAVAILABLE


def test_no_value_is_logged_at_any_level(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        assert cluster.runner().run(cluster.run_of("/bin/true", environment={"TOKEN": SECRET}), Lines()) == 0
    assert "response body" in caplog.text
    assert b64encode(SECRET.encode()).decode() not in caplog.text
    assert "hunter2" not in caplog.text


def test_a_cluster_that_does_not_answer_is_a_reason_to_retry(cluster: Cluster) -> None:
    kubeconfig = cluster.api.kubeconfig()
    kubeconfig["clusters"][0]["cluster"]["server"] = "http://127.0.0.1:1"
    cluster.template.with_name("kubeconfig").write_text(json.dumps(kubeconfig))

    with pytest.raises(ClusterUnavailable, match=r"cannot be reached: .*kubernetes_conn_id") as failed:
        cluster.runner().run(cluster.run_of("/bin/true"), Lines())
    assert failed.value.kind is Kind.UNAVAILABLE


def test_a_worker_without_credentials_is_told(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(ClusterNotConfigured, match="no usable configuration of a Kubernetes cluster"):
        cluster.runner(config_file=str(tmp_path / "none")).run(cluster.run_of("/bin/true"), Lines())


def test_stop_deletes_the_pod(cluster: Cluster) -> None:
    runner, started = cluster.runner(), threading.Event()

    def stop() -> None:
        started.wait()
        runner.stop()
        runner.stop()

    stopping = Beside(stop)
    with pytest.raises(EntryCancelled):
        runner.run(cluster.run_of(*python(WAIT)), lambda line: started.set())
    stopping.join()
    assert cluster.api.deleted[0][1]["gracePeriodSeconds"] == "2"


def test_an_entry_that_was_stopped_before_it_started_never_starts(cluster: Cluster) -> None:
    runner = cluster.runner()
    runner.stop()

    with pytest.raises(EntryCancelled):
        runner.run(cluster.run_of("/bin/true"), Lines())
    assert cluster.api.created == []


def test_a_task_that_is_ended_leaves_no_pod(cluster: Cluster) -> None:
    def on_line(line: Any) -> None:
        raise SystemExit(143)

    with pytest.raises(SystemExit):
        cluster.runner().run(cluster.run_of(*python(WAIT), environment={"TOKEN": SECRET}), on_line)


def test_the_next_attempt_deletes_what_a_killed_one_left(cluster: Cluster) -> None:
    left = _left_over(cluster, identity())
    others = _left_over(cluster, identity("0196-o", task="other"), attempt="0196-o")

    runner = cluster.runner(identity("0196-b", 2, timedelta(minutes=5)))
    assert runner.run(cluster.run_of("/bin/true", attempt="0196-b"), Lines()) == 0

    assert left not in cluster.api.pods
    assert set(cluster.api.pods) == {others}
    assert set(cluster.api.secrets) == {others}
    cluster.api.delete(cluster.api.pods[others], {})


def test_an_attempt_that_continues_late_deletes_nothing_of_its_successor(cluster: Cluster) -> None:
    successor = _left_over(cluster, identity("0196-b", 2, timedelta(minutes=5)), attempt="0196-b")

    assert cluster.runner(identity()).run(cluster.run_of("/bin/true"), Lines()) == 0

    assert set(cluster.api.pods) == {successor}
    cluster.api.delete(cluster.api.pods[successor], {})


def test_a_deferred_task_waits_without_a_worker_and_resumes_with_the_output(cluster: Cluster) -> None:
    code = "import os, sys, time\nprint('one')\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.05)\nprint('two'); exit(3)"
    run = cluster.run_of(*python(code, "/snowpack/go"), environment={"TOKEN": SECRET})

    waiting = cluster.deferred(run, time_limit=timedelta(hours=1))

    assert isinstance(waiting.timeout, timedelta)
    assert timedelta(hours=1) < waiting.timeout < timedelta(hours=1, minutes=5)
    assert "hunter2" not in repr(waiting.trigger.serialize())
    (run.folder / "go").touch()
    event = asyncio.run(_event(waiting))
    lines = Lines()
    assert cluster.runner(deferrable=True, time_limit=timedelta(hours=1)).resume(event, None, lines) == 3
    assert lines.texts == ["one", "two"]


def test_a_deferred_task_that_is_cancelled_deletes_its_pod(cluster: Cluster) -> None:
    waiting = cluster.deferred(cluster.run_of(*python(WAIT), environment={"TOKEN": SECRET}))

    assert len(cluster.api.pods) == 1
    asyncio.run(_killed(waiting))


@pytest.mark.parametrize(
    ("state", "has_ended"), [("failed", True), ("success", True), (None, True), ("deferred", False), ("running", False)]
)
def test_the_sweep_deletes_the_pod_of_a_task_that_ended_before_a_triggerer_ran_its_trigger(
    cluster: Cluster, state: str | None, has_ended: bool
) -> None:
    cluster.deferred(cluster.run_of(*python(WAIT), environment={"TOKEN": SECRET}))
    assert "hunter2" not in "".join(file.read_text() for file in cluster.root.glob("*.json"))

    assert swept(cluster.root, state, store_id="of another installation") == []
    assert swept(cluster.root, state) == ([f"flights/{RUN_ID}/score[2]"] if has_ended else [])

    assert (cluster.api.pods == {}) is has_ended
    assert swept(cluster.root, "failed") == ([] if has_ended else [f"flights/{RUN_ID}/score[2]"])


def test_one_sweep_removes_what_all_attempts_of_a_task_have_left(cluster: Cluster) -> None:
    for attempt in ("0196-a", "0196-b"):
        cluster.place(identity(attempt)).write_note("kubernetes", {"namespace": "lake"})
    assert len(swept(cluster.root, "failed")) == 2
    assert swept(cluster.root, "failed") == []


def test_a_cluster_that_does_not_answer_ends_no_sweep_and_is_tried_again(cluster: Cluster) -> None:
    cluster.deferred(cluster.run_of(*python(WAIT)))
    cluster.api.answers.clear()
    try:
        assert swept(cluster.root, "failed", limit=timedelta(milliseconds=200)) == []
    finally:
        cluster.api.answers.set()
    assert len(swept(cluster.root, "failed")) == 1


def test_a_pod_that_cannot_be_deleted_is_left_to_the_next_sweep(cluster: Cluster) -> None:
    cluster.deferred(cluster.run_of(*python(WAIT)))
    cluster.api.refused = 'pods is forbidden: User "worker" cannot list resource "pods"'
    assert swept(cluster.root, "failed") == []
    cluster.api.refused = None
    assert len(swept(cluster.root, "failed")) == 1


def test_the_image_of_a_deferred_entry_that_cannot_be_pulled_is_named(cluster: Cluster) -> None:
    cluster.api.waiting = {"reason": "ErrImagePull", "message": 'failed to resolve reference "acme/score": not found'}
    waiting = cluster.deferred(cluster.run_of("/bin/true"))

    event = asyncio.run(_event(waiting))

    with pytest.raises(ImageNotFound, match=r"acme/score@sha256:.* pulled: .*not found"):
        cluster.runner(deferrable=True).resume(event, None, Lines())


def test_a_deferred_entry_out_of_time_is_reported(cluster: Cluster) -> None:
    waiting = cluster.deferred(cluster.run_of(*python(WAIT)), time_limit=timedelta(seconds=1))

    event = asyncio.run(_event(waiting))

    with pytest.raises(PodOutOfTime):
        cluster.runner(deferrable=True, time_limit=timedelta(seconds=1)).resume(event, None, Lines())


@pytest.mark.parametrize("status", ["error", "success"])
def test_a_deferred_pod_that_is_gone_is_reported(cluster: Cluster, status: str) -> None:
    cluster.deferred(cluster.run_of(*python(WAIT)))
    (pod,) = cluster.api.pods.values()
    cluster.api.delete(pod, {})
    event = {"status": status, "name": pod.body["metadata"]["name"], "namespace": "lake", "message": "not found"}

    with pytest.raises(EntryRemoved):
        cluster.runner(deferrable=True).resume(event, None, Lines())


def test_the_pod_template_of_the_repository_runs_an_entry(cluster: Cluster) -> None:
    runner = cluster.runner(pod_template_file=str(MANIFESTS / "entry-pod.yaml"))

    assert runner.run(cluster.run_of("/bin/true", environment={"TOKEN": SECRET}), Lines()) == 0

    (pod,) = cluster.api.created
    template = yaml.safe_load((MANIFESTS / "entry-pod.yaml").read_text())
    wanted, (container,) = template["spec"], template["spec"]["containers"]
    assert pod["metadata"]["namespace"] == template["metadata"]["namespace"]
    for name in ("serviceAccountName", "automountServiceAccountToken", "securityContext", "volumes"):
        assert pod["spec"][name] == wanted[name], name
    for name in ("resources", "securityContext"):
        assert pod["spec"]["containers"][0][name] == container[name], name


def test_the_role_of_the_repository_permits_exactly_what_runners_request(cluster: Cluster) -> None:
    """The verbs of the requests of tasks that wait, in both ways, and of one whose predecessor was killed."""
    cluster.deferred(cluster.run_of(*python(WAIT)))
    successor = identity("0196-b", 2, timedelta(minutes=5))
    failing = cluster.run_of(*python("exit(1)"), attempt="0196-b", environment={"TOKEN": SECRET})
    assert cluster.runner(successor).run(failing, Lines()) == 1
    cluster.api.waiting = {"reason": "ContainerCreating"}
    waiting = cluster.deferred(cluster.run_of("/bin/true"))
    (pod,) = cluster.api.pods.values()

    def start() -> None:
        cluster.api.watched.wait()
        cluster.api.start(pod)

    starting = Beside(start)
    assert cluster.runner(deferrable=True).resume(asyncio.run(_event(waiting)), None, Lines()) == 0
    starting.join()

    role = yaml.safe_load((MANIFESTS / "entry-role.yaml").read_text())
    permitted = {(resource, verb) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
    assert {_permission(*request) for request in cluster.api.requests} == permitted


@pytest.mark.parametrize("option", ["memlimit", "execution_timeout", "task_id"])
def test_an_option_that_the_provider_does_not_have_is_refused(cluster: Cluster, option: str) -> None:
    with pytest.raises(
        UnknownRunnerOption, match=f"'{option}', which is no argument of the provider's KubernetesPodOperator"
    ) as refused:
        cluster.runner(**{option: 1}).run(cluster.run_of("/bin/true"), Lines())
    assert refused.value.kind is Kind.INVALID
    assert cluster.api.created == []


def _permission(method: str, path: str) -> tuple[str, str]:
    """Return the resource and the verb of a request, as roles name them."""
    address, _, query = path.partition("?")
    resource, *rest = address.split("/")[5:]
    if method == "GET":
        verb = "get" if rest else "watch" if "watch=" in query else "list"
    else:
        verb = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}[method]
    return "/".join([resource, *rest[1:]]), verb


def _left_over(cluster: Cluster, of: EntryIdentity, attempt: str = "0196-a") -> str:
    """Return the name of a pod whose task was killed, as a deferred task leaves it."""
    before = set(cluster.api.pods)
    run = cluster.run_of(*python(WAIT), attempt=attempt, environment={"TOKEN": SECRET})
    cluster.deferred(run, of)
    (name,) = set(cluster.api.pods) - before
    return name


async def _event(waiting: TaskDeferred) -> dict[str, Any]:
    event: dict[str, Any] = (await anext(waiting.trigger.run())).payload
    return event


async def _killed(waiting: TaskDeferred) -> None:
    await waiting.trigger.on_kill()
