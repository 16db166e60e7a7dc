"""The score of a table: one number from 0 (sick) to 100 (healthy), and the parts that it is the sum of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_snowpack.iceberg.health.model import TableHealth


@dataclass(frozen=True, slots=True)
class ScorePart:
    """One part of a score.

    :param name: ``file_sizes``, ``deletes``, ``manifests`` or ``snapshots``.
    :param points: what the table gets, from 0 to ``of``.
    :param of: what a healthy table gets.
    :param evidence: the numbers behind it, as a sentence without a full stop.
    """

    name: str
    points: int
    of: int
    evidence: str


@dataclass(frozen=True, slots=True)
class Score:
    """A table's score, from 0 (sick) to 100 (healthy); the sum of its parts."""

    total: int
    parts: tuple[ScorePart, ...]


def score(health: TableHealth) -> Score:
    """Score the health of a table."""
    raise NotImplementedError
