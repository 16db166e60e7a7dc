"""The reference to an Airflow task instance, and its text form in owners, workers and lineage.

ref = TaskRef.parse("orders/manual__1/clean[3] try 2 on host:4711")
ref.name            # 'orders/manual__1/clean[3]', the same for every try
str(ref)            # 'orders/manual__1/clean[3] try 2'
TaskRef.of(context["ti"])
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Self

# Neither the id of a DAG nor that of a task contains a slash; the id of a run may.
REFERENCE = re.compile(
    r"(?P<dag>[^/]+)/(?P<run>.+)/(?P<task>[^/\[\] ]+)(\[(?P<index>\d+)\])?( try (?P<tried>\d+)( on .*)?)?", re.ASCII
)


@dataclass(frozen=True, slots=True)
class TaskRef:
    """A task instance, or one try of it.

    :param map_index: -1 for a task that is not mapped.
    :param try_number: from 1; ``None`` for the task instance as a whole, or when the try is unknown.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1
    try_number: int | None = None

    @classmethod
    def of(cls, instance: Any) -> Self:
        """Return the reference to a running try.

        :param instance: Airflow's task instance, ``context["ti"]``.
        """
        map_index = -1 if instance.map_index is None else instance.map_index
        return cls(instance.dag_id, instance.run_id, instance.task_id, map_index, instance.try_number)

    @classmethod
    def parse(cls, text: str | None) -> Self | None:
        """Parse ``dag/run/task[index] try 2 on host``, where the index, the try and the host may be missing.

        :returns: ``None`` for any other text, such as the name of a user.
        """
        parts = REFERENCE.fullmatch(text or "")
        if parts is None:
            return None
        index, tried = parts["index"], parts["tried"]
        return cls(parts["dag"], parts["run"], parts["task"], int(index) if index else -1, int(tried) if tried else None)

    @property
    def task(self) -> str:
        """``task[index]``."""
        return f"{self.task_id}[{self.map_index}]" if self.map_index >= 0 else self.task_id

    @property
    def name(self) -> str:
        """``dag/run/task[index]``, the same for every try."""
        return f"{self.dag_id}/{self.run_id}/{self.task}"

    @property
    def any_try(self) -> str:
        """The prefix that the texts of all tries of this task instance share, and no other task instance has."""
        return f"{self.name} try "

    def __str__(self) -> str:
        return self.name if self.try_number is None else f"{self.any_try}{self.try_number}"
