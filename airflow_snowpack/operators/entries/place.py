"""Where an entry runs, for which attempt, and a note of both, by which a sweep removes what runs when the task has ended.

    place = RunPlace("acme/score:1.4", identity, {"kubernetes_conn_id": "lake"}, context, root)
    place.write_note("kubernetes", {"namespace": "lake"})                # before the pod is created
    place.drop_note()                                                    # when it is gone
    for note in read_notes(root, store.identity): ...
    identity.is_left_over(labels_of_a_container)                         # an earlier attempt of this task instance started it

A note is a file beside the exchange folders, where no entry can change it. It identifies the daemon or the cluster, and contains
nothing of what the entry receives.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.interim.model import TaskAttempt
from airflow_snowpack.runners.errors import EntryCancelled

if TYPE_CHECKING:
    from airflow.sdk import Context

INSIDE = "/snowpack"
GRACE_S = 2
"""Seconds between SIGTERM and SIGKILL when an entry is stopped: Airflow kills the task 5 s after its own SIGTERM."""
SIGNALS_FROM, SIGNALS = 128, 64
NOTE = "running-"
PREFIX = "airflow_snowpack."
TASK_INSTANCE = f"{PREFIX}task_instance"
ATTEMPT = f"{PREFIX}attempt"
TRY_NUMBER = f"{PREFIX}try_number"
STARTED = f"{PREFIX}started"
CLOCK_SKEW_S = 60


@dataclass(frozen=True, slots=True)
class EntryIdentity:
    """The attempt that runs an entry, as labels of its container or pod: the next attempt finds by them what this one has left.

    Labels are public: every user who may list containers or pods reads them. They contain ids of Airflow and of the store, no
    values.

    :param attempt: its id consists of letters, digits and hyphens.
    :param store_id: the identity of the store. Installations that share a Docker daemon or a namespace of Kubernetes may have
        DAGs and runs of the same names.
    """

    attempt: TaskAttempt
    store_id: str

    @property
    def task_instance(self) -> str:
        """The hash that all attempts of this task instance share, and no other task instance has."""
        return hashlib.sha256(f"{self.store_id}\n{self.attempt.task.name}".encode()).hexdigest()[:40]

    def keys(self) -> dict[str, str]:
        """Return the labels by which attempts find each other; their values are valid as Kubernetes labels, too."""
        return {
            TASK_INSTANCE: self.task_instance,
            ATTEMPT: self.attempt.id,
            TRY_NUMBER: str(self.attempt.try_number),
            STARTED: str(self._started),
        }

    def labels(self) -> dict[str, str]:
        """Return :meth:`keys` and the unchanged ids of the task."""
        task = self.attempt.task
        ids = {"dag_id": task.dag_id, "run_id": task.run_id, "task_id": task.task_id, "map_index": str(task.map_index)}
        return {PREFIX + name: value for name, value in ids.items()} | self.keys()

    def is_left_over(self, labels: Mapping[str, str]) -> bool:
        """Return whether an earlier attempt of the task instance, not a later one, started what has these labels.

        An attempt that hung and continues after its successor has started must not remove what the successor runs. Which attempt
        is later follows from the times at which Airflow started them; within a minute, as clocks differ, from their tries.
        """
        if labels.get(TASK_INSTANCE) != self.task_instance or labels.get(ATTEMPT) == self.attempt.id:
            return False
        started, tried = labels.get(STARTED, ""), labels.get(TRY_NUMBER, "")
        if not (started.isdecimal() and tried.isdecimal()):
            return True  # another version wrote it
        later_s = int(started) - self._started
        return later_s < -CLOCK_SKEW_S or (later_s <= CLOCK_SKEW_S and int(tried) <= self.attempt.try_number)

    @property
    def _started(self) -> int:
        return int(self.attempt.started_at.timestamp())


@dataclass(frozen=True, slots=True)
class RunPlace:
    """Where an entry runs, and for which attempt.

    :param image: a reference by tag or by digest, used as it is; ``None`` for a subprocess.
    :param identity: the attempt, which the labels of the container or pod name.
    :param options: the task's ``runner_options``: arguments of the provider's ``DockerOperator`` or ``KubernetesPodOperator``.
    :param context: Airflow's, from which the provider's operator takes the labels of a pod.
    :param root: the folder of the exchange folders (the setting ``runner_folder``); for pods, where the worker mounts the volume.
    :param time_limit: the task's ``execution_timeout``; a pod gets it as its active deadline.
    :ivar stopped: set when the entry is stopped.
    """

    image: str | None
    identity: EntryIdentity
    options: Mapping[str, Any]
    context: Context
    root: Path
    time_limit: timedelta | None = None
    stopped: threading.Event = field(default_factory=threading.Event, init=False, repr=False, compare=False)

    def refuse_stopped(self) -> None:
        """Raise :class:`EntryCancelled` after a stop; called before anything is created or started."""
        if self.stopped.is_set():
            raise EntryCancelled

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
