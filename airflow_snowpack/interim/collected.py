"""What a pass of the collector found and did.

collected = collector.run(dry_run=True)
[str(doomed.table) for doomed in collected.dropped]
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.interim.refs import Producer


@dataclass(frozen=True, slots=True)
class DueRun:
    """A DAG run that is to be looked at.

    :param looks: how often it was looked at since something happened in it.
    :param touches: tells whether something was written about it meanwhile.
    """

    run_key: str
    dag_id: str
    run_id: str
    looks: int
    touches: int


@dataclass(frozen=True, slots=True)
class Doomed:
    """A table that nobody needs, held by the collector that drops it.

    :param location: its folder, as far as it is known.
    :param attempt_id: the fence.
    :param drops: how many tries to drop it were begun, this one counted.
    :param handed_on: whether it was ever complete, so that there has to be a table.
    """

    table_id: str
    table: TableName
    producer: Producer
    rows: int | None
    location: str | None
    run_key: str
    attempt_id: str
    drops: int
    handed_on: bool


@dataclass(frozen=True, slots=True)
class NotDropped:
    """A table whose drop failed; it is tried again."""

    table: Doomed
    error: str


@dataclass(frozen=True, slots=True)
class NotFound:
    """A table that nobody needs, and that there was nothing to drop of. It is on record no more."""

    table: Doomed
    why: str


@dataclass(frozen=True, slots=True)
class Collected:
    """What a pass did, or would do.

    :param runs: how many DAG runs it looked at.
    :param missing: tables that should have been in the catalog, and were not.
    :param kept: how many tables of theirs stay.
    :param looks_again_at: when the first of these runs is looked at next, if nothing happens before; ``None`` for never.
    """

    runs: int = 0
    dropped: tuple[Doomed, ...] = ()
    failed: tuple[NotDropped, ...] = ()
    kept: int = 0
    looks_again_at: datetime | None = None
    missing: tuple[NotFound, ...] = ()

    def __add__(self, other: Collected) -> Collected:
        moments = [moment for moment in (self.looks_again_at, other.looks_again_at) if moment is not None]
        return Collected(
            self.runs + other.runs,
            self.dropped + other.dropped,
            self.failed + other.failed,
            self.kept + other.kept,
            min(moments, default=None),
            self.missing + other.missing,
        )
