"""A stand-in for a Docker daemon: as much of its HTTP API as Airflow's provider uses, on 127.0.0.1.

    with DockerEngine(images={"acme/score:1.4"}) as engine:
        DockerRunner("acme/score:1.4", identity, {"docker_url": engine.url}).run(invocation, on_line)
    engine.created[0]["HostConfig"]["Mounts"]

The client is docker's own. Not real are the containers (see ``local_container``), images, which are names, and memory limits.
"""

from __future__ import annotations

import json
import queue
import re
import signal
import struct
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from http_stand_in import StandIn, StandInHandler
from local_container import LocalContainer

VERSION = {"Version": "28.0.0", "ApiVersion": "1.44", "MinAPIVersion": "1.24"}
ROUTE = re.compile(r"(?:/v[\d.]+)?/(?P<kind>containers|images|_ping|version|auth)(?:/(?P<id>[^/]+))?(?:/(?P<verb>\w+))?")


@dataclass
class Container:
    """A container of the engine."""

    id: str
    request: dict[str, Any]
    process: LocalContainer
    output: queue.SimpleQueue[bytes | None] = field(default_factory=queue.SimpleQueue)
    state: str = "created"


class DockerEngine(StandIn):
    """The engine.

    :ivar created: the body of each request for a container.
    :ivar requests: method, path and query of each request.
    :ivar start_error: the status and the message of the answer to each start of a container.
    :ivar on_created: called when a container is created, before the answer.
    :ivar out_of_memory: whether containers that are killed are reported as out of memory.
    """

    def __init__(self, images: set[str]) -> None:
        self.images = images
        self.pullable: set[str] = set()
        self.pull_error: str | None = None
        self.created: list[dict[str, Any]] = []
        self.requests: list[tuple[str, str, dict[str, list[str]]]] = []
        self.containers: dict[str, Container] = {}
        self.removed: list[str] = []
        self.out_of_memory = False
        self.answers_500 = False
        self.start_error: tuple[int, str] | None = None
        self.on_created: Callable[[], None] = lambda: None
        super().__init__(_Handler)

    @property
    def url(self) -> str:
        return f"tcp://{self.address}"

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        for container in self.containers.values():
            container.process.kill()

    def create(self, request: dict[str, Any]) -> Container:
        mounts = {mount["Target"]: mount["Source"] for mount in request["HostConfig"].get("Mounts", ())}
        argv = [*(request.get("Entrypoint") or ()), *(request.get("Cmd") or ())]
        environment = dict(variable.split("=", 1) for variable in request.get("Env") or ())
        container = Container(uuid.uuid4().hex * 2, request, LocalContainer(argv, environment, mounts))
        self.created.append(request)
        self.containers[container.id] = container
        return container

    def remove(self, container: Container) -> None:
        container.process.kill()
        if self.containers.pop(container.id, None) is not None:
            self.removed.append(container.id)
        container.output.put(None)


