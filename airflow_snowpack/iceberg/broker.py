"""Reads the tables of a catalog for everything in a process that waits for them: the poller, sensors, watchers.

    with shared_broker(config) as broker:                # one for each catalog in a process, closed when the last user leaves
        broker.read({name: version}, read_arrivals)      # reads the tables that have changed
        broker.tables([name])                            # the same, compared with what this broker has read before

A version is the location of a table's metadata file. A file with a UUID in its name is written once, so a table has not changed
while its catalog returns the same location. A SQL catalog returns the locations of all tables in one statement. A REST catalog
returns each in a response with the snapshots of branches and tags alone (``snapshots=refs``). The invariants: **one connection to
a SQL catalog, however many wait**, and a table is read exactly if its version is not certainly the known one.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from itertools import chain
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar

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
from airflow_snowpack.iceberg.locations import UNIQUE_FILE
from airflow_snowpack.iceberg.names import TableName

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
"""A new connection is opened after so long, since tokens expire and addresses change."""
ANSWER_WITHIN = timedelta(seconds=30)
"""How long a REST catalog may take for a response."""
CONCURRENT_READS = 8
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
        self._closed = False
        self._waiting: Counter[TableName] = Counter()
        self._tables: dict[TableName, Table] = {}

    def read(
        self, known: Mapping[TableName, str | None], process: Callable[[TableName, Table], T]
    ) -> Iterator[tuple[TableName, T | Exception | None]]:
        """Read the tables that have changed, several at a time, and yield each as soon as it is read.

        :param known: the version of each table that the caller has read; ``None`` for a table that is to be read in any case.
        :param process: called with each table that has changed, in one of several threads.
        :returns: each table with what ``process`` returned; ``None`` when it has not changed; or why it cannot be read.
        :raises CatalogUnreachable: the connection cannot be opened or used. A REST catalog that does not answer is the error of
            each table, see :func:`raise_outage`.
        """
        with self._connection:
            try:
                settled, changed = _compare_versions(self._connected(), known)
            except CatalogUnreachable:
                self._disconnect()  # the next read connects again
                raise
            finally:
                if self._closed:
                    self._disconnect()

        return chain(settled.items(), _read_each(changed, process))

    def tables(self, names: Collection[TableName]) -> dict[TableName, Table | Exception]:
        """Return tables as they are now, or why one cannot be read; one in :meth:`waiting_for` is read only if it has changed.

        :raises CatalogUnreachable: the catalog does not answer.
        """
        kept = {name: table for name in names if (table := self._tables.get(name)) is not None}
        known = {name: kept[name].metadata_location if name in kept else None for name in names}
        read = self.read(known, lambda _, table: table)
        found: dict[TableName, Table | Exception] = {}
        for name, result in read:
            found[name] = kept[name] if result is None else result
            if self._waiting[name] and not isinstance(result, Exception | None):
                self._tables[name] = result
        raise_outage(found.values())
        return found

    def locations(self) -> dict[tuple[str, str], str] | None:
        """Return the location of the metadata of every table, by namespace and name, in one statement.

        :returns: ``None`` for a catalog that returns locations only with a table each.
        :raises CatalogUnreachable: the catalog does not answer.
        """
        from pyiceberg.catalog.sql import SqlCatalog

        with self._connection:
            try:
                catalog = self._connected()
                return _all_locations(catalog) if isinstance(catalog, SqlCatalog) else None
            except CatalogUnreachable:
                self._disconnect()
                raise
            finally:
                if self._closed:
                    self._disconnect()

    @contextmanager
    def waiting_for(self, names: frozenset[TableName]) -> Iterator[None]:
        """Keep the metadata of tables between two calls of :meth:`tables`, as long as the block of any waiter lasts."""
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
        """Close the connection; one that is in use closes when it is not any more."""
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
        return self._catalog[1]

    def _disconnect(self) -> None:
        catalog, self._catalog = self._catalog, None
        if catalog is not None:
            catalog[1].close()


def raise_outage(found: Collection[object]) -> None:
    """Raise the error of a catalog that did not answer for any of these tables: that is one problem, and not one for each."""
    outages = [result for result in found if isinstance(result, CatalogUnreachable)]
    if outages and len(outages) == len(found):
        raise outages[0]


def _read_each(
    changed: Mapping[TableName, Callable[[], Table | None]], process: Callable[[TableName, Table], T]
) -> Iterator[tuple[TableName, T | Exception | None]]:
    """Read tables in threads that the end of the process does not wait for, since a storage may hang."""
    results: SimpleQueue[tuple[TableName, T | Exception | None]] = SimpleQueue()
    left = deque(changed.items())

    def work() -> None:
        while True:
            try:
                name, read = left.popleft()
            except IndexError:
                return
            try:
                table = read()
                results.put((name, None if table is None else process(name, table)))
            except Exception as problem:  # noqa: BLE001 - a catalog or a storage raises anything; the other tables are read
                results.put((name, problem))

    for _ in range(min(CONCURRENT_READS, len(changed))):
        threading.Thread(target=work, name="snowpack-tables", daemon=True).start()
    for _ in changed:
        yield results.get()


_open: dict[str, tuple[Broker, int]] = {}
_opening = threading.Lock()


@contextmanager
def shared_broker(config: CatalogConfig) -> Iterator[Broker]:
    """Return the broker of a catalog, one for all in this process who use it at a time. The last one that leaves closes it."""
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

    :param known: the version of each table that was read; ``None`` for a table that is to be read in any case.
    :returns: the tables that need no reading, with ``None`` or the error; and how to read each of the others, in any thread.
    :raises CatalogUnreachable: a SQL catalog does not answer.
    """
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.catalog.sql import SqlCatalog

    if isinstance(catalog, SqlCatalog):
        return _compare_in_sql(catalog, known)
    if isinstance(catalog, RestCatalog):
        # Arrivals are found by the ancestors of a snapshot, so a table that is read has to have all.
        refs, whole = with_snapshots(catalog, "refs"), with_snapshots(catalog, "all")
        return {}, {name: partial(_load_changed, refs, whole, name, version) for name, version in known.items()}
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
    """Return the location of the metadata of each table that the catalog has."""
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
    """Open a table as :func:`.load_table` does after it has found the location, without the connection."""
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


def is_same_file(location: str | None, version: str | None) -> bool:
    """Return whether two locations of metadata are the same file, of a name that is written once."""
    return location is not None and location == version and UNIQUE_FILE.search(location) is not None
