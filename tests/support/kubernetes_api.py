"""A stand-in for a cluster: as much of the Kubernetes API as Airflow's provider uses, on 127.0.0.1.

    with KubernetesApi(volumes={CLAIM: folder}) as cluster:
        options = cluster.options(folder)
        KubernetesRunner("acme/score:1.4", identity, context, root=folder, options=options).run(invocation, on_line)
    cluster.created[0]["spec"]["containers"]

The client is Kubernetes' own, and the API server's rules that matter here are the real ones: it replaces ``$(NAME)`` in commands,
and deletes Secrets with their owner. Not real are the containers (see ``local_container``), scheduling, and images.
"""

from __future__ import annotations

import json
import re
import threading
import uuid
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from http_stand_in import StandIn, StandInHandler
from local_container import LocalContainer

ROUTE = re.compile(
    r"/api/v1/namespaces/(?P<namespace>[^/]+)/(?P<kind>pods|secrets|events)(?:/(?P<name>[^/]+))?(?:/(?P<verb>log))?"
)
REFERENCE = re.compile(r"\$(\$|\((?P<name>[^)]+)\))?")
OWN_SERVICE = {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}
SERVICES = {**OWN_SERVICE, "STORE_DB_SERVICE_HOST": "10.96.0.7"}
"""Variables that pods receive from the cluster: always, and for all Services of the namespace."""
CLAIM = "snowpack-entries"
TEMPLATE = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"namespace": "lake"},
    "spec": {
        "containers": [{"name": "base", "volumeMounts": [{"name": "exchange", "mountPath": "/snowpack"}]}],
        "volumes": [{"name": "exchange", "persistentVolumeClaim": {"claimName": CLAIM}}],
    },
}
"""A pod that mounts the exchange volume, and nothing else."""


@dataclass
class Pod:
    """A pod of the cluster."""

    body: dict[str, Any]
    process: LocalContainer | None = None
    output: bytearray = field(default_factory=bytearray)
    changed: threading.Condition = field(default_factory=threading.Condition)
    status: dict[str, Any] = field(default_factory=lambda: {"phase": "Pending", "conditions": []})

    @property
    def labels(self) -> dict[str, str]:
        return self.body["metadata"].get("labels") or {}


