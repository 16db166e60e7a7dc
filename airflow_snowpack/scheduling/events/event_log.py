"""The event log: each event once, numbered in an order that all readers agree on.

    log = EventLog(store)
    log.publish([Event("table:lake.db.t", at, {"partitions": 2, "bytes": 4_000}, source_id="snapshot:lake.db.t:8271")])

The invariant: an event's number is larger than that of every event visible when it was written, because publishing transactions
take turns. A cursor that has passed a number therefore never misses an event below it.

    send_event(store, Actor("vera", "api"), "orders_closed", {"records": 900}, source_id="2026-11-21")

Events that users and other systems send have separate keys (``event:<name>``): a sender cannot forge a commit or the end of a
run. A ``source_id`` under a name is one event, however often it is sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.declared import parse_text
from airflow_snowpack.scheduling.errors import InvalidEvent
from airflow_snowpack.scheduling.triggers.trigger import custom_key
from airflow_snowpack.store import Actor, Store, new_id, storable, write_audit
from airflow_snowpack.store.dialect import insert, row_mapper
from airflow_snowpack.store.tables.schedules import event_cursors, events

CURSOR = "subscriber"
"""The name of the cursor of matched events."""
MATCHED_TO = sa.func.coalesce(sa.select(event_cursors.c.position).where(event_cursors.c.name == CURSOR).scalar_subquery(), 0)
"""The number of the last matched event."""

MAX_KEY = 1_000
AHEAD = timedelta(hours=1)
"""How far ahead a sender's clock may be; an event beyond that would delay everything that counts from it."""
NUMBERING = "SELECT pg_advisory_xact_lock(hashtext('airflow_snowpack_events'))"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened.

    :param key: by which triggers find it.
    :param at: when it happened. A time more than :data:`AHEAD` in the future is recorded as now.
    :param amounts: by measure: ``partitions``, ``files``, ``records``, ``bytes``.
    :param detail: for display and for the run that it starts; ``partitions`` names partitions, so that each counts once.
    :param source_id: the source's id of the event; events with the same id are one event.
    """

    key: str
    at: datetime
    amounts: Mapping[str, int] = field(default_factory=dict)
    detail: Mapping[str, Any] = field(default_factory=dict)
    source_id: str | None = None


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    id: int
    event: Event
    recorded_at: datetime


class EventLog:
    def __init__(self, store: Store) -> None:
        self._store = store

    def publish(self, happened: Iterable[Event]) -> int:
        """Record events, except those recorded before; return how many were new.

        :raises InvalidEvent: an event cannot be recorded; then none was.
        """
        # Ids are assigned before the first try: a repeat after a successful try whose answer was lost adds nothing.
        batch = [event if event.source_id is not None else replace(event, source_id=f"once:{new_id()}") for event in happened]
        return self._store.transact(lambda conn: publish(conn, self._store, batch))

    def latest(self, key: str | None = None, *, before: int | None = None, limit: int = 100) -> list[RecordedEvent]:
        """Return events, newest first; for the next page only those below the number ``before``."""
        query = sa.select(events).order_by(events.c.id.desc()).limit(limit)
        query = query if key is None else query.where(events.c.key == key)
        query = query if before is None else query.where(events.c.id < before)
        return [_event_from(row) for row in self._store.all(query)]


def publish(conn: sa.Connection, store: Store, batch: Iterable[Event]) -> int:
    """Record events in the caller's transaction, as :meth:`EventLog.publish`."""
    rows = [_row(event, store.clock()) for event in batch]
    if not rows:
        return 0
    number_in_turn(conn)
    before = last_number(conn)
    conn.execute(insert(events).on_conflict_do_nothing(index_elements=["source_id"]), rows)
    return conn.execute(sa.select(sa.func.count()).where(events.c.id > before)).scalar_one()


def number_in_turn(conn: sa.Connection) -> None:
    """Make other publishers wait until this transaction ends. SQLite has one writer at a time anyway."""
    if conn.dialect.name == "postgresql":
        conn.exec_driver_sql(NUMBERING)


def last_number(conn: sa.Connection) -> int:
    """Return the number of the newest event; exact after :func:`number_in_turn`."""
    return int(conn.execute(sa.select(sa.func.max(events.c.id))).scalar() or 0)


