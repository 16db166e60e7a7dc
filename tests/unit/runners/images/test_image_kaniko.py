"""What Kubernetes is given for a build in a pod: the Job, its Secret and the calls of ``kubectl``, by a stand-in."""

from __future__ import annotations

import base64
import json
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes_schemas import JOB_SCHEMA, check

from airflow_snowpack.runners.errors import EntryCancelled
from airflow_snowpack.runners.images import (
    BuilderUnavailable,
    ImageBuild,
    ImageTarget,
    InvalidImageBuild,
    InvalidImageTarget,
    Registry,
)
from airflow_snowpack.runners.images.builder import BuildJob
from airflow_snowpack.runners.images.builders import builder_for
from airflow_snowpack.runners.images.commands import CommandFailed, Commands
from airflow_snowpack.runners.images.kaniko import Kaniko, read_template
from airflow_snowpack.runners.images.key import image_key

if TYPE_CHECKING:
    from collections.abc import Callable

TEMPLATE = Path(__file__).parents[4] / "docker/kubernetes/image-build.yaml"
REGISTRY = Registry("registry.example.com:5000", "team/images", "ci", "hunter2")
TOKEN = base64.b64encode(b"ci:hunter2").decode()
DIGEST = f"sha256:{'2' * 64}"
SOURCE = ImageBuild(
    "https://git.example.com:8443/acme/score.git", "a" * 40, "docker/Dockerfile", {"TOKEN": "s3cret $(X)\n", "PYTHON": "3.12"}
)
STAND_IN = f"""#!{sys.executable} -IS
import json, pathlib, sys
here = pathlib.Path(__file__).parent
file = next((pathlib.Path(each.partition("=")[2]) for each in sys.argv if each.startswith("--filename=")), None)
noted = {{"argv": sys.argv[1:], "content": None, "mode": 0}}
if file:
    noted |= {{"content": json.loads(file.read_text()), "mode": file.stat().st_mode}}
with open(here / "noted", "a") as stream:
    stream.write(json.dumps(noted) + "\\n")
if sys.argv[1] == "create" and noted["content"]["kind"] == "Job":
    name = noted["content"]["metadata"]["name"]
    print(json.dumps({{"metadata": {{"name": name, "namespace": "airflow", "uid": "u-1"}}}}, indent=1))
elif sys.argv[1] == "get":
    states = (here / "states").read_text().splitlines()
    (here / "states").write_text("\\n".join(states[1:]))
    print(json.dumps(json.loads(states[0]), indent=1))
elif sys.argv[1] == "logs":
    print("INFO[0000] Retrieving image manifest")
elif sys.argv[1] == "auth":
    answer = (here / "can-i").read_text() if (here / "can-i").exists() else "yes"
    print(answer)
    sys.exit(answer != "yes")
"""


SIDECAR = {"name": "added-by-the-cluster", "state": {"terminated": {"exitCode": 1}}}


def pod(**state: Any) -> dict[str, Any]:
    return {"kind": "Pod", "status": {"containerStatuses": [SIDECAR, {"name": "build", "state": state}]}}


