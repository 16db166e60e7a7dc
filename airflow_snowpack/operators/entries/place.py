"""Where an entry runs, and a note of it, by which a sweep removes the container or pod when its task has ended.

    place = RunPlace("acme/score:1.4", identity, {"kubernetes_conn_id": "lake"}, context, root)
    place.write_note("kubernetes", {"namespace": "lake"})                # before the pod is created
    place.drop_note()                                                    # when it is gone
    for note in read_notes(root, store.identity): ...

A note is a file beside the exchange folders, where no entry can change it. It identifies the daemon or the cluster, and contains
nothing of what the entry receives.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import Context

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.interim.model import TaskAttempt
from airflow_snowpack.operators.entries.identity import EntryIdentity

INSIDE = "/snowpack"
GRACE_S = 2
"""Seconds between SIGTERM and SIGKILL when an entry is stopped: Airflow kills the task 5 s after its own SIGTERM."""
SIGNALS_FROM, SIGNALS = 128, 64
NOTE = "running-"


@dataclass(frozen=True, slots=True)
class RunPlace:
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

    def write_note(self, runner: str, event: Mapping[str, Any]) -> None:
        """Record that an entry runs here, with the ``event`` that :meth:`Driver.remove` needs."""
        attempt = self.identity.attempt
        simple = {name: value for name, value in self.options.items() if isinstance(value, str | int) or name == "docker_url"}
        note = {
            "runner": runner,
            "event": dict(event),
            "task": attempt.task.name,
            "attempt": [attempt.id, attempt.try_number, attempt.started_at.isoformat()],
            "store": self.identity.store_id,
            "host": socket.gethostname(),
            "options": simple,
        }
        with open(os.open(self._note, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(note, file)

    def drop_note(self) -> None:
        """Remove the note, if there is one."""
        self._note.unlink(missing_ok=True)

    @property
    def _note(self) -> Path:
        return self.root / f"{NOTE}{self.identity.attempt.id}.json"


@dataclass(frozen=True, slots=True)
class Note:
    """What runs, or ran, in a place."""

    runner: str
    event: Mapping[str, Any]
    place: RunPlace


def read_notes(root: Path, store_id: str) -> Iterator[Note]:
    """Yield the notes below ``runner_folder`` that this host can act on: of all pods, and of its own containers."""
    for file in sorted(root.glob(f"{NOTE}*")):
        try:
            found = _read(file, root)
        except (OSError, LookupError, TypeError, ValueError):  # just removed, being written, or of another version
            continue
        if found is not None and found.place.identity.store_id == store_id:
            yield found


def _read(file: Path, root: Path) -> Note | None:
    """Return the note in a file; ``None``: it is about containers of another host, or names no task."""
    note = json.loads(file.read_text())
    task, is_here = TaskRef.parse(note["task"]), note["runner"] != "docker" or note["host"] == socket.gethostname()
    if task is None or not is_here:
        return None
    attempt_id, tried, started = note["attempt"]
    identity = EntryIdentity(TaskAttempt(task, attempt_id, tried, datetime.fromisoformat(started)), note["store"])
    return Note(note["runner"], note["event"], RunPlace("", identity, note["options"], {}, root))


def ended_with(code: int) -> int:
    """Return the exit code of an entry; negative: the signal that ended it."""
    return SIGNALS_FROM - code if SIGNALS_FROM < code <= SIGNALS_FROM + SIGNALS else code
