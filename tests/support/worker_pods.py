"""The manifests of ``docker/kubernetes`` as pods of Podman, which is no cluster but runs their containers, limits and signals.

    pods = WorkerPods(docker, folder, variables)
    pods.play(pod_of_a_job("once"))
    pods.wait("once")                                       # the exit code of the worker

Services of ``docker-compose.yaml`` have their names in the pods.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from composed import COMMAND_LIMIT_S, REPOSITORY, Daemon

MANIFESTS = REPOSITORY / "docker" / "kubernetes"
SERVICES = ("store-db", "s3")
IMAGE = "airflow-snowpack-worker:0.1.0"
CGROUP_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")  # of version 2 and of version 1
CONFIGURATION = """\
[containers]
base_hosts_file = "{hosts}"
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


def deployment() -> dict[str, Any]:
    """Return the Deployment, of which Podman runs one pod."""
    found: dict[str, Any] = yaml.safe_load((MANIFESTS / "deployment.yaml").read_text())
    return found


def pod_of_a_job(name: str) -> dict[str, Any]:
    """Return the pod that KEDA's ScaledJob starts for a job."""
    documents = yaml.safe_load_all((MANIFESTS / "scaledjob.yaml").read_text())
    (scaled,) = (document for document in documents if document["kind"] == "ScaledJob")
    template = scaled["spec"]["jobTargetRef"]["template"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **template["metadata"]}, "spec": template["spec"]}


def why_no_pods() -> str | None:
    """Return why Podman runs no pods here; ``None`` if it does."""
    missing = [name for name in ("podman", "nsenter", "catatonit") if not shutil.which(name)]
    return f"it needs {', '.join(missing)} on the PATH" if missing else None


class WorkerPods:
    """Pods on the network of a Docker daemon, with its image of the worker.

    :param folder: of images and containers; it stays.
    :param variables: replace those of ``settings.yaml``, whose addresses and passwords are examples.
    """

    def __init__(self, docker: Daemon, folder: Path, variables: Mapping[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        configuration = folder / "containers.conf"
        # With the network of a host, Podman 4.3 does not read the hostAliases of a pod.
        self._hosts = hosts = folder / "hosts"
        hosts.write_text(f"127.0.0.1 localhost {' '.join(SERVICES)}\n")
        runtime = 'runtime = "runc"\n' if shutil.which("runc") else ""
        configuration.write_text(CONFIGURATION.format(hosts=hosts) + runtime)
        self._environment = os.environ | {"CONTAINERS_CONF": str(configuration)}
        storage = ["--root", str(folder / "root"), "--runroot", str(folder / "run")]
        self._podman = ["nsenter", f"--net=/proc/{docker.pid}/ns/net", "podman", *storage]
        archive = folder / "image.tar"
        docker.run("docker", "save", "--output", archive, IMAGE)
        self.podman("load", "--input", str(archive))
        archive.unlink()
        secret = yaml.safe_load((MANIFESTS / "settings.yaml").read_text())
        values = {**secret["stringData"], **variables}
        # Podman 4.3 stores a Secret in a form that it cannot read. It reads the values in base64.
        encoded = {name: b64encode(value.encode()).decode() for name, value in values.items()}
        self.podman("secret", "create", secret["metadata"]["name"], "-", stdin=json.dumps(encoded))

    def podman(self, *arguments: str, stdin: str | None = None) -> str:
        """Run a command of Podman to its end; return what it printed."""
        done = subprocess.run(
            [*self._podman, *arguments],
            env=self._environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=COMMAND_LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, f"{arguments}: {done.stdout[-4000:]}{done.stderr[-4000:]}"
        return done.stdout

    def play(self, document: dict[str, Any]) -> None:
        """Create a Pod, or those of a Deployment, on the daemon's network."""
        with self._hosts.open("a") as hosts:  # a JVM looks up its own host, which is the pod
            hosts.write(f"127.0.0.1 {document['metadata']['name']}\n")
        self.podman("kube", "play", "--network", "host", "-", stdin=yaml.safe_dump(document))

    def stop(self, pod: str) -> int:
        """End a pod by SIGTERM, as Kubernetes does; return the exit code of its worker."""
        self.podman("pod", "stop", "--time", "30", pod)
        return int(self.podman("inspect", "--format", "{{.State.ExitCode}}", f"{pod}-worker"))

    def wait(self, pod: str) -> int:
        """Wait for the end of a pod's worker; return its exit code."""
        return int(self.podman("wait", f"{pod}-worker"))

    def memory_limit(self, pod: str) -> int:
        """Return the memory that a pod's worker may use, in bytes, as its container sees it."""
        read = " || ".join(f"cat /sys/fs/cgroup/{file} 2> /dev/null" for file in CGROUP_LIMITS)
        return int(self.podman("exec", f"{pod}-worker", "sh", "-c", read))

    def logs(self, pod: str) -> str:
        """Return what a pod's worker has logged."""
        done = subprocess.run(
            [*self._podman, "logs", f"{pod}-worker"],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=True,
        )
        return done.stdout + done.stderr

    def remove(self) -> None:
        self.podman("pod", "rm", "--all", "--force", "--time", "0")
        self.podman("rmi", "--all", "--force")
        self.podman("secret", "rm", "--all")
