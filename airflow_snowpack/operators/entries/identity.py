"""The owner of a container or a pod, as labels: the next attempt of a task finds by them what an earlier one has left.

    identity = EntryIdentity(attempt, store_id=store.identity)
    identity.labels()["airflow_snowpack.dag_id"]
    identity.is_left_over(labels_of_a_container)        # an earlier attempt of this task instance started it

Labels are public: every user who may list containers or pods reads them. They contain ids of Airflow and of the store, no values.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_snowpack.interim.model import TaskAttempt

PREFIX = "airflow_snowpack."
TASK_INSTANCE = f"{PREFIX}task_instance"
ATTEMPT = f"{PREFIX}attempt"
TRY_NUMBER = f"{PREFIX}try_number"
STARTED = f"{PREFIX}started"
CLOCK_SKEW_S = 60


@dataclass(frozen=True, slots=True)
class EntryIdentity:
    """The attempt that runs an entry.

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