JOB: dict[str, Any] = {"kind": "Job", "status": {}}
WAITING = pod(waiting={"reason": "ContainerCreating"})
RUNNING = pod(running={"startedAt": "2026-01-01T00:00:00Z"})
ENDED = pod(terminated={"exitCode": 0, "message": f"{DIGEST}\n"})


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[dict[str, Any]]]:
    """Set what the cluster answers, or return what it was given."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "kubectl").write_text(STAND_IN)
    (folder / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def answer(*states: list[dict[str, Any]], can_i: str = "yes") -> list[dict[str, Any]]:
        if states or can_i != "yes":
            (folder / "states").write_text("\n".join(json.dumps({"items": items}) for items in states))
            (folder / "can-i").write_text(can_i)
            return []
        return [json.loads(line) for line in (folder / "noted").read_text().splitlines()]

    return answer


def job_for(scratch: Path, registry: Registry = REGISTRY, source: ImageBuild = SOURCE) -> BuildJob:
    target = ImageTarget("kaniko", registry, host="w1", platform="linux/amd64", pod_template=TEMPLATE)
    context = scratch / "context"
    return BuildJob(source, target, image_key(source, target), context, context / "Dockerfile", scratch, Commands())


def test_a_pod_builds_and_pushes_and_is_deleted(cluster: Any, scratch: Path) -> None:
    cluster([JOB], [JOB, WAITING], [JOB, RUNNING], [JOB, ENDED])
    job = job_for(scratch)
    naps: list[float] = []
    lines: list[str] = []
    object.__setattr__(job, "commands", Commands(lines.append))
    kaniko = Kaniko(TEMPLATE, sleep=naps.append)
    assert kaniko.publish(job, kaniko.build(job)) == DIGEST
    assert naps == [2.0, 2.0]
    assert lines == ["INFO[0000] Retrieving image manifest"]

    created, secret, *others = cluster()
    name = created["content"]["metadata"]["name"]
    assert name.startswith(f"snowpack-image-{job.key[:12]}-")
    assert [each["argv"] for each in others] == [
        *[["get", "jobs,pods", "--namespace=airflow", f"--selector=airflow-snowpack/build={name}", "-o=json"]] * 3,
        ["logs", "--follow", f"job/{name}", "--namespace=airflow", "--container=build"],
        ["get", "jobs,pods", "--namespace=airflow", f"--selector=airflow-snowpack/build={name}", "-o=json"],
        ["delete", f"job/{name}", "--namespace=airflow", "--wait=false", "--ignore-not-found"],
    ]
    container = created["content"]["spec"]["template"]["spec"]["containers"][0]
    assert container["args"] == [
        "--log-format=text",
        "--snapshot-mode=redo",
        f"--context=git://git.example.com:8443/acme/score.git#{'a' * 40}",
        "--dockerfile=docker/Dockerfile",
        f"--destination=registry.example.com:5000/team/images:{job.key}",
        "--digest-file=/dev/termination-log",
        "--custom-platform=linux/amd64",
        "--label=org.opencontainers.image.source=https://git.example.com:8443/acme/score.git",
        f"--label=org.opencontainers.image.revision={'a' * 40}",
        f"--label=airflow-snowpack.key={job.key}",
        "--build-arg=PYTHON",
        "--build-arg=TOKEN",
    ]
    assert container["volumeMounts"] == [{"name": "snowpack-registry", "mountPath": "/kaniko/.docker", "readOnly": True}]
    assert secret["content"] == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": "airflow",
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": "u-1"}],
        },
        "stringData": {
            "build-arg.PYTHON": "3.12",
            "build-arg.TOKEN": "s3cret $(X)\n",
            "config.json": json.dumps({"auths": {"registry.example.com:5000": {"auth": TOKEN}}}),
        },
    }


def test_nothing_secret_is_in_the_job_or_on_a_command_line(cluster: Any, scratch: Path) -> None:
    cluster([JOB, ENDED], [JOB, ENDED])
    Kaniko(TEMPLATE, sleep=lambda _: None).build(job_for(scratch))
    calls = cluster()
    text = json.dumps([each["argv"] for each in calls]) + json.dumps(calls[0]["content"])
    assert not any(hidden in text for hidden in ("s3cret", "3.12", "hunter2", TOKEN))
    assert {stat.S_IMODE(each["mode"]) for each in calls[:2]} == {0o600}


@pytest.mark.parametrize("login", ["ci", None])
def test_the_job_is_what_kubernetes_accepts(cluster: Any, scratch: Path, login: str | None) -> None:
    registry = Registry("registry.example.com", "images", login, login, is_plain_http=True)
    cluster([JOB, ENDED], [JOB, ENDED])
    Kaniko(TEMPLATE, sleep=lambda _: None).build(job_for(scratch, registry))
    spec = cluster()[0]["content"]["spec"]
    for name, part in spec.items():
        if name != "template":
            check(part, JOB_SCHEMA[name])
    check(spec["template"]["spec"], JOB_SCHEMA["template"]["properties"]["spec"])
    assert ("volumes" in spec["template"]["spec"]) == (login is not None)
    assert spec["template"]["spec"]["containers"][0]["args"][-1] == "--insecure"
    assert (spec["backoffLimit"], spec["template"]["spec"]["restartPolicy"]) == (0, "Never")
    assert spec["activeDeadlineSeconds"] > 0
    assert spec["ttlSecondsAfterFinished"] > 0


@pytest.mark.parametrize(
    ("states", "problem"),
    [
        (
            [[JOB, pod(terminated={"exitCode": 1, "reason": "Error", "message": ""})]] * 2,
            "with exit code 1 in the pod",
        ),
        ([[JOB, pod(terminated={"exitCode": 137, "reason": "OOMKilled"})]] * 2, "OOMKilled"),
        ([[JOB, pod(terminated={"exitCode": 0})]] * 2, "without the digest of the image"),
        ([[]], "its Job was deleted"),
        (
            [[{"kind": "Job", "status": {"conditions": [{"type": "Failed", "status": "True", "message": "over its deadline"}]}}]],
            "has no pod: over its deadline",
        ),
    ],
)
def test_a_pod_that_fails_is_a_failure_with_the_reason_and_is_deleted(
    cluster: Any, scratch: Path, states: list[Any], problem: str
) -> None:
    cluster(*states)
    with pytest.raises(CommandFailed, match=problem):
        Kaniko(TEMPLATE, sleep=lambda _: None).build(job_for(scratch))
    assert cluster()[-1]["argv"][0] == "delete"


def test_a_stopped_build_deletes_its_pod(cluster: Any, scratch: Path) -> None:
    cluster([JOB, WAITING])
    job = job_for(scratch)
    with pytest.raises(EntryCancelled):
        Kaniko(TEMPLATE, sleep=lambda _: job.commands.stop()).build(job)
    assert [each["argv"][0] for each in cluster()] == ["create", "create", "get", "delete"]


def test_a_repository_that_a_pod_cannot_read_is_refused(cluster: Any, scratch: Path) -> None:
    job = job_for(scratch, source=ImageBuild("git@github.com:acme/score.git", "a" * 40))
    with pytest.raises(InvalidImageBuild, match="by https:// only"):
        Kaniko(TEMPLATE).build(job)


def test_the_template_comes_with_the_target(scratch: Path) -> None:
    assert isinstance(builder_for(job_for(scratch).target), Kaniko)
    with pytest.raises(InvalidImageTarget, match=r"set \[snowpack\] image_registry_conn_id and image_pod_template"):
        ImageTarget("kaniko", pod_template=TEMPLATE)
    with pytest.raises(InvalidImageTarget, match=r"set \[snowpack\] image_registry_conn_id and image_pod_template"):
        ImageTarget("kaniko", REGISTRY)


@pytest.mark.parametrize("text", ["", "kind: Pod", "kind: Job", "{kind: Job, spec: {template: {spec: {containers: []}}}}", "{"])
def test_a_template_that_is_no_job_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "template.yaml").write_text(text)
    with pytest.raises(InvalidImageTarget, match=r"image_pod_template = '.*template\.yaml'.* is not a manifest of a Job"):
        read_template(tmp_path / "template.yaml")
    with pytest.raises(InvalidImageTarget, match="No such file"):
        read_template(tmp_path / "missing.yaml")


def test_a_worker_that_may_not_create_jobs_cannot_build(cluster: Any, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Kaniko(TEMPLATE).preflight(Commands(), scratch)
    cluster(can_i="no")
    with pytest.raises(BuilderUnavailable, match="`kubectl auth can-i create jobs` ended with exit code 1"):
        Kaniko(TEMPLATE).preflight(Commands(), scratch)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BuilderUnavailable, match="the command `kubectl` is not installed"):
        Kaniko(TEMPLATE).preflight(Commands(), scratch)
