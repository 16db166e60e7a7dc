"""Where an entry runs, for the drivers of containers and pods.

place = Place("acme/score:1.4", identity, {"kubernetes_conn_id": "lake"}, context, root)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import Context

from airflow_snowpack.operators.entries.identity import EntryIdentity

INSIDE = "/snowpack"
GRACE_S = 2
"""Seconds between SIGTERM and SIGKILL when an entry is stopped: Airflow kills the task 5 s after its own SIGTERM."""
SIGNALS_FROM, SIGNALS = 128, 64


@dataclass(frozen=True, slots=True)
class Place:
    """Where an entry runs, and for which attempt.

    :param image: a reference by tag or by digest, used as it is; ``None`` for a subprocess.
    :param identity: the attempt, which the labels of the container or pod name.
    :param options: the task's ``runner_options``: arguments of the provider's ``DockerOperator`` or ``KubernetesPodOperator``.
    :param context: Airflow's, from which the provider's operator takes the labels of a pod.
    :param root: the folder of the exchange folders (the setting ``runner_folder``); for pods, where the worker mounts the volume.
    :param time_limit: the task's ``execution_timeout``; a pod gets it as its active deadline.
    """

    image: str | None
    identity: EntryIdentity
    options: Mapping[str, Any]
    context: Context
    root: Path
    time_limit: timedelta | None = None


def ended_with(code: int) -> int:
    """Return the exit code of an entry; negative: the signal that ended it."""
    return SIGNALS_FROM - code if SIGNALS_FROM < code <= SIGNALS_FROM + SIGNALS else code
