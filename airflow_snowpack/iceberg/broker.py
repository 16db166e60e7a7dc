"""Reads the tables of a catalog for everything in a process that waits for them: the poller, sensors, watchers.

    with shared_broker(config) as broker:                # one for each catalog in a process, closed when the last user leaves
        broker.read({name: version}, read_arrivals)      # reads the tables that have changed
        broker.tables([name])                            # the same, compared with what this broker has read before

A version is the location of a table's metadata file. A file with a UUID in its name is written once, so a table has not changed
while its catalog returns the same location. A SQL catalog returns the locations of all tables in one statement; a REST catalog
returns each in a response with only the snapshots of branches and tags (``snapshots=refs``). The invariants: **one connection to
a SQL catalog, however many wait**; a table is read unless its version is certainly the known one; and **a table whose storage
hangs delays no other**, nor does a hanging catalog block its caller. Each read has a limit, after which its table is set aside
with a back-off (:mod:`airflow_snowpack.timed_calls`).
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_snowpack.iceberg.catalog import (
    CatalogConfig,
    check_refs,
    connection_errors,
    load_table,
    neighbours,
    unreadable_errors,
    with_snapshots,
)
from airflow_snowpack.iceberg.errors import CatalogUnreachable, TableNotFound, TableUnreadable
from airflow_snowpack.iceberg.footprints import TableKey, table_at
from airflow_snowpack.iceberg.listings import ListsEverything
from airflow_snowpack.iceberg.locations import is_written_once
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.timed_calls import NoAnswer, TimedCalls, call_with_timeout, pause_after

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

    Known = Mapping[TableName, str | None]
    Settled = dict[TableName, Exception | None]
    Changed = dict[TableName, Callable[[], Table | None]]

T = TypeVar("T")

KEEP_CATALOG = timedelta(minutes=5)
"""A connection is replaced after this time, since tokens expire and addresses change."""
ANSWER_WITHIN = timedelta(seconds=30)
"""How long a catalog may take for a response, and a storage for the metadata of one table."""
CATALOG_LIMIT = 2 * ANSWER_WITHIN
"""How long a request to a catalog may take, including the connection."""
TABLES_PER_STATEMENT = 1_000


class Broker:
    """Reads the tables of one catalog.

    :param load: connects to the catalog; called when it is needed.
    :param monotonic: seconds.
    """

    def __init__(self, load: Callable[[], Catalog], *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._load = load
        self._monotonic = monotonic
        self._catalog: tuple[float, Catalog] | None = None
        self._connection = threading.Lock()
        """Held while the connection is used. Files, and tables of a REST catalog, are read without it."""
        self._name = ""
        self._closed = False
        self._silences = 0
        """How many requests in a row the catalog has not answered, and until when no request is made."""
        self._silent_until = -math.inf
        self._reads = self.reads()
        self._waiting: Counter[TableName] = Counter()
        self._tables: dict[TableName, Table] = {}

    def reads(self, limit: timedelta = ANSWER_WITHIN) -> TimedCalls[TableName, Any]:
        """Return the reads of one reader for :meth:`read`; they remember the tables that hang.

        :param limit: how long the storage of a table may take for all that the reader reads of it.
        """
        return TimedCalls(_storage_of, limit=limit, keeps_late=True, monotonic=self._monotonic)

    def read(
        self,
        known: Mapping[TableName, str | None],
        process: Callable[[TableName, Table], T],
        reads: TimedCalls[TableName, T | None] | None = None,
        *,
        patience: timedelta | None = None,
    ) -> Iterator[tuple[TableName, T | Exception | None]]:
        """Read the tables that have changed, several at a time, and yield each as soon as it is read.

        :param known: the version of each table that the caller has read; ``None`` for a table that is read in any case.
        :param process: called with each table that has changed, in one of several threads.
        :param reads: of a caller that reads repeatedly: a table that hung is set aside, and the next call yields what ``process``
            returned for a read that came too late.
        :param patience: how long to wait for all tables together; the rest are left out, and a later call with these ``reads``
            yields what is being read. ``None``: wait for each up to its limit.
        :returns: each table with what ``process`` returned; with ``None`` if it has not changed; or with the reason why it cannot
            be read, such as :class:`.NoAnswer`.
        :raises CatalogUnreachable: the connection cannot be opened or used, or does not answer in time. A REST catalog that does
            not answer is the error of each table, see :func:`raise_outage`.
        """
        self._name = next((name.catalog for name in known), self._name)
        settled, changed = self._ask(lambda catalog: _compare_versions(catalog, known))
        calls = {name: partial(_read_one, name, read, process) for name, read in changed.items()}
        return chain(settled.items(), (reads or self.reads()).run(calls, patience=patience))

    def tables(self, names: Collection[TableName]) -> Iterator[tuple[TableName, Table | Exception]]:
        """Yield each table as it is now, or why it cannot be read, as soon as that is known.

        A table in :meth:`waiting_for` is read only if it has changed.

        :raises CatalogUnreachable: the catalog does not answer.
        """
        kept = {name: table for name in names if (table := self._tables.get(name)) is not None}
        known = {name: kept[name].metadata_location if name in kept else None for name in names}
        outages: dict[TableName, Exception] = {}
        for name, result in self.read(known, lambda _, table: table, self._reads):
            if isinstance(result, CatalogUnreachable):
                outages[name] = result
            elif isinstance(result, Exception):
                yield name, result
            else:
                if result is not None and self._waiting[name]:
                    self._tables[name] = result
                yield name, kept[name] if result is None else result
        if len(outages) == len(known):
            raise_outage(outages.values())
        yield from outages.items()

    def locations(self) -> dict[tuple[str, str], str] | None:
        """Return the metadata location of every table, by namespace and name, in one statement.

        :returns: ``None`` for a catalog that returns a location only with its table.
        :raises CatalogUnreachable: the catalog does not answer.
        """
        from pyiceberg.catalog.sql import SqlCatalog

        return self._ask(lambda catalog: _all_locations(catalog) if isinstance(catalog, SqlCatalog) else None)

    def _ask(self, question: Callable[[Catalog], T]) -> T:
        """Return the catalog's answer, while no other thread uses the connection.

        :raises CatalogUnreachable: it does not answer, or has not answered before and is not due for another request.
        """
        with self._connection:
            left = self._silent_until - self._monotonic()
            if left > 0:
                raise CatalogUnreachable(self._name, NoAnswer("The catalog", CATALOG_LIMIT, timedelta(seconds=left)))
            try:
                answer = call_with_timeout(lambda: question(self._connected()), "The catalog", CATALOG_LIMIT, self._monotonic)
            except NoAnswer as silence:
                self._catalog = None  # the hanging call still has the connection
                self._silences += 1
                pause = pause_after(self._silences)
                self._silent_until = self._monotonic() + pause.total_seconds()
                raise CatalogUnreachable(self._name, NoAnswer("The catalog", CATALOG_LIMIT, pause)) from silence
            except CatalogUnreachable:
                self._disconnect()  # the next request connects again
                raise
            finally:
                if self._closed:
                    self._disconnect()
            self._silences = 0
            return answer

    @contextmanager
    def waiting_for(self, names: frozenset[TableName]) -> Iterator[None]:
        """Keep the metadata of tables between calls of :meth:`tables`, while the block of any waiter lasts."""
        self._waiting.update(names)
        try:
            yield
        finally:
            self._waiting.subtract(names)
            for name in names:
                if not self._waiting[name]:
                    del self._waiting[name]
                    self._tables.pop(name, None)

    def close(self) -> None:
        """Close the connection, or have its current user close it."""
        self._closed = True
        if self._connection.acquire(blocking=False):
            try:
                self._disconnect()
            finally:
                self._connection.release()

    def _connected(self) -> Catalog:
        if self._catalog is not None and self._monotonic() - self._catalog[0] > KEEP_CATALOG.total_seconds():
            self._disconnect()
        if self._catalog is None:
            self._catalog = (self._monotonic(), self._load())
            self._name = self._catalog[1].name
        return self._catalog[1]

    def _disconnect(self) -> None:
        catalog, self._catalog = self._catalog, None
        if catalog is not None:
            catalog[1].close()


def raise_outage(found: Collection[object]) -> None:
    """Raise the error of a catalog that answered for none of these tables: one problem, not one for each."""
    outages = [result for result in found if isinstance(result, CatalogUnreachable)]
    if outages and len(outages) == len(found):
        raise outages[0]


def _storage_of(name: TableName) -> str:
    return f"The storage of {name.dotted}"


def _read_one(name: TableName, read: Callable[[], Table | None], process: Callable[[TableName, Table], T]) -> T | None:
    table = read()
    return None if table is None else process(name, table)


_open: dict[str, tuple[Broker, int]] = {}
_opening = threading.Lock()


@contextmanager
def shared_broker(config: CatalogConfig) -> Iterator[Broker]:
    """Yield the broker of a catalog, which all concurrent users in this process share. The last one that leaves closes it."""
    key = json.dumps(asdict(config), sort_keys=True)
    with _opening:
        broker, users = _open.get(key) or (Broker(lambda: config.load(limit=ANSWER_WITHIN)), 0)
        _open[key] = (broker, users + 1)
    try:
        yield broker
    finally:
        with _opening:
            broker, users = _open.pop(key)
            if users > 1:
                _open[key] = (broker, users - 1)
        if users == 1:
            broker.close()


def _compare_versions(catalog: Catalog, known: Known) -> tuple[Settled, Changed]:
    """Compare the versions of tables with those that were read.

    :param known: the version of each table that was read; ``None`` for a table that is read in any case.
    :returns: the tables that need no reading, with ``None`` or the error; and how to read each of the others, in any thread.
    :raises CatalogUnreachable: a SQL catalog does not answer.
    """
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.catalog.sql import SqlCatalog

    if isinstance(catalog, SqlCatalog):
        return _compare_in_sql(catalog, known)
    if isinstance(catalog, RestCatalog):
        # Arrivals are found by the ancestors of a snapshot: a table that is read needs all snapshots.
        refs, whole = with_snapshots(catalog, "refs"), with_snapshots(catalog, "all")
        return {}, {name: partial(_load_changed, refs, whole, name, version) for name, version in known.items()}
    if isinstance(catalog, ListsEverything):
        return {}, {name: partial(_load_moved, catalog, name, version) for name, version in known.items()}
    return {}, {name: partial(load_table, catalog, name) for name in known}


def _compare_in_sql(catalog: SqlCatalog, known: Known) -> tuple[Settled, Changed]:
    settled: Settled = {}
    changed: Changed = {}
    there: dict[str, tuple[str, ...]] = {}
    locations = _read_locations(catalog, known)
    for name, version in known.items():
        location = locations.get(name)
        if location is None:
            if name.database not in there:
                there[name.database] = neighbours(catalog, name)
            settled[name] = TableNotFound(name.dotted, catalog.name, there[name.database])
        elif is_same_file(location, version):
            settled[name] = None
        else:
            changed[name] = partial(_read_metadata, catalog, name, location)
    return settled, changed


def _read_locations(catalog: SqlCatalog, names: Collection[TableName]) -> dict[TableName, str]:
    """Return the metadata location of each of these tables that the catalog has."""
    import sqlalchemy as sa
    from pyiceberg.catalog.sql import IcebergTables

    wanted = {(name.database, name.table): name for name in names}
    places = list(wanted)
    place = sa.tuple_(IcebergTables.table_namespace, IcebergTables.table_name)
    query = sa.select(IcebergTables.table_namespace, IcebergTables.table_name, IcebergTables.metadata_location)
    query = query.where(IcebergTables.catalog_name == catalog.name)
    found: dict[TableName, str] = {}
    try:
        with catalog.engine.connect() as conn:
            for start in range(0, len(places), TABLES_PER_STATEMENT):
                rows = conn.execute(query.where(place.in_(places[start : start + TABLES_PER_STATEMENT])))
                found |= {wanted[namespace, table]: location for namespace, table, location in rows.all() if location}
    except connection_errors() as error:
        raise CatalogUnreachable(catalog.name, error) from error
    return found


def _all_locations(catalog: SqlCatalog) -> dict[tuple[str, str], str]:
    import sqlalchemy as sa
    from pyiceberg.catalog.sql import IcebergTables

    query = sa.select(IcebergTables.table_namespace, IcebergTables.table_name, IcebergTables.metadata_location)
    try:
        with catalog.engine.connect() as conn:
            rows = conn.execute(query.where(IcebergTables.catalog_name == catalog.name)).all()
    except connection_errors() as error:
        raise CatalogUnreachable(catalog.name, error) from error
    return {(namespace, table): location for namespace, table, location in rows if location}


def _read_metadata(catalog: SqlCatalog, name: TableName, location: str) -> Table:
    """Open a table from its metadata location as :func:`.load_table` does, without the connection."""
    try:
        table = table_at(catalog, TableKey(catalog.name, name.identifier), location)
    except unreadable_errors() as error:
        raise TableUnreadable(name.dotted, error) from error
    check_refs(table)
    return table


def _load_changed(refs: RestCatalog, whole: RestCatalog, name: TableName, version: str | None) -> Table | None:
    if version is not None and is_same_file(load_table(refs, name).metadata_location, version):
        return None
    return load_table(whole, name)


def _load_moved(catalog: Any, name: TableName, version: str | None) -> Table | None:
    if version is not None and is_same_file(_location_in(catalog, name), version):
        return None
    return load_table(catalog, name)


def _location_in(catalog: Any, name: TableName) -> str | None:
    from pyiceberg.exceptions import NoSuchTableError

    try:
        location: str | None = catalog.metadata_location_of(name.identifier)
    except NoSuchTableError:
        return None  # loading it reports what is missing
    except connection_errors() as error:
        raise CatalogUnreachable(catalog.name, error) from error
    return location


def is_same_file(location: str | None, version: str | None) -> bool:
    """Return whether two metadata locations are the same file, with a name that is written once."""
    return location is not None and location == version and is_written_once(location)
