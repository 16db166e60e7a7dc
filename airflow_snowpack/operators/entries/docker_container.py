"""Airflow's Docker operator for one entry: its request, the lines of its output, and how it ended.

    container = EntryContainer.of(place)
    with container.errors():
        code = container.run_entry(invocation, on_line)

The entry's command replaces the image's entrypoint: it receives exactly these arguments. The provider would log both streams as
one and keep every line in memory; the client that it gets here passes on the lines instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

from airflow.providers.common.compat.sdk import AirflowException, AirflowNotFoundException
from airflow.providers.docker.exceptions import DockerContainerFailedException
from airflow.providers.docker.operators.docker import DockerOperator
from airflow.sdk.bases.operator import ExecutorSafeguard
from docker.errors import APIError, DockerException, NotFound
from docker.types import Mount
from requests.exceptions import RequestException

from airflow_snowpack.operators.entries.errors import (
    DockerRefused,
    DockerUnavailable,
    EntryRemoved,
    ExchangeFolderNotShared,
    OutOfMemory,
    check_known_options,
    image_error,
)
from airflow_snowpack.operators.entries.place import ATTEMPT, GRACE_S, TASK_INSTANCE, RunPlace, ended_with
from airflow_snowpack.runners.errors import EntryCancelled, EntryNotStarted
from airflow_snowpack.runners.invocation import Invocation, OutputLine
from airflow_snowpack.runners.output_lines import OutputLines, Stream

# How runc and crun report a program that does not exist or is not executable.
PROGRAM_PROBLEM = re.compile(r"exec: |executable|OCI permission denied", re.IGNORECASE)
LOG_IN = "set runner_options={'docker_conn_id': …} to log in to its registry"
NOT_ON_HOST = (
    "the Docker daemon does not have it. Where the worker is a container itself, or the daemon runs on another host, mount the "
    "folder of the setting runner_folder at the same path on both"
)


class EntryContainer(DockerOperator):
    """Runs an entry in a container: the driver of the runner ``docker``."""

    place: RunPlace
    invocation: Invocation
    lines: OutputLines

    @classmethod
    def of(cls, place: RunPlace) -> Self:
        check_known_options(place.options, DockerOperator)
        assert place.image is not None, "arguments are checked"
        container = cls(
            **place.options,
            task_id=place.identity.attempt.task.task_id,
            image=place.image,
            auto_remove="force",
            mount_tmp_dir=False,
            do_xcom_push=False,
        )
        container.place = place
        return container

    @cached_property
    def cli(self) -> FollowedClient:
        """The client of the provider's hook; raises :class:`DockerUnavailable` if no daemon answers."""
        try:
            return FollowedClient(self.hook.api_client, self)
        except AirflowNotFoundException:
            raise
        except AirflowException as error:
            raise DockerUnavailable(self._urls, error) from error

    def run_entry(self, invocation: Invocation, on_line: Callable[[OutputLine], None]) -> int:
        """Run the entry in a container to its end; see :meth:`Driver.run_entry`."""
        self.invocation, self.lines = invocation, OutputLines(on_line, mark=invocation.mark)
        self.mounts = [*self.mounts, Mount(invocation.inside, str(invocation.folder), "bind")]
        identity = self.place.identity
        self.remove_labelled(TASK_INSTANCE, identity.task_instance, only=identity.is_left_over)
        self.place.write_note("docker", {})
        token = ExecutorSafeguard.tracker.set(self)  # as the task runner does for a task's operator
        try:
            self.execute({})
        except DockerContainerFailedException:
            if self.cli.state is None:
                raise
        finally:
            ExecutorSafeguard.tracker.reset(token)
            self.cli.remove_created()  # the provider removes it only after attaching to it
            if self.cli.is_creating:  # the daemon has not answered, and may have created it
                self.remove_labelled(ATTEMPT, identity.attempt.id)
            self.place.drop_note()
        state = self.cli.state or {}
        code = int(state.get("ExitCode", 0))
        if code and state.get("OOMKilled"):
            raise OutOfMemory("Raise runner_options={'mem_limit': …}, or have the entry use less.")
        return ended_with(code)

    def resume_entry(self, event: Mapping[str, Any], mark: str | None, on_line: Callable[[OutputLine], None]) -> int:
        """Never called: a task with a container does not defer."""
        raise NotImplementedError

    def remove(self, event: Mapping[str, Any] | None = None) -> None:
        # Without the registry's connection: the provider would log in first, and there are 5 s.
        options = {**self.place.options, "timeout": GRACE_S + 1, "docker_conn_id": None}
        other = self.of(replace(self.place, options=options))
        other.remove_labelled(ATTEMPT, self.place.identity.attempt.id, grace_s=GRACE_S)
        self.place.drop_note()

    def remove_labelled(
        self, label: str, value: str, *, only: Callable[[Mapping[str, str]], bool] = lambda labels: True, grace_s: int = 0
    ) -> None:
        """Remove the containers that have this label and whose labels ``only`` accepts, running ones included.

        :param grace_s: how long they have after SIGTERM.
        """
        client = self.cli
        for found in client.containers(all=True, filters={"label": [f"{label}={value}"]}):
            if not only(found["Labels"]):
                continue
            self.log.info("Removing container %s", found["Id"][:12])
            if grace_s:
                client.stop(found["Id"], timeout=grace_s)
            client.remove_container(found["Id"], force=True)

    @contextmanager
    def errors(self) -> Iterator[None]:
        try:
            yield
        except APIError as error:
            if error.is_client_error():
                raise DockerRefused(_explanation(error)) from error
            raise DockerUnavailable(self._urls, _explanation(error)) from error
        except (RequestException, DockerException) as error:
            raise DockerUnavailable(self._urls, error) from error

    @property
    def _urls(self) -> list[str]:
        return [self.docker_url] if isinstance(self.docker_url, str) else list(self.docker_url)


