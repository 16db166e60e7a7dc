"""Sources of other distributions: what the poller reads beside tables, for triggers that count its events.

    class Bucket(PolledSource):
        kind = "bucket"                  # an entry point of the group airflow_snowpack.trigger_sources has this name

        def read(self, key, place):      # of bucket:s3://drop/orders, since the place of the last read
            ...
            return happened, now

The invariant is that of the poller: two pollers, or one that was killed, neither repeat nor skip an event. The events of a read
are stored in batches, and the place moves with the last one. A second read from the same place returns the same events, which the
log already has: it knows them by their ``source_id`` or, without one, by their content and the time when the place was stored. A
source that hangs or fails delays no other.
"""

from __future__ import annotations

import json
import logging
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import Any, ClassVar, NamedTuple

import sqlalchemy as sa

from airflow_snowpack.entry_points import load_class
from airflow_snowpack.recurring import Recurring
from airflow_snowpack.scheduling.events.event_log import Event, number_in_turn, publish
from airflow_snowpack.scheduling.sources.source import added_sources, found_with, read_problems, record_problems
from airflow_snowpack.store import Store, StoreError
from airflow_snowpack.store.dialect import upsert
from airflow_snowpack.store.tables.schedules import considered, schedule_triggers
from airflow_snowpack.timed_calls import TimedCalls

log = logging.getLogger(__name__)

READ_LIMIT = timedelta(seconds=30)
"""How long one read may take."""
EVENTS_PER_TRANSACTION = 5_000
"""All other publishers of events wait for this transaction."""


class PolledSource:
    """A kind of source that the poller reads while enabled schedules listen to it. An object is made for each read.

    :cvar kind: the name of its entry point, with which the keys of its events begin: ``bucket`` for ``bucket:s3://drop/orders``.
    """

    kind: ClassVar[str]

    def read(self, key: str, place: Any) -> tuple[Iterable[Event], Any]:
        """Return what happened since a place, and the place where the next read begins.

        An exception is recorded as the problem of the source, and a later round reads again. The ``source_id`` of an event
        identifies it among those of its key. Without one, equal events of two reads from one stored place are one event.

        :param key: of the events, as the triggers' ``event_key`` returns it.
        :param place: what the last read returned: any JSON value. ``None``: this is the first read, which begins at the present.
        """
        raise NotImplementedError


class _Reading(NamedTuple):
    began_at: Any
    happened: list[Event]
    place: Any


class SourcePoller:
    """Reads the sources of other distributions that schedules listen to.

    :param every: how often each is read.
    :param patience: how long a step waits for reads; what takes longer is recorded by a later step. ``None``: up to
        :data:`READ_LIMIT`.
    """

    def __init__(self, store: Store, *, every: timedelta, patience: timedelta | None = None) -> None:
        self._store = store
        self._every = every
        self._patience = patience
        self._reads = TimedCalls[str, _Reading](lambda key: f"The source {key}", limit=READ_LIMIT, keeps_late=True)
        self._read_at: dict[str, datetime] = {}
        self._problems = defaultdict[str, Recurring](partial(Recurring, log))

    def step(self) -> int:
        """Read each due source once, and return the number of events that were published."""
        now, published = self._store.clock(), 0
        self._read_at = {key: at for key, at in self._read_at.items() if now - self._every < at <= now}
        due = [key for key in self._keys() if key not in self._read_at]
        if not due:
            return 0
        query = sa.select(considered.c.consumer, considered.c.upto, considered.c.changed_at)
        rows = self._store.all_by_key(query, considered.c.consumer, [_consumer(key) for key in due])
        places = {row.consumer: (row.upto["place"], row.changed_at) for row in rows}
        problems: dict[str, Exception | None] = {}
        for key, result in self._reads.run(
            {key: partial(_read, key, *places.get(_consumer(key), (None, None))) for key in due}, patience=self._patience
        ):
            self._read_at[key] = now
            problems[key] = result if isinstance(result, Exception) else None
            if isinstance(result, _Reading):
                try:
                    published += self._record(key, result)
                except StoreError:
                    raise
                except Exception as problem:  # noqa: BLE001 - such as an event without a time zone
                    problems[key] = problem
        self._note(problems, now)
        return published

    def _keys(self) -> list[str]:
        """Return the keys of these sources that schedules listen to."""
        key = schedule_triggers.c.event_key
        begins = [key.startswith(f"{kind}:", autoescape=True) for kind in sorted(added_sources())]
        return [row.event_key for row in self._store.all(sa.select(key).where(sa.or_(*begins)).distinct())] if begins else []

    def _record(self, key: str, reading: _Reading) -> int:
        """Publish what happened, and move the place with the last batch. Returns the number of events."""
        if reading.place == reading.began_at and not reading.happened:
            return 0
        values = {"owner": "poller", "since": {}, "upto": {"place": reading.place}, "changed_at": self._store.clock()}
        mine = sa.select(considered.c.upto).where(considered.c.consumer == _consumer(key))

        def write(conn: sa.Connection, start: int) -> int:
            number_in_turn(conn)  # another poller waits, and then sees that the place has moved
            if (conn.execute(mine).scalar() or {}).get("place") != reading.began_at:
                return 0
            end = start + EVENTS_PER_TRANSACTION
            if end >= len(reading.happened):
                conn.execute(upsert(considered, values).values(consumer=_consumer(key), **values))
            return publish(conn, self._store, reading.happened[start:end])

        starts = range(0, len(reading.happened) or 1, EVENTS_PER_TRANSACTION)
        return sum(self._store.transact(partial(write, start=start)) for start in starts)

    def _note(self, problems: dict[str, Exception | None], now: datetime) -> None:
        """Record why sources cannot be read, and which can be read again."""
        for key, problem in problems.items():
            if problem is None:
                self._problems[key].passed()
            else:
                self._problems[key].failed(problem, "source_not_polled: %s", key)
        found = {key: None if problem is None else found_with(problem, now) for key, problem in problems.items()}
        record_problems(self._store, found, self._store.read(lambda conn: read_problems(conn, found)))


def _consumer(key: str) -> str:
    """Return the name under which the store has the place of a source."""
    return f"poller:{key}"


def _read(key: str, place: Any, stored_at: datetime | None) -> _Reading:
    """Read a source from a place, which the store got at ``stored_at``.

    :raises ValueError: its class cannot be loaded, or it returned something else than events of its key and a JSON value.
    """
    source = load_class(added_sources()[key.partition(":")[0]], PolledSource, "kind")()
    returned, place_now = source.read(key, place)
    # Colons of the key are escaped, so that no ids of two sources give the same text.
    marked = key.replace("%", "%%").replace(":", "%:")
    happened, equal = [], Counter[str]()
    for event in returned:
        if not isinstance(event, Event):
            raise ValueError(f"it returned {event!r:.80}, which is not an Event")
        if event.key != key:
            raise ValueError(f"it returned an event of the key {event.key!r}")
        content = sha256(repr((stored_at, event)).encode("utf-8", "backslashreplace")).hexdigest()
        equal[content] += 1
        source_id = f"{content}:{equal[content]}" if event.source_id is None else f"{marked}:{event.source_id}"
        happened.append(replace(event, source_id=f"polled:{source_id}"))
    return _Reading(place, happened, _as_json(place_now))


def _as_json(place: Any) -> Any:
    """Return a place as the store will return it.

    :raises ValueError: it is not a JSON value.
    """
    try:
        return json.loads(json.dumps(place, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"it returned a place that is not a JSON value: {error}") from error
