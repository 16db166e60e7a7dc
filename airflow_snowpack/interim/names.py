"""What interim tables are called, and how they are told from everything else.

    >>> name_of(Slot(TaskKey("Flights 2026", "manual__1", "clean.rows")), "5f0c3a9e4b7d4c21a8f60123456789ab")
    'flights_2026_clean_rows_5f0c3a9e4b7d4c21a8f6'
    >>> is_ours("flights_2026_clean_rows_5f0c3a9e4b7d4c21a8f6"), is_ours("flights_2026")
    (True, False)

The invariants: a name is given once and never again, since it ends in twenty digits of a uuid4; and **nothing is ever dropped or
deleted whose name does not look like that**, whatever else is wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_snowpack.interim.model import Slot

DIGITS = 20
LONGEST = 100
EACH_PART = (LONGEST - DIGITS - 2) // 2
# The digits 13 and 17 of a uuid4 are its version and its variant (RFC 9562, section 5.4).
OURS = re.compile(r"[a-z][a-z0-9_]*_[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{3}")


@dataclass(frozen=True, slots=True)
class Producer:
    """The task instance that made a table, and which of its outputs the table is.

    :param map_index: -1 for a task that is not mapped.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1
    output: str = "return_value"

    def to_json(self) -> dict[str, Any]:
        """As it stands in a ref."""
        names = ("dag_id", "run_id", "task_id", "map_index", "output")
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        mapped = f"[{self.map_index}]" if self.map_index >= 0 else ""
        return f"{self.dag_id}/{self.run_id}/{self.task_id}{mapped}/{self.output}"


class Scope(StrEnum):
    """Where the name of a table is known."""

    RUN = "run"
    """In its own DAG run, whose end ends the name."""
    GLOBAL = "global"
    """Everywhere, until the name is given to another table or its time is over."""


def name_of(slot: Slot, table_id: str) -> str:
    """The name of the table, in lower case, since some catalogs know no other.

    :param table_id: a uuid4 in hex.
    """
    return f"{_safe(slot.task.dag_id)}_{_safe(slot.task.task_id)}_{table_id[:DIGITS]}"


def is_ours(table_name: str) -> bool:
    """Whether a table or folder of this name can only have been made here."""
    return len(table_name) <= LONGEST and OURS.fullmatch(table_name) is not None


def _safe(text: str) -> str:
    """A part of a name. No folder may begin with an underscore: Spark takes those for hidden."""
    safe = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:EACH_PART].rstrip("_")
    return safe if safe[:1].isalpha() else f"t{safe}"[:EACH_PART]
