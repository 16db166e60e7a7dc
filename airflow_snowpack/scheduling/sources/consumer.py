"""A consumer of arrivals: a trigger, evaluated from the place up to which the consumer has considered everything.

    consumer = Consumer(store, "maintain.wait", PartitionsAdded("web.views", 5), catalog_name="lake")
    look = consumer.look("maintain/run1/wait", hook.load_table)
    if look.satisfied:
        consumer.consider("maintain/run1/wait", look)

The invariant: arrivals are considered by one owner after the other, each from where the last one ended. The place is a snapshot
for each table, a number of the event log, and a time only for ticks and periods, so that what was stamped before a look and
becomes visible after it is not skipped. A consumer begins at its first look, with each table at its head, without the table's
history. The store has where it began, and where it first saw a table that its trigger got later.

The owner that considered last may look again after its task was retried or cleared, and counts from where it began the first
time, since its work may not be done. Once another owner has considered, that place is gone.

    watched = WatchedTable(store, "lake/web.views", TableName("lake", "web", "views"))
    for arrival in watched.read(hook.load_table(name)).new:
        ...                     # publish it
        watched.advance(arrival.place)  # once the receiver has stored it

The place of a watcher moves only past what was published. After a crash the same arrivals are read again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_snowpack.iceberg.arrivals import Arrival, Arrivals, HistoryPlace, head_of, read_arrivals
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.scheduling.events.counting import progress_of
from airflow_snowpack.scheduling.events.event_log import Event, last_number
from airflow_snowpack.scheduling.sources.source import tables_of
from airflow_snowpack.scheduling.triggers.trigger import ALL_CHANGES, TABLES, Clock, Judgement, Leaf, Trigger, table_key
from airflow_snowpack.store import Store
from airflow_snowpack.store.dialect import insert, upsert
from airflow_snowpack.store.tables.schedules import considered, events

if TYPE_CHECKING:
    from pyiceberg.table import Table

START = HistoryPlace(None, 0, None)
NO_OWNER = ""
"""The owner of the place where a consumer began, up to which nothing has been considered."""
WATCHER = "watcher"
"""The owner of the place of a watcher."""


@dataclass(frozen=True, slots=True)
class Look:
    """What has arrived since this consumer considered last.

    :param judgement: of the trigger.
    :param since: where the counting began, and ``upto``: where it would begin next; in the form of the store.
    :param amounts: what arrived, by table: ``partitions``, ``files``, ``records``, ``bytes``, ``commits``. A table whose changes
        the trigger counts is there a second time with them, as ``….table:changes``.
    :param was: when an owner had considered last, at the time of this look; ``None`` for never.
    """

    judgement: Judgement
    since: Mapping[str, Any]
    upto: Mapping[str, Any]
    amounts: Mapping[str, Mapping[str, int]]
    was: datetime | None

    @property
    def satisfied(self) -> bool:
        return self.judgement.satisfied


@dataclass(frozen=True, slots=True)
class Kept:
    """What the store has for one look.

    :param row: the consumer's place.
    :param last: the number of the newest event of the log.
    :param events: those of its leaves that listen to events, since the place of its owner.
    :param begins: whether this look is its first.
    """

    owner: str
    row: sa.Row[Any]
    last: int
    events: Mapping[Leaf, list[Event]]
    begins: bool


class Consumer:
    """Counts for one consumer.

    :param name: of the consumer in the store; two with one name share one place.
    :param began_at: since when time and events count for a consumer that never looked; ``None`` for its first look.
    """

    def __init__(self, store: Store, name: str, trigger: Trigger, *, catalog_name: str, began_at: datetime | None = None) -> None:
        self.name = name
        self.store = store
        self._trigger = trigger
        self._began_at = began_at
        self._keys = {leaf: leaf.event_key(catalog_name, "", number) for number, leaf in enumerate(trigger.leaves())}
        self._tables = {table_key(name): name for name in tables_of(trigger, catalog_name)}
        others = ((leaf, key) for leaf, key in self._keys.items() if key.removesuffix(ALL_CHANGES) not in self._tables)
        self._event_keys = {leaf: key for leaf, key in others if leaf.clock is None}
        self._read: dict[str, tuple[HistoryPlace, int | None, Arrivals]] = {}

    def look(self, owner: str, load: Callable[[TableName], Table]) -> Look:
        """Return what has arrived for this owner.

        :param load: opens a table.
        :raises TableNotFound, CatalogUnreachable: from ``load``.
        """
        kept = self.read(owner, read_places(self.store, [self.name]))
        return self.judge(kept, {name: load(name) for name in self._tables.values()})

    def judge(self, kept: Kept, tables: Mapping[TableName, Table]) -> Look:
        """Return what :meth:`look` does, from what was read for several consumers together.

        :param kept: from :meth:`read`.
        :param tables: those of its trigger, as they are now.
        """
        now, row, owner = self.store.clock(), self._begin_at_heads(kept, tables), kept.owner
        since = self._since(row, owner)
        places = since.get("tables", {})
        arrivals = {
            key: self._arrivals_of(key, tables[name], place_from_json(places.get(key))) for key, name in self._tables.items()
        }
        deadlines = _deadlines(self._keys, since, considered_before=row.owner != NO_OWNER)
        since |= _deadlines_to_json(deadlines)
        next_deadlines = {leaf: leaf.next_after(max(end, now)) for leaf, end in deadlines.items()}
        happened = {leaf: self._happened(leaf, key, arrivals, since, now, kept) for leaf, key in self._keys.items()}
        happened |= {leaf: [Event(self._keys[leaf], end)] if end <= now else [] for leaf, end in deadlines.items()}
        progress = {leaf: progress_of(leaf, each) for leaf, each in happened.items() if each}
        heads = {key: place_to_json(found.head) for key, found in arrivals.items()}
        return Look(
            judgement=self._trigger.evaluate(progress, now),
            since=since,
            upto={"at": now.isoformat(), "events": kept.last, "tables": heads, **_deadlines_to_json(next_deadlines)},
            amounts={
                key.removeprefix(TABLES): _amounts(found)
                for key in (*arrivals, *self._keys.values())
                if (found := _counted(key, arrivals)) is not None
            },
            # Of the row that the events were read for, so that an owner that has considered since then is noticed.
            was=None if kept.row.owner == NO_OWNER else kept.row.changed_at,
        )

    def consider(self, owner: str, look: Look) -> bool:
        """Record that a look was considered.

        :returns: ``False`` when another owner was faster; look again then.
        """

        def write(conn: sa.Connection) -> bool:
            row = conn.execute(self._mine().with_for_update()).first()
            if row is not None and row.owner != NO_OWNER and row.changed_at != look.was:
                return bool(row.owner == owner and row.upto == look.upto)
            values = {"owner": owner, "since": look.since, "upto": look.upto, "changed_at": self.store.clock()}
            statement = insert(considered).on_conflict_do_nothing() if row is None else upsert(considered, values)
            statement = statement.values(consumer=self.name, **values)
            return conn.execute(statement.returning(considered.c.consumer)).first() is not None

        return self.store.transact(write)

    def read(self, owner: str, places: Places) -> Kept:
        """Read what the store has for a look of this owner.

        :param places: from :func:`read_places`, for several consumers together.
        """
        known = places.rows.get(self.name)
        row = known or self._begin()
        since = self._since(row, owner)
        happened = {leaf: self._events_of(key, since["events"], places.last) for leaf, key in self._event_keys.items()}
        return Kept(owner, row, places.last, happened, begins=known is None)

    def _begin(self) -> sa.Row[Any]:
        """Store where this consumer begins, unless it has a place, and return its row."""
        began_at = self._began_at or self.store.clock()
        begun = {"at": began_at.isoformat(), "events": self._number_at(began_at), "tables": {}}
        values = {"owner": NO_OWNER, "since": begun, "upto": begun, "changed_at": self.store.clock()}
        statement = insert(considered).values(consumer=self.name, **values).on_conflict_do_nothing().returning(considered)
        row = self.store.transact(lambda conn: conn.execute(statement).first())
        return row or self.store.read(lambda conn: conn.execute(self._mine()).one())

    def _events_of(self, key: str, after: int, last: int) -> list[Event]:
        """Return the events of a key after one number and up to another."""
        query = sa.select(events.c.at, events.c.amounts, events.c.detail)
        query = query.where(events.c.key == key, events.c.id > after, events.c.id <= last)
        return [Event(key, row.at, row.amounts, row.detail) for row in self.store.all(query)]

    def _since(self, row: sa.Row[Any], owner: str) -> dict[str, Any]:
        """Return where the counting begins for an owner."""
        return dict(row.since if row.owner == owner else row.upto)

    def _begin_at_heads(self, kept: Kept, tables: Mapping[TableName, Table]) -> sa.Row[Any]:
        """Store the head of each table that this consumer sees for the first time; nothing before it counts.

        Where the first look found no table or no catalog, what was committed after that look counts, by the clocks of the
        writers. A place without ``tables`` is of an earlier release, in which a consumer began with the whole table; it counts
        on.
        """
        row = kept.row
        if all(key in place.get("tables", self._tables) for place in (row.since, row.upto) for key in self._tables):
            return row
        has_failed = not kept.begins and row.owner == NO_OWNER and not row.since.get("tables")
        began_at = HistoryPlace.at(datetime.fromisoformat(row.since["at"]))
        heads = {key: place_to_json(began_at if has_failed else head_of(tables[name])) for key, name in self._tables.items()}

        def write(conn: sa.Connection) -> sa.Row[Any]:
            now = conn.execute(self._mine().with_for_update()).one()
            begun = {
                name: {**place, "tables": {**heads, **place["tables"]}} if "tables" in place else place
                for name, place in (("since", now.since), ("upto", now.upto))
            }
            mine = considered.c.consumer == self.name
            return conn.execute(sa.update(considered).where(mine).values(begun).returning(considered)).one()

        return self.store.transact(write)

    def _number_at(self, moment: datetime) -> int:
        """Return the number of the last event that was recorded by this time."""
        query = sa.select(sa.func.max(events.c.id)).where(events.c.recorded_at <= moment)
        return int(self.store.scalar(query) or 0)

    def _mine(self) -> Any:
        return sa.select(considered).where(considered.c.consumer == self.name)

    def _arrivals_of(self, key: str, table: Table, place: HistoryPlace) -> Arrivals:
        """Return what arrived in one table; its manifests are read again only when its head has changed."""
        snapshot = table.current_snapshot()
        head = None if snapshot is None else snapshot.snapshot_id
        known = self._read.get(key)
        if known is None or known[:2] != (place, head):
            known = self._read[key] = (place, head, read_arrivals(table, place))
        return known[2]

    def _happened(
        self, leaf: Leaf, key: str, arrivals: Mapping[str, Arrivals], since: Mapping[str, Any], now: datetime, kept: Kept
    ) -> list[Event]:
        """Return the events of one leaf."""
        start = datetime.fromisoformat(since["at"])
        if (new := _counted(key, arrivals)) is not None:
            return [Event(key, min(one.arrived_at, now), one.to_amounts(), {"partitions": one.partitions}) for one in new]
        if leaf.clock is not None:
            tick = leaf.clock.next_after(start)
            return [Event(key, tick if leaf.clock.fixed else now)] if tick <= now else []
        return kept.events[leaf]


@dataclass(frozen=True, slots=True)
class Places:
    """The places of consumers, and the number of the newest event of the log."""

    rows: Mapping[str, sa.Row[Any]]
    last: int


def read_places(store: Store, consumers: Collection[str]) -> Places:
    """Return the places of several consumers, by their names, in one statement; those that have none yet are left out."""
    last = store.read(last_number)
    rows = store.all_by_key(sa.select(considered), considered.c.consumer, consumers)
    return Places({row.consumer: row for row in rows}, last)


def _deadlines(leaves: Iterable[Leaf], since: Mapping[str, Any], *, considered_before: bool) -> dict[Clock, datetime]:
    """Return the ends of the present periods, by deadline."""
    kept, start = since.get("deadlines", {}), datetime.fromisoformat(since["at"])
    ends = {}
    for deadline in [leaf.clock for leaf in leaves if leaf.clock is not None and leaf.clock.is_deadline]:
        if (end := kept.get(_stored(deadline))) is not None:
            ends[deadline] = datetime.fromisoformat(end)
        else:  # the first look, or the first since the trigger has this deadline
            first = deadline.next_after(start)
            ends[deadline] = deadline.next_after(first) if considered_before else first
    return ends


def _deadlines_to_json(ends: Mapping[Clock, datetime]) -> dict[str, Any]:
    return {"deadlines": {_stored(leaf): end.isoformat() for leaf, end in ends.items()}} if ends else {}


def _stored(deadline: Clock) -> str:
    """Return the name of a deadline in a stored place."""
    return " ".join(str(value) for value in deadline.values)


def _counted(key: str, arrivals: Mapping[str, Arrivals]) -> tuple[Arrival, ...] | None:
    """Return what the leaves of a key count, if it is one of a table."""
    found = arrivals.get(key.removesuffix(ALL_CHANGES))
    return None if found is None else found.changes if key.endswith(ALL_CHANGES) else found.new


def _amounts(found: Collection[Arrival]) -> dict[str, int]:
    total = {"partitions": len({name for one in found for name in one.partitions}), "commits": len(found)}
    return total | {what: sum(one.to_amounts()[what] for one in found) for what in ("files", "records", "bytes")}


def place_to_json(place: HistoryPlace) -> dict[str, Any]:
    """Return a place in the form of the store."""
    return asdict(place) | {"committed_at": None if place.committed_at is None else place.committed_at.isoformat()}


def place_from_json(stored: Mapping[str, Any] | None) -> HistoryPlace:
    """Read a place from the form of the store; ``None`` is the beginning of the table."""
    if stored is None:
        return START
    at = stored["committed_at"]
    moment = None if at is None else datetime.fromisoformat(at)
    return HistoryPlace(**{**stored, "committed_at": moment, "other_heads": tuple(stored["other_heads"])})


class WatchedTable:
    """One watcher's place in one table.

    :param watcher: the name of the watcher; each has its own place.
    """

    def __init__(self, store: Store, watcher: str, name: TableName) -> None:
        self._store = store
        self._consumer = f"watcher:{watcher}:{name}"
        self._passed: HistoryPlace | None = None

    def read(self, table: Table) -> Arrivals:
        """Return what arrived since the last read of this object; the first time, since the stored place.

        A new watcher begins at the table's head.

        :param table: as it is now.
        """
        place = self._passed or self._kept()
        if place is None:
            place = head_of(table)
            self._keep(place, if_new=True)
        found = read_arrivals(table, place)
        self._passed = found.head
        return found

    def advance(self, upto: HistoryPlace) -> None:
        """Store that everything up to here was published."""
        self._keep(upto)

    def _kept(self) -> HistoryPlace | None:
        query = sa.select(considered.c.upto).where(considered.c.consumer == self._consumer)
        kept = self._store.scalar(query)
        return None if kept is None else place_from_json(kept["place"])

    def _keep(self, place: HistoryPlace, *, if_new: bool = False) -> None:
        values: dict[str, Any] = {"since": {}, "upto": {"place": place_to_json(place)}, "changed_at": self._store.clock()}
        statement = insert(considered).on_conflict_do_nothing() if if_new else upsert(considered, values)
        self._store.execute(statement.values(consumer=self._consumer, owner=WATCHER, **values))
