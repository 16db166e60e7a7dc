"""Events that users and other systems send.

    sent = send_event(store, Actor("vera", "api"), "orders_closed", {"records": 900}, source_id="2026-11-21")
    sent.recorded.id, sent.again

They have keys of their own (``event:<name>``), so that a sender cannot forge a commit or the end of a run. The invariant: a
``source_id`` under a name is one event, however often it is sent; the event and its audit entry are one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.declared import parse_text
from airflow_snowpack.scheduling.errors import InvalidEvent
from airflow_snowpack.scheduling.events.event_log import Event, RecordedEvent, find_event, publish
from airflow_snowpack.scheduling.triggers.trigger import custom_key
from airflow_snowpack.store import Actor, Store, new_id, write_audit


@dataclass(frozen=True, slots=True)
class Sent:
    """The event in the log.

    :param again: it had been sent before, and was recorded then.
    """

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

    :param source_id: the sender's own id of the event.
    :param at: when it happened, not later than now; ``None`` for now.
    :raises InvalidEvent: a value is not valid.
    """
    event = _event(name, amounts or {}, detail or {}, source_id, at, store.clock())

    def write(conn: sa.Connection) -> Sent:
        assert event.source_id is not None, "it was given one"
        again = not publish(conn, store, [event])
        recorded = find_event(conn, event.source_id)
        assert recorded is not None, "it is recorded now, if it was not before"
        if not again:
            write_audit(conn, store, actor, "send_event", event.key, event_id=recorded.id, amounts=dict(event.amounts))
        return Sent(recorded, again)

    return store.transact(write)


def _event(
    name: str,
    amounts: Mapping[str, int],
    detail: Mapping[str, Any],
    source_id: str | None,
    at: datetime | None,
    now: datetime,
) -> Event:
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
    # Colons of the name are escaped, so that no other name and source id give the same text.
    marked = name.replace("%", "%%").replace(":", "%:")
    known_by = f"sent:{marked}:{source_id}" if source_id is not None else f"sent-once:{new_id()}"
    return Event(custom_key(name), at or now, amounts, detail, known_by)
