"""A consumer of what arrives: the triggers of schedules, judged from the place up to which it has considered everything.

    consumer = Consumer(store, "maintain.wait", PartitionsAdded("web.views", 5), catalog_name="lake", load_catalog=config.load)
    look = consumer.look("maintain/run1/wait")
    if look.satisfied:
        consumer.consider("maintain/run1/wait", look)

The invariant: what arrives is considered by one owner after the other, each from where the one before ended. Whoever asks again
under the same name, since his task was retried or cleared, counts from where he began the first time: his work may not have been
done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from airflow_snowpack.iceberg.arrivals import Arrivals, Place, read_arrivals
from airflow_snowpack.iceberg.catalog import load_table
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.scheduling.cron import next_tick
from airflow_snowpack.scheduling.events import Event
from airflow_snowpack.scheduling.leaves import Cron, Every
from airflow_snowpack.scheduling.trigger import Judgement, Leaf, Progress, Trigger, table_key
from airflow_snowpack.store import Store
from airflow_snowpack.store.schedule_tables import considered, events

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

TABLES = table_key(TableName("c", "d", "t")).removesuffix("c.d.t")
START = Place(None, 0, None)


@dataclass(frozen=True, slots=True)
class Look:
    """What has arrived since this consumer considered last.

    :param judgement: what the trigger is worth.
    :param since: where the counting began, and ``upto``: where it would begin next; as the store keeps them.
    :param amounts: what arrived, by table: ``partitions``, ``files``, ``records``, ``bytes``, ``commits``.
    :param was: when somebody considered last, at the time of this look.
    """

    judgement: Judgement
    since: Mapping[str, Any]
    upto: Mapping[str, Any]
    amounts: Mapping[str, Mapping[str, int]]
    was: datetime | None

    @property
    def satisfied(self) -> bool:
        return self.judgement.satisfied


class Consumer:
    """Counts for one consumer.

    :param name: what the consumer is called in the store; two with one name share one place.
    :param began_at: since when time counts for a consumer that has never considered anything; ``None`` for the first look.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        trigger: Trigger,
        *,
        catalog_name: str,
        load_catalog: Callable[[], Catalog],
        began_at: datetime | None = None,
    ) -> None:
        self._store = store
        self._name = name
        self._trigger = trigger
        self._catalog_name = catalog_name
        self._load_catalog = load_catalog
        self._began_at = began_at
        self._read: dict[str, tuple[Place, int | None, Arrivals]] = {}

    def look(self, owner: str) -> Look:
        """What there is for this owner.

        :raises TableNotFound, CatalogUnreachable: from the catalog.
        """
        now = self._store.clock()
        self._began_at = self._began_at or now
        row = self._store.read(lambda conn: conn.execute(self._mine()).first())
        since: dict[str, Any] = {} if row is None else dict(row.since if row.owner == owner else row.upto)
        start = datetime.fromisoformat(since["at"]) if "at" in since else self._began_at
        keys = {leaf: leaf.event_key(self._catalog_name, "", number) for number, leaf in enumerate(self._trigger.leaves())}
        arrivals = self._arrivals({key for key in keys.values() if key.startswith(TABLES)}, since.get("tables", {}))
        happened = {leaf: self._happened(leaf, key, arrivals, start, now) for leaf, key in keys.items()}
        progress = {leaf: _progress(leaf, each) for leaf, each in happened.items() if each}
        heads = {key: place_to_json(found.head) for key, found in arrivals.items()}
        return Look(
            judgement=self._trigger.judge(progress, now),
            since=since,
            upto={"at": now.isoformat(), "tables": heads},
            amounts={key.removeprefix(TABLES): _amounts(found) for key, found in arrivals.items()},
            was=None if row is None else row.changed_at,
        )

    def consider(self, owner: str, look: Look) -> bool:
        """Take what was seen for considered.

        :returns: ``False`` when another owner was faster: then look again.
        """

        def write(conn: sa.Connection) -> bool:
            row = conn.execute(self._mine().with_for_update()).first()
            if row is not None and (look.was is None or row.changed_at != look.was):
                return bool(row.owner == owner and row.upto == look.upto)
            insert = postgresql.insert if self._store.is_postgres else sqlite.insert
            values = {"owner": owner, "since": look.since, "upto": look.upto, "changed_at": self._store.clock()}
            statement = insert(considered).values(consumer=self._name, **values)
            if row is not None:
                statement = statement.on_conflict_do_update(index_elements=["consumer"], set_=values)
            else:
                statement = statement.on_conflict_do_nothing()
            return conn.execute(statement.returning(considered.c.consumer)).first() is not None

        return self._store.transact(write)

    def _mine(self) -> Any:
        return sa.select(considered).where(considered.c.consumer == self._name)

    def _arrivals(self, keys: set[str], places: Mapping[str, Any]) -> dict[str, Arrivals]:
        if not keys:
            return {}
        catalog = self._load_catalog()
        return {key: self._arrivals_of(catalog, key, place_from_json(places.get(key))) for key in sorted(keys)}

    def _arrivals_of(self, catalog: Catalog, key: str, place: Place) -> Arrivals:
        """What one table got; its manifests are read again only when it has got something."""
        name = TableName.parse(key.removeprefix(TABLES).removeprefix(f"{self._catalog_name}."), catalog=self._catalog_name)
        table = load_table(catalog, name)
        snapshot = table.current_snapshot()
        head = None if snapshot is None else snapshot.snapshot_id
        known = self._read.get(key)
        if known is None or known[:2] != (place, head):
            known = self._read[key] = (place, head, read_arrivals(table, place))
        return known[2]

    def _happened(self, leaf: Leaf, key: str, arrivals: Mapping[str, Arrivals], start: datetime, now: datetime) -> list[Event]:
        """The events of one leaf."""
        if key in arrivals:
            return [Event(key, one.committed_at, one.to_amounts(), {"partitions": one.partitions}) for one in arrivals[key].new]
        if isinstance(leaf, Every):
            assert isinstance(leaf.period, timedelta), "checked when it was made"
            return [Event(key, now)] if now >= start + leaf.period else []
        if isinstance(leaf, Cron):
            tick = next_tick(leaf.expression, leaf.tz, start)
            return [Event(key, tick)] if tick <= now else []
        query = sa.select(events.c.at, events.c.amounts, events.c.detail)
        query = query.where(events.c.key == key, events.c.recorded_at > start, events.c.recorded_at <= now)
        rows = self._store.read(lambda conn: conn.execute(query).all())
        return [Event(key, row.at, row.amounts, row.detail) for row in rows]


