"""The names of interim tables: by producing output, in the catalog, and as DAG authors choose them.

    >>> producer = Producer("Flights 2026", "manual__1", "clean.rows")
    >>> table_name_of(producer, "5f0c3a9e4b7d4c21a8f60123456789ab")
    'flights_2026_clean_rows_5f0c3a9e4b7d4c21a8f6'
    >>> is_ours("flights_2026_clean_rows_5f0c3a9e4b7d4c21a8f6"), is_ours("flights_2026")
    (True, False)

Invariants: a table name is never used twice, because it ends in twenty digits of a uuid4; and **no table or folder is ever
dropped whose name does not have this form**, whatever else is wrong.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_snowpack.airflow.task_ref import TaskRef

DEFAULT_OUTPUT = "return_value"
DIGITS = 20
MAX_LENGTH = 100
MAX_PART_LENGTH = (MAX_LENGTH - DIGITS - 2) // 2
# The digits 13 and 17 of a uuid4 are its version and its variant (RFC 9562, section 5.4).
OURS = r"[a-z][a-z0-9_]*_[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{3}"


class Scope(StrEnum):
    """Where the name of a table is valid."""

    RUN = "run"
    """In its DAG run, until the run ends."""
    GLOBAL = "global"
    """Everywhere, until another table takes the name or the time to live elapses."""


@dataclass(frozen=True, slots=True)
class Producer:
    """One output of one task instance (``map_index`` -1: not mapped). Only one attempt at a time may commit a table for it."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1
    output: str = DEFAULT_OUTPUT

    @property
    def task(self) -> TaskRef:
        from airflow_snowpack.airflow.task_ref import TaskRef  # not needed to parse a DAG file

        return TaskRef(self.dag_id, self.run_id, self.task_id, self.map_index)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form of a producer in references."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.task}/{self.output}"


def table_name_of(producer: Producer, table_id: str) -> str:
    """Return the table's name, in lower case because some catalogs allow no other; ``table_id`` is a uuid4 in hex."""
    return f"{_name_part(producer.dag_id)}_{_name_part(producer.task_id)}_{table_id[:DIGITS]}"


def is_ours(table_name: str) -> bool:
    """Return whether only this package can have given a table or folder this name."""
    return len(table_name) <= MAX_LENGTH and re.fullmatch(OURS, table_name) is not None


def _name_part(text: str) -> str:
    """Return a part of a name. A folder must not begin with an underscore, because Spark treats it as hidden."""
    safe = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:MAX_PART_LENGTH].rstrip("_")
    return safe if safe[:1].isalpha() else f"t{safe}"[:MAX_PART_LENGTH]