class _Handler(StandInHandler):
    service: DockerEngine
    constant_headers = MappingProxyType({"Api-Version": VERSION["ApiVersion"]})

    def answer(self) -> None:
        self.service.requests.append((self.command, self.url.path, self.query))
        route = ROUTE.fullmatch(self.url.path)
        assert route is not None, self.url.path
        if self.service.answers_500 and route["kind"] != "version":
            return self.send_json(500, {"message": "the engine is broken"})
        name = f"_{self.command.lower()}_{route['kind'].strip('_')}_{route['verb'] or ''}".rstrip("_")
        if route["kind"] == "containers" and route["id"] not in (None, "json", "create"):
            container = self.service.containers.get(route["id"])
            if container is None:
                return self.send_json(404, {"message": f"No such container: {route['id']}"})
            getattr(self, name)(container)
        else:
            getattr(self, name + (f"_{route['id']}" if route["id"] and not route["verb"] else ""))()
        return None

    def _head_ping(self) -> None:
        self.send_bytes(200, b"")

    def _get_ping(self) -> None:
        self.send_bytes(200, b"OK")

    def _get_version(self) -> None:
        self.send_json(200, VERSION)

    def _post_auth(self) -> None:
        self.send_json(200, {"Status": "Login Succeeded"})

    def _get_images_json(self) -> None:
        wanted = json.loads(self.query.get("filters", ["{}"])[0]).get("reference") or self.query.get("filter", [])
        self.send_json(200, [{"Id": name, "RepoTags": [name]} for name in self.service.images if name in wanted])

    def _post_images_create(self) -> None:
        tag = self.query.get("tag", ["latest"])[0]
        name = self.query["fromImage"][0] + ("@" if tag.startswith("sha256:") else ":") + tag
        if name in self.service.pullable:
            self.service.images.add(name)
            return self._stream({"status": "Pulling from library"}, {"status": "Download complete", "id": "1"})
        if self.service.pull_error is not None:
            return self._stream({"status": "Pulling from library"}, {"error": self.service.pull_error})
        problem = f"pull access denied for {name}, repository does not exist or may require 'docker login'"
        return self.send_json(404, {"message": problem})

    def _post_containers_create(self) -> None:
        request = json.loads(self.content)
        if request["Image"] not in self.service.images:
            return self.send_json(404, {"message": f"No such image: {request['Image']}"})
        for mount in request["HostConfig"].get("Mounts", ()):
            if mount["Type"] == "bind" and not Path(mount["Source"]).exists():
                problem = f'invalid mount config for type "bind": bind source path does not exist: {mount["Source"]}'
                return self.send_json(400, {"message": problem})
        container = self.service.create(request)
        self.service.on_created()
        return self.send_json(201, {"Id": container.id, "Warnings": []})

    def _get_containers_json(self, container: Container | None = None) -> None:
        if container is None:
            filters = json.loads(self.query.get("filters", ["{}"])[0])
            labels = [label.split("=", 1) for label in filters.get("label", ())]
            found = [
                each for each in self.service.containers.values() if all(each.request["Labels"].get(k) == v for k, v in labels)
            ]
            return self.send_json(200, [{"Id": each.id, "Labels": each.request["Labels"], "State": each.state} for each in found])
        code = container.process.exit_code
        is_out_of_memory = self.service.out_of_memory and code == 128 + signal.SIGKILL
        state = {"Status": container.state, "ExitCode": code or 0, "OOMKilled": is_out_of_memory, "Error": ""}
        return self.send_json(200, {"Id": container.id, "Config": container.request | {"Tty": False}, "State": state})

    def _post_containers_attach(self, container: Container) -> None:
        self.wfile.write(
            b"HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.multiplexed-stream\r\n"
            b"Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
        )
        self.close_connection = True
        while (frame := container.output.get()) is not None:
            try:
                self.wfile.write(frame)
            except OSError:  # the client has gone
                return

    def _post_containers_start(self, container: Container) -> None:
        if self.service.start_error is not None:
            status, message = self.service.start_error
            return self.send_json(status, {"message": message})
        try:
            container.process.start(lambda stream, data: container.output.put(struct.pack(">BxxxL", stream, len(data)) + data))
        except OSError as error:
            program = container.process.argv[0]
            problem = f'OCI runtime create failed: exec: "{program}": executable file not found in $PATH ({error})'
            return self.send_json(400, {"message": problem})
        container.state = "running"
        threading.Thread(target=self._end_output, args=(container,), daemon=True).start()
        return self.send_bytes(204, b"")

    @staticmethod
    def _end_output(container: Container) -> None:
        container.process.ended.wait()
        container.output.put(None)

    def _post_containers_wait(self, container: Container) -> None:
        container.process.ended.wait()
        container.state = "exited"
        self.send_json(200, {"StatusCode": container.process.exit_code})

    def _post_containers_stop(self, container: Container) -> None:
        container.process.stop(float(self.query["t"][0]))
        self.send_bytes(204, b"")

    def _delete_containers(self, container: Container) -> None:
        if container.process.is_running and self.query.get("force") != ["True"]:
            return self.send_json(409, {"message": "the container is running"})
        self.service.remove(container)
        return self.send_bytes(204, b"")

    def _stream(self, *lines: object) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.send_chunks(*(json.dumps(line).encode() + b"\r\n" for line in lines), b"")