class KubernetesApi(StandIn):
    """The API server, and what runs its pods.

    :param volumes: the folder of each PersistentVolumeClaim.
    :ivar created: the body of each pod as it was requested.
    :ivar secrets: by name; ``secrets_created`` has the bodies of all that were ever created.
    :ivar ending: what the status of a pod has in addition when its container has ended.
    :ivar waiting: why containers wait instead of running.
    :ivar watched: whether the events of a pod are watched.
    :ivar refused: the message of the answer 403 to all requests.
    :ivar answers: while it is not set, no request is answered.
    :ivar refuses: the status and the message of the answer to each request for an object of this kind.
    """

    def __init__(self, volumes: Mapping[str, Path]) -> None:
        self.volumes = volumes
        self.pods: dict[str, Pod] = {}
        self.secrets: dict[str, dict[str, Any]] = {}
        self.created: list[dict[str, Any]] = []
        self.secrets_created: list[dict[str, Any]] = []
        self.deleted: list[tuple[str, dict[str, Any]]] = []
        self.requests: list[tuple[str, str]] = []
        self.ending: dict[str, Any] = {}
        self.terminated: dict[str, Any] = {}
        self.waiting: dict[str, str] | None = None
        self.refused: str | None = None
        self.refuses: dict[str, tuple[int, str]] = {}
        self.watched = threading.Event()
        self.answers = threading.Event()
        self.answers.set()
        super().__init__(_Handler)

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def kubeconfig(self) -> dict[str, Any]:
        """Return the configuration of a client."""
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "stand-in", "cluster": {"server": self.url}}],
            "users": [{"name": "worker", "user": {"token": "worker-token"}}],
            "contexts": [{"name": "stand-in", "context": {"cluster": "stand-in", "user": "worker", "namespace": "default"}}],
            "current-context": "stand-in",
        }

    def options(self, folder: Path, template: Mapping[str, Any] = TEMPLATE) -> dict[str, Any]:
        """Return options of the runner, whose files are written to this folder."""
        (folder / "template.yaml").write_text(yaml.safe_dump(template))
        (folder / "kubeconfig").write_text(json.dumps(self.kubeconfig()))
        return {
            "config_file": str(folder / "kubeconfig"),
            "kubernetes_conn_id": None,
            "pod_template_file": str(folder / "template.yaml"),
            "startup_check_interval_seconds": 0.05,
            "poll_interval": 0.05,
        }

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        for pod in self.pods.values():
            if pod.process is not None:
                pod.process.kill()

    def create(self, body: dict[str, Any]) -> Pod:
        """Create a pod, which starts when its Secret exists."""
        self.created.append(json.loads(json.dumps(body)))
        body["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": _now()}
        pod = self.pods[body["metadata"]["name"]] = Pod(body)
        if self.waiting is not None:
            pod.status |= {"containerStatuses": [self._container(pod, {"waiting": self.waiting})]}
        else:
            self.start(pod)
        return pod

    def start(self, pod: Pod) -> None:
        """Start the container of a pod, if all of its Secrets exist."""
        container = pod.body["spec"]["containers"][0]
        sources = [source["secretRef"]["name"] for source in container.get("envFrom", ()) if "secretRef" in source]
        if pod.process is not None or any(name not in self.secrets for name in sources):
            return
        environment = dict(SERVICES if pod.body["spec"].get("enableServiceLinks", True) else OWN_SERVICE)
        environment |= {name: value for source in sources for name, value in self.secrets[source]["stringData"].items()}
        environment |= {variable["name"]: variable.get("value", "") for variable in container.get("env") or ()}
        command = [_expanded(argument, environment) for argument in container.get("command") or ()]
        arguments = [_expanded(argument, environment) for argument in container.get("args") or ()]
        pod.process = LocalContainer([*command, *arguments], environment, self._mounts(pod.body["spec"], container))
        running = {"running": {"startedAt": _now()}}
        pod.status |= {"phase": "Running", "startTime": _now(), "containerStatuses": [self._container(pod, running)]}
        try:
            pod.process.start(lambda _, data: self._append(pod, data))
        except OSError as error:
            problem = f'exec: "{command[0]}": executable file not found in $PATH ({error.strerror})'
            self._end(pod, 128, {"reason": "StartError", "message": problem})
            return
        threading.Thread(target=self._wait, args=(pod, pod.process), daemon=True).start()

    def delete(self, pod: Pod, options: dict[str, Any]) -> None:
        """Delete a pod and the Secrets that it owns."""
        name, uid = pod.body["metadata"]["name"], pod.body["metadata"]["uid"]
        self.deleted.append((name, options))
        if self.pods.pop(name, None) is None:
            return
        if pod.process is not None:
            pod.process.kill()
        for secret in [*self.secrets.values()]:
            if any(owner["uid"] == uid for owner in secret["metadata"].get("ownerReferences", ())):
                del self.secrets[secret["metadata"]["name"]]
        with pod.changed:
            pod.changed.notify_all()

    def _mounts(self, spec: dict[str, Any], container: dict[str, Any]) -> dict[str, str]:
        claims = {volume["name"]: volume["persistentVolumeClaim"]["claimName"] for volume in spec.get("volumes") or ()}
        mounts = {}
        for mount in container.get("volumeMounts") or ():
            folder = self.volumes[claims[mount["name"]]] / mount.get("subPath", "")
            assert folder.is_dir(), folder
            mounts[mount["mountPath"]] = str(folder)
        return mounts

    def _append(self, pod: Pod, data: bytes) -> None:
        with pod.changed:
            pod.output += data
            pod.changed.notify_all()

    def _wait(self, pod: Pod, process: LocalContainer) -> None:
        process.ended.wait()
        self._end(pod, process.exit_code or 0, {"reason": "Completed" if process.exit_code == 0 else "Error", **self.terminated})

    def _end(self, pod: Pod, code: int, reason: dict[str, Any]) -> None:
        with pod.changed:
            terminated = {"exitCode": code, "startedAt": _now(), "finishedAt": _now(), **reason}
            status = {"phase": "Failed" if code else "Succeeded", **self.ending}
            pod.status |= {**status, "containerStatuses": [self._container(pod, {"terminated": terminated})]}
            pod.changed.notify_all()

    @staticmethod
    def _container(pod: Pod, state: dict[str, Any]) -> dict[str, Any]:
        container = pod.body["spec"]["containers"][0]
        constant = {"image": container["image"], "imageID": "", "ready": "running" in state, "restartCount": 0}
        return {"name": container["name"], "state": state, **constant}


