"""Builds images in a pod with Kaniko, by a template: on workers without a builder, in a cluster without privileged pods.

    builder = Kaniko(Path("/opt/airflow/image-build.yaml"))         # docker/kubernetes/image-build.yaml, adapted

The pod reads the commit from the repository itself, and pushes the image to the registry. ``kubectl`` creates a Job with the pod
and a Secret that belongs to the Job: the credentials of the registry, which the pod has as a file, and the build arguments, which
it has as environment variables. Neither is part of an argument. When this process is killed, the limits of the template end the
pod, and Kubernetes deletes the Job with its Secret.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from airflow_snowpack.runners.errors import EntryNotStarted, ending
from airflow_snowpack.runners.images.builder import BuildJob
from airflow_snowpack.runners.images.commands import CommandFailed, Commands
from airflow_snowpack.runners.images.credentials import auths, token
from airflow_snowpack.runners.images.errors import BuilderUnavailable, InvalidImageBuild, InvalidImageTarget
from airflow_snowpack.runners.images.options import labels

log = logging.getLogger(__name__)

POLL = timedelta(seconds=2)
LABEL = "airflow-snowpack/build"
CREDENTIALS = "/kaniko/.docker"
CONFIG = "config.json"
ARGUMENT = "build-arg."
"""Begins the keys of the Secret that have build arguments."""
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
RESULT = "/dev/termination-log"
"""What the pod writes there, Kubernetes reports with the end of its container."""


class Kaniko:
    """The builder ``kaniko``.

    :param template: a manifest of a Job in YAML, whose first container runs Kaniko's executor.
    :param program: the command-line client of Kubernetes.
    :param sleep: waits between two reads of the pod's state, in seconds.
    """

    def __init__(self, template: Path, program: str = "kubectl", sleep: Callable[[float], None] = time.sleep) -> None:
        self._template = template
        self._program = program
        self._sleep = sleep

    def preflight(self, commands: Commands, scratch: Path) -> None:
        """:raises BuilderUnavailable: there is no ``kubectl``, or this worker may not create Jobs in its cluster."""
        read_template(self._template)
        check = "kubectl auth can-i create jobs"
        try:
            commands.run([self._program, *check.split()[1:]], scratch, is_logged=False)
        except EntryNotStarted as error:
            raise BuilderUnavailable("kaniko", "the command `kubectl` is not installed") from error
        except CommandFailed as error:
            raise BuilderUnavailable("kaniko", f"`{check}` {error.problem}") from error

    def build(self, job: BuildJob) -> str:
        """Build and push the image in a pod; return its digest.

        Kaniko pushes as it ends. A late push of a lost attempt only moves the tag, and containers are started by digest.
        """
        name = f"snowpack-image-{job.key[:12]}-{secrets.token_hex(4)}"
        content = manifest(job, name, read_template(self._template))
        container = content["spec"]["template"]["spec"]["containers"][0]["name"]
        created = self._create(job, content)
        namespace = f"--namespace={created['metadata']['namespace']}"
        try:
            self._create(job, secret(job, name, created["metadata"]))
            ended = self._ended(job, name, namespace, container)
        finally:
            self._delete(job, name, namespace)
        if ended["exitCode"] != 0:
            raise CommandFailed("kaniko", f"ended {ending(ended['exitCode'])} in the pod", [str(ended.get("reason") or "")])
        found = DIGEST.search(ended.get("message") or "")
        if found is None:
            raise CommandFailed("kaniko", "ended without the digest of the image")
        return found.group()

    def publish(self, job: BuildJob, image_id: str) -> str:
        """Return the digest; the pod has pushed the image."""
        return image_id

    def has(self, tag: str, commands: Commands, scratch: Path) -> bool:
        """Return whether this host has the image, which is always in a registry."""
        return True

    def _create(self, job: BuildJob, content: Mapping[str, Any]) -> dict[str, Any]:
        file = job.scratch / f"{content['kind']}.json"
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
            json.dump(content, stream)
        output = "-o=json" if content["kind"] == "Job" else "-o=name"  # of a Secret only its name is printed
        lines = job.commands.run([self._program, "create", f"--filename={file}", output], job.scratch, is_logged=False)
        return json.loads("\n".join(lines)) if content["kind"] == "Job" else {}

    def _ended(self, job: BuildJob, name: str, namespace: str, container: str) -> dict[str, Any]:
        """Wait for the end of the container, with its log; return how it ended."""
        is_followed = False
        while True:
            state = self._state(job, name, namespace, container)
            if (state.keys() & {"running", "terminated"}) and not is_followed:
                is_followed = True
                self._follow(job, name, namespace, container)
            elif "terminated" in state:
                return dict(state["terminated"])
            else:
                self._sleep(POLL.total_seconds())

    def _state(self, job: BuildJob, name: str, namespace: str, container: str) -> dict[str, Any]:
        """Return the state of the container; empty before there is one. The cluster may add others to its pod."""
        get = [self._program, "get", "jobs,pods", namespace, f"--selector={LABEL}={name}", "-o=json"]
        found = json.loads("\n".join(job.commands.run(get, job.scratch, is_logged=False)))["items"]
        for pod in (each for each in found if each["kind"] == "Pod"):
            for status in pod.get("status", {}).get("containerStatuses", ()):
                if status["name"] == container:
                    return dict(status.get("state", {}))
        jobs = [each for each in found if each["kind"] == "Job"]
        if not jobs:
            raise CommandFailed("kaniko", "has no pod", ["its Job was deleted"])
        for condition in (each for found_job in jobs for each in found_job.get("status", {}).get("conditions", ())):
            if condition["type"] == "Failed" and condition["status"] == "True":
                raise CommandFailed("kaniko", "has no pod", [str(condition.get("message") or condition.get("reason"))])
        return {}

    def _follow(self, job: BuildJob, name: str, namespace: str, container: str) -> None:
        logs = [self._program, "logs", "--follow", f"job/{name}", namespace, f"--container={container}"]
        try:
            job.commands.run(logs, job.scratch)
        except CommandFailed as error:  # the build goes on without its log
            log.warning("image_log_lost: job %s: %s", name, error)

    def _delete(self, job: BuildJob, name: str, namespace: str) -> None:
        """Delete the Job, its pod and its Secret, also when the build was stopped."""
        delete = [self._program, "delete", f"job/{name}", namespace, "--wait=false", "--ignore-not-found"]
        try:
            Commands().run(delete, job.scratch)
        except CommandFailed as error:
            log.warning("image_pod_not_deleted: job %s: %s. Its template limits how long it stays.", name, error)


def read_template(file: Path) -> dict[str, Any]:
    """Return the manifest of a Job with a container.

    :raises InvalidImageTarget: the file is something else, or does not exist.
    """
    import yaml

    try:
        template = yaml.safe_load(file.read_text())
        is_usable = template["kind"] == "Job" and isinstance(template["spec"]["template"]["spec"]["containers"][0]["name"], str)
    except (OSError, yaml.YAMLError, KeyError, TypeError, IndexError) as error:
        raise InvalidImageTarget("image_pod_template", str(file), f"it is not a manifest of a Job ({error!r:.100})") from error
    if not is_usable:
        raise InvalidImageTarget("image_pod_template", str(file), "it is not a manifest of a Job")
    return dict(template)


def manifest(job: BuildJob, name: str, template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Job of a build: the template with the arguments, the environment and the Secret of this build.

    :raises InvalidImageBuild: Kaniko cannot read the repository.
    """
    content: dict[str, Any] = json.loads(json.dumps(template, default=str))
    for metadata in (content.setdefault("metadata", {}), content["spec"]["template"].setdefault("metadata", {})):
        metadata["labels"] = {**(metadata.get("labels") or {}), LABEL: name}
    content["metadata"]["name"] = name
    pod = content["spec"]["template"]["spec"]
    container = pod["containers"][0]
    container["args"] = [*(container.get("args") or ()), *arguments(job)]
    container["env"] = [*(container.get("env") or ()), *_environment(job, name)]
    if _credentials(job):
        volume = {"name": "snowpack-registry", "secret": {"secretName": name, "items": [{"key": CONFIG, "path": CONFIG}]}}
        mount = {"name": "snowpack-registry", "mountPath": CREDENTIALS, "readOnly": True}
        pod["volumes"] = [*(pod.get("volumes") or ()), volume]
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]
    return content


