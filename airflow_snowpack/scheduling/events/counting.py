"""Adds up the events of pending runs incrementally."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.events.event_log import Event
from airflow_snowpack.scheduling.schedule import Schedule
from airflow_snowpack.scheduling.triggers.trigger import Leaf, Progress
from airflow_snowpack.store.tables.schedules import events, pending_events, pending_jobs

LISTED_EVENTS = 100
"""The most events that the conf of a run lists; it always has their number."""

KEYS_PER_STATEMENT = 5_000
NOTHING: Mapping[str, Any] = {"events": 0, "amount": 0, "first_at": None, "last_at": None}

EVENTS_OF_RUNS = (
    sa.select(pending_events.c.pending_id, pending_events.c.leaf, events.c.id, events.c.at, events.c.amounts, events.c.detail)
    .select_from(pending_events)
    .join(events, events.c.id == pending_events.c.event_id)
    .order_by(events.c.id)
)


@dataclass(slots=True)
class Counted:
    """The sums of each leaf, and the number of the last event in them."""

    leaves: tuple[Leaf, ...]
    sums: dict[str, dict[str, Any]]
    upto: int

    @property
    def progress(self) -> dict[Leaf, Progress]:
        return {
            leaf: _progress(leaf, known)
            for number, leaf in enumerate(self.leaves)
            if (known := self.sums.get(str(number))) is not None
        }

    def to_row(self) -> Mapping[str, Any]:
        """Return the columns that store it."""
        return {"progress": self.sums, "counted_to": self.upto}


def count_events(conn: sa.Connection, row: sa.Row[Any], schedule: Schedule) -> Counted:
    """Add the events of a pending run, locked by the caller, since its last sum."""
    mine = sa.and_(pending_events.c.pending_id == row.pending_id, pending_events.c.event_id > row.counted_to)
    return _add_up(row.progress, row.counted_to, schedule, conn.execute(EVENTS_OF_RUNS.where(mine)).all())


def count_all(conn: sa.Connection, pending_id: str, schedule: Schedule, *, before: datetime | None = None) -> Counted:
    """Count the events of a pending run from the beginning, or only those recorded before a time."""
    query = EVENTS_OF_RUNS.where(pending_events.c.pending_id == pending_id)
    query = query if before is None else query.where(events.c.recorded_at < before)
    return _add_up({}, 0, schedule, conn.execute(query).all())


def count_each(conn: sa.Connection, jobs: Sequence[tuple[sa.Row[Any], Schedule]]) -> list[Counted]:
    """Add the events since the last sum for several pending runs, locked by the caller, in one statement."""
    new = EVENTS_OF_RUNS.join(pending_jobs, pending_jobs.c.pending_id == pending_events.c.pending_id).where(
        pending_jobs.c.pending_id.in_([row.pending_id for row, _ in jobs]), pending_events.c.event_id > pending_jobs.c.counted_to
    )
    matched: dict[str, list[Any]] = {row.pending_id: [] for row, _ in jobs}
    for event in conn.execute(new):
        matched[event.pending_id].append(event)
    return [_add_up(row.progress, row.counted_to, schedule, matched[row.pending_id]) for row, schedule in jobs]


def _add_up(progress: Mapping[str, Any], counted_to: int, schedule: Schedule, matched: Iterable[Any]) -> Counted:
    leaves = schedule.trigger.leaves()
    counted = Counted(leaves, {leaf: dict(sums) for leaf, sums in progress.items()}, counted_to)
    names: dict[str, set[str]] = {leaf: set(sums.get("names", ())) for leaf, sums in counted.sums.items()}
    for event in matched:
        leaf = str(event.leaf)
        sums = counted.sums.setdefault(leaf, dict(NOTHING))
        _add(sums, names.setdefault(leaf, set()), leaves[event.leaf], event)
        counted.upto = event.id
    for leaf, named in names.items():
        if named:
            counted.sums[leaf]["names"] = sorted(named)
    return counted


def missing_inputs(schedule: Schedule, progress: Mapping[Leaf, Progress], now: datetime) -> list[dict[str, Any]]:
    """Return what was missing when a deadline started a run, for its conf."""
    missing = [(trigger, trigger.evaluate(progress, now)) for trigger in schedule.trigger.missing(progress, now)]
    return [{"trigger": lacks.to_json(), "says": one.text, "have": one.have, "want": one.want} for lacks, one in missing]


def listed_events(conn: sa.Connection, pending_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the number and the newest events of each run, for its conf, in at least two statements."""
    mine = pending_events.c.pending_id.in_(pending_ids)
    matched = sa.select(pending_events.c.pending_id, pending_events.c.event_id).where(mine).distinct().subquery()
    of_job = matched.c.pending_id
    ranked = sa.select(
        matched.c.pending_id,
        matched.c.event_id,
        sa.func.row_number().over(partition_by=of_job, order_by=matched.c.event_id.desc()).label("place"),
        sa.func.count().over(partition_by=of_job).label("total"),
    ).subquery()
    newest = conn.execute(sa.select(ranked).where(ranked.c.place <= LISTED_EVENTS).order_by(ranked.c.event_id)).all()
    read = _read_events(conn, sorted({row.event_id for row in newest}))
    listed: dict[str, dict[str, Any]] = {pending_id: {"event_count": 0, "events": []} for pending_id in pending_ids}
    for row in newest:
        listed[row.pending_id]["event_count"] = row.total
        if row.event_id in read:
            listed[row.pending_id]["events"].append(read[row.event_id])
    return listed


def _read_events(conn: sa.Connection, ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    found = {}
    for start in range(0, len(ids), KEYS_PER_STATEMENT):
        for event in conn.execute(sa.select(events).where(events.c.id.in_(ids[start : start + KEYS_PER_STATEMENT]))):
            at = event.at.isoformat()
            found[event.id] = {"id": event.id, "key": event.key, "at": at, "amounts": event.amounts, "detail": event.detail}
    return found


def _add(sums: dict[str, Any], names: set[str], leaf: Leaf, event: Any) -> None:
    at, measure = event.at.isoformat(), leaf.measure
    sums["events"] += 1
    sums["first_at"] = min(sums["first_at"] or at, at)
    sums["last_at"] = max(sums["last_at"] or at, at)
    if measure != "events":
        named = event.detail.get("partitions", ()) if measure == "partitions" else ()
        names.update(named)
        # An event names only some of its partitions, or none: the others all count as new.
        sums["amount"] += max(0, event.amounts.get(measure, 0) - len(named))
    if "reached_at" not in sums and _amount(leaf, sums, names) >= leaf.wanted:
        sums["reached_at"] = sums["last_at"]  # events may be recorded out of order: all of these had happened by then


def progress_of(leaf: Leaf, happened: Iterable[Event]) -> Progress:
    """Return the sum of some events of a leaf."""
    sums, names = dict(NOTHING), set[str]()
    for event in happened:
        _add(sums, names, leaf, event)
    return _progress(leaf, sums | {"names": names})


def _progress(leaf: Leaf, sums: Mapping[str, Any]) -> Progress:
    moments = (sums.get(name) for name in ("first_at", "last_at", "reached_at"))
    amount = _amount(leaf, sums, sums.get("names", ()))
    return Progress(amount, *(None if moment is None else datetime.fromisoformat(moment) for moment in moments))


def _amount(leaf: Leaf, sums: Mapping[str, Any], names: Collection[str]) -> int:
    return int(sums["events"] if leaf.measure == "events" else sums["amount"] + len(names))
