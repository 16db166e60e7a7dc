"""How an entry ended in a pod, read from the status of the pod.

    exit_code_of(pod, "base", program="score")

It reads the objects of the Kubernetes client without importing it.
"""

from __future__ import annotations

from typing import Any

from airflow_snowpack.operators.entries.errors import EntryRemoved, OutOfMemory, PodEvicted, PodOutOfTime
from airflow_snowpack.runners.errors import EntryNotStarted

OUT_OF_TIME = "DeadlineExceeded"
NOT_STARTED = frozenset({"StartError", "ContainerCannotRun"})
SIGNALS_FROM, SIGNALS = 128, 64


def exit_code_of(pod: Any, container: str, program: str) -> int:
    """Return the exit code of the entry; negative: the signal that ended it.

    A program that is asked to end may exit with 0 before it has finished: an entry that the cluster ended has not succeeded.

    :param pod: a ``V1Pod``.
    :param container: the name of the entry's container.
    :raises PodOutOfTime: the pod reached its active deadline.
    :raises PodEvicted: the cluster ended the pod.
    :raises OutOfMemory: the container exceeded its memory limit.
    :raises EntryNotStarted: the program could not be started.
    :raises EntryRemoved: the container has not ended, or the pod was deleted.
    """
    name, status = pod.metadata.name, pod.status
    terminated = _terminated(pod, container)
    if status.reason == OUT_OF_TIME:
        raise PodOutOfTime(name, pod.spec.active_deadline_seconds)
    disruption = next(
        (each for each in status.conditions or () if each.type == "DisruptionTarget" and each.status == "True"), None
    )
    if disruption is not None:
        raise PodEvicted(name, disruption.reason, disruption.message or status.message or "")
    if status.reason and status.phase != "Succeeded":
        raise PodEvicted(name, status.reason, status.message or "")
    if terminated is None or pod.metadata.deletion_timestamp is not None:
        raise EntryRemoved(f"pod {name}")
    if terminated.reason == "OOMKilled":
        raise OutOfMemory("Raise the memory limit in runner_options={'container_resources': …} or in the pod's template.")
    if terminated.reason in NOT_STARTED:
        raise EntryNotStarted(program, terminated.message or terminated.reason)
    code = int(terminated.exit_code)
    return SIGNALS_FROM - code if SIGNALS_FROM < code <= SIGNALS_FROM + SIGNALS else code


def has_started(pod: Any, container: str) -> bool:
    """Return whether the container of the entry runs or has ended."""
    state = _state(pod, container)
    return state is not None and (state.running is not None or state.terminated is not None)


def _terminated(pod: Any, container: str) -> Any:
    state = _state(pod, container)
    return None if state is None else state.terminated


def _state(pod: Any, container: str) -> Any:
    return next((each.state for each in pod.status.container_statuses or () if each.name == container), None)
