"""Which class is behind the name of a runner. Those of containers and pods need providers of Airflow, which are extras."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.runners.subprocess_runner import SubprocessRunner

if TYPE_CHECKING:
    from airflow_snowpack.runners.invocation import Runner


class RunnerNotInstalled(SnowpackError, kind=Kind.MISCONFIGURED):
    """The runner needs a provider that is not installed."""

    def __init__(self, runner: str, problem: object) -> None:
        super().__init__(
            f"The runner {runner!r} needs a provider of Airflow that this worker does not have ({problem}). Install the extra "
            f"airflow-snowpack[{runner}] on the worker."
        )


def open_runner(runner: str) -> Runner:
    """Return the runner of this name.

    :raises RunnerNotInstalled: its provider is missing.
    """
    open_known: dict[str, Callable[[], Runner]] = {"subprocess": SubprocessRunner}
    try:
        return open_known[runner]()
    except (KeyError, ImportError) as problem:
        raise RunnerNotInstalled(runner, problem) from problem