class _Handler(StandInHandler):
    service: KubernetesApi

    def answer(self) -> None:
        self.service.requests.append((self.command, self.path))
        self.service.answers.wait()
        self.body = json.loads(self.content) if self.content else {}
        assert self.headers["Authorization"] == "Bearer worker-token"
        route = ROUTE.fullmatch(self.url.path)
        assert route is not None, self.url.path
        if self.service.refused is not None:
            return self._problem(403, "Forbidden", self.service.refused)
        if self.command == "POST" and route["kind"] in self.service.refuses:
            status, message = self.service.refuses[route["kind"]]
            return self._problem(status, "Refused", message)
        if route["kind"] != "pods" or route["name"] is None:
            getattr(self, f"_{self.command.lower()}_{route['kind']}")()
            return None
        pod = self.service.pods.get(route["name"])
        if pod is None:
            return self._problem(404, "NotFound", f'pods "{route["name"]}" not found')
        getattr(self, f"_{self.command.lower()}_pod{'_log' if route['verb'] else ''}")(pod)
        return None

    def _get_events(self) -> None:
        if "watch" in self.query:
            self.service.watched.set()
            return self.send_bytes(200, b"")
        return self.send_json(200, {"kind": "EventList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []})

    def _post_secrets(self) -> None:
        self.service.secrets_created.append(self.body)
        self.service.secrets[self.body["metadata"]["name"]] = self.body
        for pod in list(self.service.pods.values()):
            if self.service.waiting is None:
                self.service.start(pod)
        encoded = {name: b64encode(value.encode()).decode() for name, value in self.body["stringData"].items()}
        self.send_json(201, {"kind": "Secret", "apiVersion": "v1", "metadata": self.body["metadata"], "data": encoded})

    def _post_pods(self) -> None:
        self.send_json(201, self._shown(self.service.create(self.body)))

    def _get_pods(self) -> None:
        conditions = [part for part in self.query.get("labelSelector", [""])[0].split(",") if part]
        found = [pod for pod in self.service.pods.values() if all(_matches(pod.labels, each) for each in conditions)]
        self.send_json(200, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [self._shown(pod) for pod in found]})

    def _get_pod(self, pod: Pod) -> None:
        self.send_json(200, self._shown(pod))

    def _patch_pod(self, pod: Pod) -> None:
        pod.body["metadata"]["labels"] = {**pod.labels, **self.body["metadata"]["labels"]}
        self.send_json(200, self._shown(pod))

    def _delete_pod(self, pod: Pod) -> None:
        self.service.delete(pod, {**{name: values[0] for name, values in self.query.items()}, **self.body})
        self.send_json(200, self._shown(pod))

    def _get_pod_log(self, pod: Pod) -> None:
        if pod.process is None:
            return self._problem(400, "BadRequest", "container is waiting to start")
        stamp = (_now() + " ").encode() if self.query.get("timestamps") == ["True"] else b""
        follow = self.query.get("follow") == ["True"]
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        sent = 0
        while True:
            with pod.changed:
                is_over = pod.status["phase"] in ("Succeeded", "Failed") or pod.body["metadata"]["name"] not in self.service.pods
                data = bytes(pod.output[sent:])
                if not is_over and follow and b"\n" not in data:
                    pod.changed.wait(1.0)
                    continue
            whole = data if is_over or not follow else data[: data.rindex(b"\n") + 1]
            sent += len(whole)
            lines = b"".join(stamp + line for line in whole.splitlines(keepends=True))
            if lines:
                self.send_chunks(lines)
            if is_over or not follow:
                break
        self.send_chunks(b"")
        return None

    @staticmethod
    def _shown(pod: Pod) -> dict[str, Any]:
        return {"kind": "Pod", "apiVersion": "v1", **pod.body, "status": pod.status}

    def _problem(self, status: int, reason: str, message: str) -> None:
        self.send_json(status, {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": status})


def _expanded(argument: str, environment: Mapping[str, str]) -> str:
    """Replace references as Kubernetes does: ``$$`` is a dollar sign, and a name that is not set stays as it is written."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return environment.get(match["name"] or "", match[0])

    return REFERENCE.sub(value, argument)


def _matches(labels: Mapping[str, str], condition: str) -> bool:
    if condition.startswith("!"):
        return condition[1:] not in labels
    name, is_not, value = condition.partition("!=")
    if is_not:
        return labels.get(name) != value
    name, _, value = condition.partition("=")
    return labels.get(name) == value


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