def _progress(leaf: Leaf, happened: list[Event]) -> Progress:
    moments = [event.at for event in happened]
    if leaf.measure == "events":
        return Progress(len(happened), min(moments), max(moments))
    named = {name for event in happened for name in event.detail.get("partitions", ()) if leaf.measure == "partitions"}
    unnamed = sum(
        max(0, event.amounts.get(leaf.measure, 0) - (len(event.detail.get("partitions", ())) if named else 0))
        for event in happened
    )
    return Progress(len(named) + unnamed, min(moments), max(moments))


def _amounts(found: Arrivals) -> dict[str, int]:
    total = {"partitions": len({name for one in found.new for name in one.partitions}), "commits": len(found.new)}
    return total | {what: sum(one.to_amounts()[what] for one in found.new) for what in ("files", "records", "bytes")}


def place_to_json(place: Place) -> dict[str, Any]:
    """A place as the store keeps it."""
    at = None if place.committed_at is None else place.committed_at.isoformat()
    return {"snapshot_id": place.snapshot_id, "sequence": place.sequence, "committed_at": at}


def place_from_json(said: Mapping[str, Any] | None) -> Place:
    """The same, read back; ``None`` is the beginning of the table."""
    if said is None:
        return START
    at = said["committed_at"]
    return Place(said["snapshot_id"], said["sequence"], None if at is None else datetime.fromisoformat(at))
