"""Where tables keep their files, and which tables make removing orphans of another one unsafe.

    >>> normalise("file:/warehouse/db/flights"), normalise("s3a://lake/db//flights/")
    ('/warehouse/db/flights', 's3://lake/db/flights')
    >>> relation_of("file:///warehouse/db/flights", "/warehouse/db/flights_2")
    >>> relation_of("file:///warehouse/db/flights", "/warehouse/db/flights/old")
    <Relation.AROUND: 'around'>
    >>> location_conflicts(catalog, name)                            # loads every table  # doctest: +SKIP
    >>> location_conflicts(catalog, name, memory)                    # loads the tables that changed  # doctest: +SKIP

The invariants: two spellings of one place compare as equal, and folders are compared as folders, so ``flights`` is no prefix of
``flights_2``. Where spellings are ambiguous (a doubled slash in an object store) the answer errs towards "the same place", since
what hangs on it is whether files may be deleted.

And a table counts with the locations that its current metadata names, however little of the catalog is read. A metadata file is
written once and never changed, so what it names is read once and remembered. Which metadata file a table has now is read from the
catalog each time: a SQL catalog lists it in one query. A REST catalog does not list it, so each table is loaded there, unless the
caller accepts locations that were read since some moment. That is enough for a preview, and never enough to delete files.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from airflow_snowpack.iceberg.catalog import connection_errors, load_table, unreadable_errors, with_snapshots
from airflow_snowpack.iceberg.errors import CatalogUnreachable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from pyiceberg.catalog import Catalog
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyiceberg.typedef import Identifier

    from airflow_snowpack.iceberg.names import TableName

SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?P<rest>/.*)", re.DOTALL)
# Names that differ by the client library and mean one store.
ONE_STORE = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "wasbs": "wasb"}


class Relation(StrEnum):
    """Where a second location lies, seen from a first one."""

    SAME = "same"
    INSIDE = "inside"
    AROUND = "around"


def normalise(location: str) -> str:
    """One spelling per place, without a slash at the end. A local path comes back without a scheme."""
    match = SCHEME.fullmatch(location)
    scheme, rest = (match["scheme"].lower(), match["rest"]) if match else ("file", location)
    authority, path = "", rest
    if rest.startswith("//"):
        authority, slash, tail = rest[2:].partition("/")
        path = slash + tail
    # normpath keeps exactly two leading slashes, which POSIX allows to mean something else; here they do not.
    clean = "/" + posixpath.normpath(path or "/").strip("/")
    if scheme == "file":
        return clean
    return f"{ONE_STORE.get(scheme, scheme)}://{authority.lower()}{clean}".rstrip("/")


def is_inside(location: str, folder: str) -> bool:
    """Whether a location is the folder or lies below it."""
    return f"{normalise(location)}/".startswith(f"{normalise(folder).rstrip('/')}/")


def relation_of(first: str, second: str) -> Relation | None:
    """Return where the first lies, seen from the second; ``None`` if neither contains the other."""
    if normalise(first) == normalise(second):
        return Relation.SAME
    if is_inside(first, second):
        return Relation.INSIDE
    return Relation.AROUND if is_inside(second, first) else None


# Where a table may keep files outside its own location.
LOCATION_PROPERTIES = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
UNIQUE_FILE = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}[^/]*$", re.IGNORECASE)
BATCH_SIZE = 100
TRUST_LOCATIONS_FOR = timedelta(hours=1)
"""What ``trust_since`` goes back from now while nothing is deleted."""


@dataclass(frozen=True, slots=True)
class LocationConflict:
    """Another table whose files lie where this table's files lie.

    :param table: the other one, ``database.table``.
    :param location: where it keeps files; empty when its metadata cannot be read.
    :param relation: how that lies to this table's location; ``None`` when it cannot be known.
    """

    table: str
    location: str
    relation: Relation | None

    def __str__(self) -> str:
        if self.relation is None:
            return f"{self.table} (its metadata cannot be read, so where its files are is not known)"
        lies = {Relation.SAME: "at the same location", Relation.INSIDE: "inside it at", Relation.AROUND: "around it at"}
        return f"{self.table} ({lies[self.relation]} {self.location})"


@dataclass(frozen=True, slots=True)
class TableLocations:
    """The locations that one metadata file of a table names.

    :param metadata_location: that file.
    :param locations: the table's location first, then the paths of its properties.
    :param read_at: when the table was loaded; ``None`` for now.
    """

    metadata_location: str
    locations: tuple[str, ...]
    read_at: datetime | None = None

    def are_of(self, metadata_location: str | None, trust_since: datetime | None) -> bool:
        """Whether these are the locations of the table as the catalog has it now.

        :param metadata_location: as the catalog lists it; ``None`` where it does not.
        :param trust_since: without a listed location, accept what was read since; ``None`` for nothing.
        """
        if metadata_location is not None:
            # A name with a UUID is written once. One without, such as v3.metadata.json, may be written again for another table.
            return metadata_location == self.metadata_location and UNIQUE_FILE.search(metadata_location) is not None
        return trust_since is not None and self.read_at is not None and self.read_at >= trust_since


class LocationMemory(Protocol):
    """Keeps locations between two calls, for one catalog. What it loses is read again."""

    def read(self) -> Mapping[Identifier, TableLocations]:
        """Return all that is remembered, as of one moment."""

    def keep(self, learned: Mapping[Identifier, TableLocations]) -> None:
        """Replace what is remembered of these tables."""

    def forget(self, gone: Collection[Identifier]) -> None:
        """Drop tables that the catalog does not have any more."""


def location_conflicts(
    catalog: Catalog,
    name: TableName,
    memory: LocationMemory | None = None,
    *,
    location: str | None = None,
    trust_since: datetime | None = None,
) -> tuple[LocationConflict, ...]:
    """Return the other tables of the catalog whose files share this table's location, lie inside it, or lie around it.

    A table that cannot be read counts as a conflict, because its files may be anywhere.

    :param memory: what earlier calls have read; without it, each table of the catalog is loaded.
    :param location: of this table, as it was when the files were chosen that are in question; without it, its present one.
    :param trust_since: for a catalog that does not list metadata locations, accept locations that were read since. Leave it out
        before files are deleted.
    :raises TableNotFound, TableUnreadable, CatalogUnreachable: this table, or the list of tables, cannot be read.
    """
    location = location or load_table(catalog, name).location()
    try:
        listed = dict(_listed(catalog))
    except connection_errors() as error:
        raise CatalogUnreachable(catalog.name, error) from error
    # One read, after the listing: what another process remembers meanwhile cannot replace what is compared here.
    known = memory.read() if memory is not None else {}
    current = {
        table: known[table].locations
        for table, metadata_location in listed.items()
        if table in known and known[table].are_of(metadata_location, trust_since)
    }
    changed = [table for table in listed if table not in current and table != name.identifier]
    unreadable = _load(catalog, changed, current, memory)
    if memory is not None:
        memory.forget(known.keys() - listed.keys())
    return tuple(
        conflict
        for table in listed
        if table != name.identifier
        for conflict in _conflicts(table, None if table in unreadable else current.get(table, ()), location)
    )


def _load(
    catalog: Catalog, changed: Sequence[Identifier], current: dict[Identifier, tuple[str, ...]], memory: LocationMemory | None
) -> set[Identifier]:
    """Load the tables and add their locations; returns those that cannot be read."""
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.exceptions import NoSuchTableError

    if isinstance(catalog, RestCatalog):
        catalog = with_snapshots(catalog, "refs")  # a location needs none, and a long history is a large answer
    unreadable: set[Identifier] = set()
    for start in range(0, len(changed), BATCH_SIZE):
        learned: dict[Identifier, TableLocations] = {}
        for table in changed[start : start + BATCH_SIZE]:
            try:
                learned[table] = _locations_of(catalog.load_table(table))
            except NoSuchTableError:
                continue  # Dropped since it was listed.
            except (*unreadable_errors(), *connection_errors()):
                unreadable.add(table)
        current.update({table: found.locations for table, found in learned.items()})
        # Batch by batch, so that a first reading of a large catalog that is cut short goes on from there.
        if memory is not None and learned:
            memory.keep(learned)
    return unreadable


def _locations_of(table: Table) -> TableLocations:
    elsewhere = (table.properties.get(key) for key in LOCATION_PROPERTIES)
    return TableLocations(table.metadata_location, (table.location(), *(path for path in elsewhere if path)))


def _conflicts(table: Identifier, locations: Sequence[str] | None, location: str) -> Iterator[LocationConflict]:
    name = ".".join(table)
    if locations is None:
        yield LocationConflict(name, "", None)
        return
    for other in locations:
        relation = relation_of(other, location)
        if relation is not None:
            yield LocationConflict(name, other, relation)


def _listed(catalog: Catalog) -> Iterator[tuple[Identifier, str | None]]:
    """Each table of the catalog with the location of its metadata, or ``None`` where the catalog does not list it."""
    from pyiceberg.catalog.sql import SqlCatalog

    if isinstance(catalog, SqlCatalog):
        yield from _listed_in_sql(catalog)
    else:
        yield from ((table, None) for table in _tables(catalog))


def _listed_in_sql(catalog: SqlCatalog) -> Iterator[tuple[Identifier, str | None]]:
    import sqlalchemy as sa
    from pyiceberg.catalog.sql import ICEBERG_TABLE_TYPE

    # All columns: older catalogs have no iceberg_type, which distinguishes views from tables.
    rows = sa.text("SELECT * FROM iceberg_tables WHERE catalog_name = :name")
    with catalog.engine.connect() as conn:
        for row in conn.execute(rows, {"name": catalog.name}).mappings():
            if row.get("iceberg_type") in (None, ICEBERG_TABLE_TYPE):
                yield (*catalog.identifier_to_tuple(row["table_namespace"]), row["table_name"]), row["metadata_location"]


def _tables(catalog: Catalog, namespace: Identifier = ()) -> Iterator[Identifier]:
    for child in catalog.list_namespaces(namespace):
        if len(child) > len(namespace):
            yield from catalog.list_tables(child)
            yield from _tables(catalog, child)