def arguments(job: BuildJob) -> list[str]:
    """Return the arguments of Kaniko's executor."""
    remote = urlsplit(job.source.remote)
    if remote.scheme != "https":
        raise InvalidImageBuild("remote", job.source.remote, "the builder 'kaniko' reads repositories by https:// only")
    given = [
        f"--context=git://{remote.netloc}{remote.path}#{job.source.revision}",
        f"--dockerfile={job.source.dockerfile}",
        f"--destination={job.tag}",
        f"--digest-file={RESULT}",
        f"--custom-platform={job.target.platform}",
    ]
    given += [f"--label={label}={value}" for label, value in labels(job).items()]
    given += [f"--build-arg={argument}" for argument in sorted(job.source.build_args)]
    return given + (["--insecure"] if job.target.registry is not None and job.target.registry.is_plain_http else [])


def secret(job: BuildJob, name: str, owner: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Secret of a build, which Kubernetes deletes with the Job ``owner``."""
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": owner["uid"]}
    content = {f"{ARGUMENT}{argument}": value for argument, value in job.source.build_args.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": owner["namespace"], "ownerReferences": [reference]},
        "stringData": content | _credentials(job),
    }


def _environment(job: BuildJob, name: str) -> list[dict[str, Any]]:
    """Return the build arguments as variables from the Secret."""
    return [
        {"name": argument, "valueFrom": {"secretKeyRef": {"name": name, "key": f"{ARGUMENT}{argument}"}}}
        for argument in sorted(job.source.build_args)
    ]


def _credentials(job: BuildJob) -> dict[str, str]:
    registry = job.target.registry
    if registry is None or token(registry) is None:
        return {}
    return {CONFIG: json.dumps({"auths": auths(registry)})}