class FollowedClient:
    """A client of Docker that passes on the output of the entry as lines, and records how the entry ended.

    :ivar state: of the container, after its end.
    :ivar is_creating: the daemon has not answered the request for the container.
    """

    def __init__(self, client: Any, container: EntryContainer) -> None:
        self._client = client
        self._container = container
        self.state: Mapping[str, Any] | None = None
        self.is_creating = False
        self._created: str | None = None
        self._is_running = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def pull(self, image: str, **options: Any) -> Iterator[Any]:
        """Pull the image; the provider ignores errors in the response."""
        try:
            for line in self._client.pull(image, **options):
                if isinstance(line, dict) and "error" in line:
                    raise image_error(image, line["error"], LOG_IN)
                yield line
        except APIError as error:
            raise image_error(image, _explanation(error), LOG_IN) from error

    def create_container(self, **request: Any) -> Any:
        """Create the container with exactly what the entry receives, unless the entry was stopped."""
        self._container.place.refuse_stopped()
        self.is_creating = True
        invocation, identity = self._container.invocation, self._container.place.identity
        program, *arguments = invocation.argv
        received = {"entrypoint": [program], "command": arguments, "environment": dict(invocation.environment)}
        labels = _as_mapping(request["labels"]) | identity.labels()
        try:
            container = self._client.create_container(**{**request, **received, "labels": labels})
            self._created = container["Id"]
        except APIError as error:
            self.is_creating = False
            if isinstance(error, NotFound):
                raise image_error(request["image"], _explanation(error), LOG_IN) from error
            self._refuse_unmounted(error)
            raise
        self.is_creating = False
        return container

    def attach(self, container: str, **_: Any) -> Iterator[str]:
        """Follow both streams. Nothing remains for the provider to log."""
        with self._start_errors(container):  # Podman prepares the container here
            frames = self._client.attach(container, stdout=True, stderr=True, stream=True, demux=True)
        return self._passed_on(frames)

    def _passed_on(self, frames: Iterator[tuple[bytes | None, bytes | None]]) -> Iterator[str]:
        lines = self._container.lines
        for stdout, stderr in frames:
            if stdout:
                lines.feed(Stream.STDOUT, stdout)
            if stderr:
                lines.feed(Stream.STDERR, stderr)
        lines.close()
        yield from ()

    def start(self, container: str) -> None:
        """Start the container, unless the entry was stopped."""
        self._container.place.refuse_stopped()
        with self._start_errors(container):
            self._client.start(container)
        self._is_running = True

    def wait(self, container: str) -> Any:
        """Wait for the end, and record the state of the container before it is removed."""
        try:
            ended = self._client.wait(container)
            self.state = self._client.inspect_container(container)["State"]
        except NotFound as error:
            raise EntryRemoved(f"container {container[:12]}") from error
        self._is_running = False
        return ended

    def stop(self, container: str, timeout: int) -> None:
        """Send SIGTERM, and SIGKILL after the timeout in seconds. A container that is gone is not an error."""
        try:
            self._client.stop(container, timeout=timeout)
        except NotFound:
            return

    def remove_container(self, container: str, **options: Any) -> None:
        """Remove the container with its anonymous volumes. Another process may do so at the same time.

        A container that still runs, such as that of a timed-out task, gets SIGTERM first, unless the entry was stopped.
        """
        if container == self._created:
            self._created = None
            with suppress(EntryCancelled):
                self._container.place.refuse_stopped()
                self._end_running(container)
        try:
            self._client.remove_container(container, v=True, **options)
        except NotFound:
            return
        except APIError as error:
            if error.status_code != 409 or "already in progress" not in str(error):
                raise

    def _end_running(self, container: str) -> None:
        if not self._is_running:
            return
        self._is_running = False
        try:
            self.stop(container, timeout=GRACE_S)
        except (APIError, RequestException) as error:
            self._container.log.warning("The container got no SIGTERM before its removal: %s", error)

    def remove_created(self) -> None:
        """Remove the container that was created, if it is still there."""
        if self._created is not None:
            self.remove_container(self._created, force=True)

    @contextmanager
    def _start_errors(self, container: str) -> Iterator[None]:
        try:
            yield
        except APIError as error:
            self._refuse_unmounted(error)
            if "no such container" in str(error).lower():
                raise EntryRemoved(f"container {container[:12]}") from error
            if not PROGRAM_PROBLEM.search(_explanation(error)):
                raise  # a port, a device, a full disk
            raise EntryNotStarted(self._container.invocation.argv[0], _explanation(error)) from error

    def _refuse_unmounted(self, error: APIError) -> None:
        """:raises ExchangeFolderNotShared: the error is about the exchange folder."""
        folder = self._container.invocation.folder
        if str(folder) in str(error):
            raise ExchangeFolderNotShared(folder, NOT_ON_HOST) from error


def _as_mapping(labels: Mapping[str, str] | list[str] | None) -> dict[str, str]:
    return dict(labels) if isinstance(labels, Mapping) else dict.fromkeys(labels or (), "")


def _explanation(error: APIError) -> str:
    return str(error.explanation or error)
