"""Which class is behind the name of a runner. Those of containers and pods need providers of Airflow, which are extras."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.runners.invocation import Runner
from airflow_snowpack.runners.subprocess_runner import SubprocessRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta
    from pathlib import Path

    from airflow.sdk import Context

    from airflow_snowpack.interim.model import TaskAttempt
    from airflow_snowpack.operators.entries.identity import EntryIdentity
    from airflow_snowpack.operators.entries.kubernetes import Waiting
    from airflow_snowpack.runners.invocation import Invocation, Line


class RunnerNotInstalled(SnowpackError, kind=Kind.MISCONFIGURED):
    """The runner needs a provider that is not installed."""

    def __init__(self, runner: str, problem: object) -> None:
        super().__init__(
            f"The runner {runner!r} needs a provider of Airflow that this worker does not have ({problem}). Install the extra "
            f"airflow-snowpack[{runner}] on the worker."
        )


@dataclass(frozen=True, slots=True)
class Place:
    """The attempt that a runner runs an entry for, and the limits and options of its task.

    :param image: ``None`` for a subprocess.
    :param store_id: the identity of the store, which distinguishes installations that share a Docker daemon or a cluster.
    :param root: the folder of all exchange folders.
    :param time_limit: the task's ``execution_timeout``.
    :param options: the task's ``runner_options``.
    """

    image: str | None
    attempt: TaskAttempt
    store_id: str
    context: Context
    root: Path
    time_limit: timedelta | None
    options: Mapping[str, Any]

    @property
    def identity(self) -> EntryIdentity:
        """The attempt as labels of its container or pod name it."""
        from airflow_snowpack.operators.entries.identity import EntryIdentity

        return EntryIdentity(self.attempt, self.store_id)


@runtime_checkable
class DeferrableRunner(Runner, Protocol):
    """A runner whose entry may run without a worker, while the task waits in the triggerer."""

    @property
    def deferrable(self) -> bool:
        """Whether the task waits in the triggerer."""
        ...

    def submit(self, invocation: Invocation, on_line: Callable[[Line], None]) -> Waiting | int:
        """Start the entry and return what the task waits for, or the exit code of an entry that has ended already."""
        ...

    def resume(self, event: Mapping[str, Any], mark: str | None, on_line: Callable[[Line], None]) -> Waiting | int:
        """Return the exit code after a wait, or wait again."""
        ...

    def discard(self, event: Mapping[str, Any]) -> None:
        """Remove after a wait what the entry ran in, without its result. An error is logged."""
        ...


def open_runner(name: str, place: Place) -> Runner:
    """Return the runner of this name.

    :raises RunnerNotInstalled: its provider is missing.
    """
    try:
        return RUNNERS[name](place)
    except ImportError as problem:
        raise RunnerNotInstalled(name, problem) from problem


def _docker(place: Place) -> Runner:
    import airflow.providers.docker.operators.docker  # noqa: F401 - refused here, before anything has started

    from airflow_snowpack.operators.entries.docker import DockerRunner

    assert place.image is not None, "arguments are checked"
    return DockerRunner(place.image, place.identity, place.options)


def _kubernetes(place: Place) -> Runner:
    import airflow.providers.cncf.kubernetes.operators.pod  # noqa: F401 - as above

    from airflow_snowpack.operators.entries.kubernetes import KubernetesRunner

    assert place.image is not None, "arguments are checked"
    limits: dict[str, Any] = {"root": place.root, "time_limit": place.time_limit}
    return KubernetesRunner(place.image, place.identity, place.context, options=place.options, **limits)


RUNNERS: dict[str, Callable[[Place], Runner]] = {
    "subprocess": lambda _: SubprocessRunner(),
    "docker": _docker,
    "kubernetes": _kubernetes,
}