@dataclass(frozen=True, slots=True)
class Backlog:
    """How far matching is behind the log.

    :param newest: the number of the newest event; only grows.
    :param taken: the number of the last matched event.
    :param unread: the number of unmatched events; ``oldest``: when the first of them was recorded.
    """

    newest: int
    taken: int
    unread: int
    oldest: datetime | None


def read_backlog(store: Store) -> Backlog:
    unread = sa.select(sa.func.count(), sa.func.min(events.c.recorded_at)).where(events.c.id > MATCHED_TO).subquery()
    newest = sa.select(sa.func.max(events.c.id)).scalar_subquery()
    row: Any = store.first(sa.select(sa.func.coalesce(newest, 0), MATCHED_TO, unread))
    return Backlog(*row)


def _row(event: Event, now: datetime) -> dict[str, Any]:
    if not event.key or len(event.key) > MAX_KEY or storable(event.key) != event.key:
        raise InvalidEvent(f"The event key {event.key[:80]!r} is not valid: it must have 1 to {MAX_KEY} characters and no NUL.")
    if event.source_id is not None and (storable(event.source_id) != event.source_id or len(event.source_id) > 2 * MAX_KEY):
        raise InvalidEvent(
            f"The event {event.key} has an invalid source id: it must have at most {2 * MAX_KEY} characters and no NUL."
        )
    if event.at.tzinfo is None:
        raise InvalidEvent(f"The event {event.key} has a time without a zone, {event.at}. Use an aware datetime, such as in UTC.")
    wrong = [
        name for name, amount in event.amounts.items() if isinstance(amount, bool) or not isinstance(amount, int) or amount < 0
    ]
    if wrong:
        raise InvalidEvent(f"The event {event.key} has amounts that are not whole numbers of 0 or more: {', '.join(wrong)}.")
    named = event.detail.get("partitions", [])
    if not isinstance(named, list | tuple) or not all(isinstance(name, str) for name in named):
        raise InvalidEvent(f"The event {event.key} has `partitions` that are not a list of names: {named!r:.80}.")
    _check_json(event)
    return {
        "key": event.key,
        "source_id": event.source_id,
        "at": event.at if event.at <= now + AHEAD else now,
        "recorded_at": now,
        "amounts": dict(event.amounts),
        "detail": dict(event.detail),
    }


def _check_json(event: Event) -> None:
    try:
        text = json.dumps([dict(event.amounts), dict(event.detail)], allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEvent(f"The event {event.key} has amounts or details that are not JSON ({error}).") from error
    if "\\u0000" in text or storable(text) != text:
        raise InvalidEvent(
            f"The event {event.key} has a NUL or half of a surrogate pair in its details, which no database stores."
        )


_event_from = row_mapper(RecordedEvent, event=row_mapper(Event))


@dataclass(frozen=True, slots=True)
class Sent:
    """The event in the log; ``again`` if it had been sent and recorded before."""

    recorded: RecordedEvent
    again: bool


def send_event(
    store: Store,
    actor: Actor,
    name: str,
    amounts: Mapping[str, int] | None = None,
    detail: Mapping[str, Any] | None = None,
    *,
    source_id: str | None = None,
    at: datetime | None = None,
) -> Sent:
    """Record an event that :class:`CustomEvents` of this name count.

    :param source_id: the sender's id of the event.
    :param at: when it happened, not later than now; ``None`` for now.
    :raises InvalidEvent: a value is invalid.
    """
    now = store.clock()
    try:
        parse_text(name)
        if source_id is not None:
            parse_text(source_id)
    except ValueError as error:
        raise InvalidEvent(
            f"The event {name!r:.80} is not valid: its name and its source id must each have 1 to 500 characters and no NUL."
        ) from error
    if at is not None and at > now:
        raise InvalidEvent(f"The event {name!r:.80} has a time in the future, {at.isoformat()}. Use a time up to now.")
    # Colons in the name are escaped, so that no two pairs of name and source id have the same text.
    marked = name.replace("%", "%%").replace(":", "%:")
    known_by = f"sent:{marked}:{source_id}" if source_id is not None else f"sent-once:{new_id()}"
    event = Event(custom_key(name), at or now, amounts or {}, detail or {}, known_by)

    def write(conn: sa.Connection) -> Sent:
        again = not publish(conn, store, [event])
        recorded = _event_from(conn.execute(sa.select(events).where(events.c.source_id == known_by)).one())
        if not again:
            write_audit(conn, store, actor, "send_event", event.key, event_id=recorded.id, amounts=dict(event.amounts))
        return Sent(recorded, again)

    return store.transact(write)
