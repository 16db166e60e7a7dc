"""The runners ``docker`` and ``kubernetes``: an entry in a container or a pod, run by the operator of one of Airflow's providers.

    runner = open_runner("docker", RunPlace("acme/score:1.4", identity, {"network_mode": "none"}, context, root))
    code = runner.run(exchange.invocation(isolated=runner.isolated, inside=runner.inside), on_line)

    IsolatedRunner(driver).resume(event, mark, on_line)                   # after a run that has raised TaskDeferred

The provider's operator pulls the image, and creates, follows and removes the container or pod; its arguments are the runner's
options. A driver adapts it to one entry, and is imported with its runner: a worker needs no other provider. The invariant: what
an earlier attempt has left is removed before another one starts, and nothing is left when the entry has ended. What a killed
worker left is found by its labels.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.operators.entries.place import INSIDE, RunPlace
from airflow_snowpack.runners.errors import EntryError
from airflow_snowpack.runners.invocation import Invocation, OutputLine, Runner
from airflow_snowpack.runners.subprocess_runner import SubprocessRunner

log = logging.getLogger(__name__)


class RunnerNotInstalled(SnowpackError, kind=Kind.MISCONFIGURED):
    """The runner needs a provider that is not installed."""

    def __init__(self, runner: str, problem: object) -> None:
        super().__init__(
            f"The runner {runner!r} needs a provider of Airflow that this worker does not have ({problem}). Install the extra "
            f"airflow-snowpack[{runner}] on the worker."
        )


class Driver(Protocol):
    """Adapts the operator of a provider to one entry in ``place``."""

    place: RunPlace

    def run_entry(self, invocation: Invocation, on_line: Callable[[OutputLine], None]) -> int:
        """Remove what earlier attempts have left, and run the entry to its end; see :meth:`Runner.run`."""
        ...

    def resume_entry(self, event: Mapping[str, Any], mark: str | None, on_line: Callable[[OutputLine], None]) -> int:
        """Pass on the output of an entry that has run without a worker, and return its exit code."""
        ...

    def remove(self, event: Mapping[str, Any] | None = None) -> None:
        """End the entry with ``GRACE_S``, and remove its container or pod.

        This does not use the client of the run, whose locks an interrupted thread may hold.

        :param event: of the trigger of a task that has waited.
        """
        ...

    def errors(self) -> AbstractContextManager[None]:
        """Raise the errors of the provider's client as errors of entries."""
        ...


class IsolatedRunner:
    """Runs an entry in a container or a pod."""

    isolated = True
    inside: str | None = INSIDE

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def run(self, invocation: Invocation, on_line: Callable[[OutputLine], None]) -> int:
        """Run the entry; see :meth:`Runner.run`.

        :raises TaskDeferred: the entry runs without a worker until the trigger fires; :meth:`resume` continues.
        :raises DockerUnavailable, ClusterUnavailable, ClusterNotConfigured, ClusterRefused: daemon or cluster cannot be used.
        :raises ExchangeFolderNotShared: the exchange folder cannot be mounted at ``/snowpack``.
        :raises ImageNotFound, ImageNotPulled, PodNotStarted: the container or pod did not start.
        :raises OutOfMemory, PodEvicted, PodOutOfTime, EntryRemoved: the entry was ended.
        """
        with self._errors():
            return self._driver.run_entry(invocation, on_line)

    def resume(self, event: Mapping[str, Any], mark: str | None, on_line: Callable[[OutputLine], None]) -> int:
        """Return the exit code after a wait, or wait again.

        :param event: of the trigger.
        :param mark: of the invocation.
        :raises TaskDeferred, EntryError: as for :meth:`run`.
        """
        with self._errors():
            return self._driver.resume_entry(event, mark, on_line)

    def stop(self, event: Mapping[str, Any] | None = None) -> None:
        """End the entry; see :meth:`Runner.stop`. Return when the container is removed, after little more than ``GRACE_S``.

        :param event: of the trigger of a task that cannot resume.
        """
        self._driver.place.stopped.set()
        try:
            with self._driver.errors():
                self._driver.remove(event)
        except EntryError as error:
            log.warning("The entry could not be stopped; the next attempt of the task ends it. %s", error)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            with self._driver.errors():
                yield
        except (EntryError, TaskDeferred):
            self._driver.place.refuse_stopped()  # the stop removed what failed
            raise
        self._driver.place.refuse_stopped()  # the entry exited with 0 when it was stopped


def open_runner(name: str, place: RunPlace) -> Runner:
    """Return the runner of this name.

    :raises RunnerNotInstalled: its provider is missing.
    :raises UnknownRunnerOption: its provider has no such option.
    """
    if name == "subprocess":
        return SubprocessRunner()
    try:
        return IsolatedRunner(open_driver(name, place))
    except ImportError as problem:
        raise RunnerNotInstalled(name, problem) from problem


def open_driver(name: str, place: RunPlace) -> Driver:
    """Return the driver of a container or pod runner; raise ``ImportError`` if its provider is missing."""
    if name == "docker":
        from airflow_snowpack.operators.entries.docker_container import EntryContainer

        return EntryContainer.of(place)
    from airflow_snowpack.operators.entries.kubernetes_pod import EntryPod

    return EntryPod.of(place)
