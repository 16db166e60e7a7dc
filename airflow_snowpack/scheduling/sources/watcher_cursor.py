"""The place up to which a watcher has published what arrived in its table.

    place = WatchedTable(store, "lake/web.views", TableName("lake", "web", "views"), load=hook.load_table)
    for arrival in place.read().new:
        ...                     # publish it
        place.advance(place_of(arrival))  # once the receiver has stored it

The invariant: the place moves only past what was published. After a crash the same arrivals are read again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_snowpack.iceberg.arrivals import Arrival, Arrivals, Place, head_of, read_arrivals
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.scheduling.sources.consumer import place_from_json, place_to_json
from airflow_snowpack.store import Store
from airflow_snowpack.store.dialect import insert
from airflow_snowpack.store.tables.schedules import considered

if TYPE_CHECKING:
    from pyiceberg.table import Table

log = logging.getLogger(__name__)

OWNER = "watcher"


class WatchedTable:
    """One watcher's place in one table.

    :param watcher: the name of the watcher; each has its own place.
    :param load: opens a table.
    """

    def __init__(self, store: Store, watcher: str, table: TableName, *, load: Callable[[TableName], Table]) -> None:
        self._store = store
        self._consumer = f"watcher:{watcher}:{table}"
        self._name = table
        self._load = load
        self._passed: Place | None = None

    def read(self) -> Arrivals:
        """Return what arrived since the last read of this object; the first time, since the stored place.

        A new watcher begins at the table's head. Snapshots that were expired before they were read are logged.

        :raises TableNotFound, CatalogUnreachable: from the catalog.
        """
        table = self._load(self._name)
        place = self._passed or self._kept()
        if place is None:
            place = head_of(table)
            self._keep(place, if_new=True)
        found = read_arrivals(table, place)
        if found.expired:
            log.warning("snapshots_expired_unread: %s of %s were expired before they were read", found.expired, self._name)
        self._passed = found.head
        return found

    def advance(self, upto: Place) -> None:
        """Store that everything up to here was published."""
        self._keep(upto)

    def _kept(self) -> Place | None:
        query = sa.select(considered.c.upto).where(considered.c.consumer == self._consumer)
        kept = self._store.scalar(query)
        return None if kept is None else place_from_json(kept["place"])

    def _keep(self, place: Place, *, if_new: bool = False) -> None:
        values: dict[str, Any] = {"since": {}, "upto": {"place": place_to_json(place)}, "changed_at": self._store.clock()}
        statement = insert(considered).values(consumer=self._consumer, owner=OWNER, **values)
        if if_new:
            statement = statement.on_conflict_do_nothing()
        else:
            statement = statement.on_conflict_do_update(index_elements=["consumer"], set_=values)
        self._store.execute(statement)


def place_of(arrival: Arrival) -> Place:
    """Return the place just behind an arrival."""
    return arrival.place
