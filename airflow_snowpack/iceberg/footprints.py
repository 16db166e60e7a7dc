"""Footprints: the places in which the files of a table lie, by everything that its metadata names.

    footprint = read_footprint(table)
    footprint.present, footprint.places
    others = other_tables(catalog, name, memory)           # of each other table, loading those that have changed

A table may have files far from its location: it was moved, a property that sent its data elsewhere was removed, another table's
files were added to it, or it is registered under two names. A footprint therefore has the folders of all files that the metadata
file names, and of the data and delete files of all kept snapshots. It is only a filter: before a file is deleted, it is looked up
in the metadata of the tables that may name it, see :mod:`.foreign_files`.

The invariants: a table counts with the footprint of its current metadata, and a footprint may be larger than the table, but never
smaller. A metadata file is written once and never changed: what it names is read once and remembered, and of its successor only
new manifests are read. The current metadata file of each table is read from the catalog each time. A SQL catalog lists it in one
query, for all catalog names of its database; a REST catalog does not, so each table is loaded there unless the caller accepts
footprints that were read since some moment.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from airflow_snowpack.iceberg.avro_columns import AvroColumns, read_blocks
from airflow_snowpack.iceberg.catalog import connection_errors, with_snapshots
from airflow_snowpack.iceberg.errors import CatalogUnreachable
from airflow_snowpack.iceberg.listings import Listed, ListsEverything
from airflow_snowpack.iceberg.locations import (
    LOCATION_PROPERTIES,
    Relation,
    StoragePlace,
    is_written_once,
    parent,
    place_of,
    relation_of_places,
)
from airflow_snowpack.iceberg.metadata_reader import DELETED, PATH, STATUS, read_manifest_list

if TYPE_CHECKING:
    from datetime import datetime

    from pyiceberg.catalog import Catalog
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.typedef import Identifier

    from airflow_snowpack.iceberg.names import TableName

log = logging.getLogger(__name__)

BATCH_SIZE = 100
AT_ONCE = 8
"""How many tables of a REST catalog are loaded at once."""
READERS = 16
"""How many manifests of a table are read at once; each is a request to an object store."""
MAX_PLACES = 50
"""How many places a footprint has; if files lie in more folders, it has the folders around them."""
DAMAGES = (FileNotFoundError, ValueError)
"""Raised when a manifest or a manifest list is missing or damaged."""
PATHS = AvroColumns((STATUS, PATH), required=(STATUS, PATH))


@dataclass(frozen=True, slots=True)
class Footprint:
    """The places that one metadata file of a table names.

    :param metadata_location: that file.
    :param present: where the table writes: its location first, then the paths of its properties.
    :param former: folders outside of these that have files of the table; without :attr:`is_complete`, only those that the
        metadata file itself names.
    :param is_complete: whether the manifests of all kept snapshots were read.
    :param sequence: the newest sequence number of the table, up to which its manifests were read.
    :param is_damaged: manifests that the metadata names are missing or damaged, and the snapshots that use them cannot be read.
        What the others name counts. It is not remembered.
    :param is_view: it is a view, whose only file is that metadata file.
    :param owns_folder: it is a table in another format, to which everything in ``present`` belongs. It has no metadata file.
    :param read_at: when the table was loaded; ``None`` for now.
    """

    metadata_location: str
    table_uuid: str
    present: tuple[str, ...]
    former: tuple[str, ...] = ()
    is_complete: bool = False
    is_damaged: bool = False
    is_view: bool = False
    owns_folder: bool = False
    sequence: int = 0
    read_at: datetime | None = None

    @property
    def places(self) -> tuple[str, ...]:
        """Where files of the table are or will be."""
        return (*self.present, *self.former)

    def is_like(self, listed: Listed) -> bool:
        """Return whether this is of the same kind as what the catalog lists: a table, a view, or a table in another format."""
        return (self.is_view, self.owns_folder) == (listed.is_view, bool(listed.folders))

    def is_of(self, metadata_location: str | None, trust_since: datetime | None) -> bool:
        """Return whether this is the footprint of the table as the catalog has it now.

        :param metadata_location: as the catalog lists it; ``None`` if it does not.
        :param trust_since: without a listed location, accept what was read since; ``None`` for nothing.
        """
        if metadata_location is not None:
            return metadata_location == self.metadata_location and is_written_once(metadata_location)
        return trust_since is not None and self.read_at is not None and self.read_at >= trust_since


@dataclass(frozen=True, slots=True, order=True)
class TableKey:
    """A table, by the catalog name of its rows in a SQL catalog's database."""

    catalog: str
    identifier: Identifier

    def label(self, own: str = "", is_view: bool = False) -> str:
        """Return the name for people, without the catalog's name in the catalog ``own``."""
        name = ".".join(self.identifier if self.catalog == own else (self.catalog, *self.identifier))
        return f"{name} (a view)" if is_view else name


@dataclass(frozen=True, slots=True)
class OtherTable:
    """Another table than the one in question, or a view.

    :param label: its name for people.
    :param footprint: the last one that was read; ``None`` if it was never read.
    :param is_current: whether that is the footprint of its current metadata.
    :param is_missing: its metadata file no longer exists, and nothing of the table can be read.
    :param catalog: the name and identity of its catalog if this process does not reach it.
    """

    label: str
    key: TableKey
    footprint: Footprint | None
    is_current: bool
    is_missing: bool = False
    is_view: bool = False
    catalog: str | None = None


class Remembered(NamedTuple):
    """The content of a memory: the tables of its own catalog, and those of the installation's other catalogs."""

    own: Mapping[TableKey, Footprint]
    elsewhere: Sequence[OtherTable] = ()


class FootprintMemory(Protocol):
    """Stores footprints between calls, for one catalog. What it loses is read again."""

    def read(self, database: str) -> Remembered:
        """Return all that is remembered, as of one moment.

        :param database: of this catalog, see :func:`database_of`; tables of the same database are listed, and not elsewhere.
        """

    def keep(self, learned: Mapping[TableKey, Footprint], database: str) -> None:
        """Replace what is remembered of these tables."""

    def complete(self, other: OtherTable) -> None:
        """Replace the footprint of a table of another catalog, unless that has been read again meanwhile."""

    def forget(self, gone: Collection[TableKey]) -> None:
        """Drop tables that the catalog no longer has."""


def other_tables(
    catalog: Catalog,
    name: TableName,
    memory: FootprintMemory | None = None,
    *,
    trust_since: datetime | None = None,
    complete: bool = True,
    own: Table | None = None,
) -> tuple[tuple[OtherTable, ...], Footprint | None]:
    """Return all other tables of the catalog, of other catalog names of its database, and of the installation's other catalogs.

    :param memory: what earlier calls have read; without it, each table of the catalog is loaded.
    :param trust_since: for a catalog that does not list metadata locations, accept footprints read since. Omit it for deletions.
    :param complete: read the manifests of tables, too; required before files are deleted.
    :param own: the table itself, to return its footprint as well.
    :raises CatalogUnreachable: the list of tables cannot be read.
    :raises OSError, ValueError: the table itself cannot be read.
    """
    listed, database, mine = _listed(catalog), database_of(catalog), TableKey(catalog.name, name.identifier)
    # One read, after the listing: what another process stores meanwhile cannot replace what is compared here.
    remembered = memory.read(database) if memory is not None else Remembered({})
    known = {key: found for key, found in remembered.own.items() if key in listed and found.is_like(listed[key])}
    current = {
        key: found
        for key, found in known.items()
        if found.is_of(listed[key].metadata_location, trust_since)
        and (found.is_complete or not complete)
        and not found.owns_folder
    }
    reading = _Reading(catalog, memory, database, known, current, complete)
    reading.load({key: listed[key] for key in listed if key not in current and key != mine})
    if reading.gone:
        again = _listed(catalog)
        reading.gone -= again.keys()  # a catalog may report a table as unknown because it cannot read its metadata
        appeared = {key: found for key, found in again.items() if key not in listed and key != mine}
        listed |= appeared  # a renamed table loses one name and gets another
        reading.load(appeared)
    if own is not None:
        current[mine] = _read(own, known.get(mine), complete=complete)
        reading.keep({mine: current[mine]})
    if memory is not None:
        memory.forget(remembered.own.keys() - listed.keys())
    found = [
        OtherTable(
            key.label(catalog.name, of.is_view),
            key,
            current.get(key, known.get(key)),
            key in current,
            key in reading.missing,
            of.is_view,
        )
        for key, of in listed.items()
        if key != mine and key not in reading.gone
    ]
    return (*found, *map(reading.elsewhere, remembered.elsewhere)), current.get(mine)


@dataclass(slots=True)
class _Reading:
    """Reads the footprints that have changed.

    :ivar gone: tables that the catalog no longer has.
    :ivar missing: tables without a metadata file.
    """

    catalog: Catalog
    memory: FootprintMemory | None
    database: str
    known: Mapping[TableKey, Footprint]
    current: dict[TableKey, Footprint]
    is_complete: bool
    gone: set[TableKey] = field(default_factory=set)
    missing: set[TableKey] = field(default_factory=set)

    def load(self, changed: Mapping[TableKey, Listed]) -> None:
        """Load tables and add their footprints to the current ones."""
        from pyiceberg.catalog.rest import RestCatalog

        keys = list(changed)
        with ThreadPoolExecutor(AT_ONCE if isinstance(self.catalog, RestCatalog) else 1, "snowpack-footprints") as pool:
            for start in range(0, len(keys), BATCH_SIZE):
                batch = keys[start : start + BATCH_SIZE]
                read = zip(batch, pool.map(lambda key: self._read_or_note(key, changed[key]), batch), strict=True)
                learned = {key: found for key, found in read if found is not None}
                self.current.update(learned)
                # Batch by batch: an interrupted first reading of a large catalog continues from there.
                self.keep(learned)

    def _read_or_note(self, key: TableKey, listed: Listed) -> Footprint | None:
        """Return the footprint of a table, or ``None`` after noting why there is none."""
        from pyiceberg.exceptions import NoSuchTableError, NoSuchViewError

        try:
            return self._read(key, listed)
        except (NoSuchTableError, NoSuchViewError):
            self.gone.add(key)  # dropped since it was listed
        except FileNotFoundError:
            self.missing.add(key)
        except Exception as problem:  # noqa: BLE001 - what PyIceberg raises for damaged metadata may be anything
            log.warning("table_not_readable: %s: %r", key.label(), problem)
        return None

    def _read(self, key: TableKey, listed: Listed) -> Footprint:
        if listed.folders:
            return Footprint("", "", listed.folders, is_complete=True, owns_folder=True)
        if listed.is_view:
            return _of_view(listed.metadata_location or view_file(self.catalog, key))
        return _read(load_by_key(self.catalog, key, listed.metadata_location), self.known.get(key), complete=self.is_complete)

    def keep(self, learned: Mapping[TableKey, Footprint]) -> None:
        whole = {key: found for key, found in learned.items() if not found.is_damaged and not self._has_kept(key, found)}
        if self.memory is not None and whole:
            self.memory.keep(whole, self.database)

    def _has_kept(self, key: TableKey, found: Footprint) -> bool:
        """Return whether the memory has this folder of a table in another format, which is learned with each listing."""
        return found.owns_folder and key in self.known and self.known[key].present == found.present

    def elsewhere(self, other: OtherTable) -> OtherTable:
        """Complete what a preview has read of a table of another catalog, with this catalog's access to its files."""
        before = other.footprint
        if before is None or before.is_complete or not self.is_complete:
            return other
        try:
            table = table_at(self.catalog, other.key, before.metadata_location)
            other = replace(other, footprint=read_footprint(table))
        except Exception as problem:  # noqa: BLE001 - as above
            log.warning("table_not_readable: %s: %r", other.label, problem)
            return replace(other, footprint=None)
        if self.memory is not None:
            self.memory.complete(other)
        return other


def _of_view(metadata_location: str) -> Footprint:
    return Footprint(metadata_location, "", (), (parent(metadata_location),), is_complete=True, is_view=True)


def load_by_key(catalog: Catalog, key: TableKey, metadata_location: str | None) -> Table:
    """Load a table of the catalog, or, by its metadata location, of another catalog name of its database."""
    from pyiceberg.catalog.rest import RestCatalog

    if key.catalog != catalog.name:
        assert metadata_location is not None, "only SQL catalogs list other names, with metadata locations"
        return table_at(catalog, key, metadata_location)
    if isinstance(catalog, RestCatalog):
        catalog = with_snapshots(catalog, "refs")  # a long history is a large response, and often nothing has changed
    return catalog.load_table(key.identifier)


def view_file(catalog: Catalog, key: TableKey) -> str:
    """Return the location of the metadata file of a view; raise ``ValueError`` if the catalog does not return it."""
    from airflow_snowpack.iceberg.guarded_catalogs import LocatedView

    view = catalog.load_view(key.identifier)
    if isinstance(view, LocatedView) and view.metadata_location:
        return view.metadata_location
    raise ValueError("the catalog returns no metadata location of the view")


def table_at(catalog: Catalog, key: TableKey, metadata_location: str) -> Table:
    """Read a table from its metadata file, with a catalog's file access; raise ``OSError`` or ``ValueError`` if that fails."""
    from pyiceberg.serializers import FromInputFile
    from pyiceberg.table import Table

    io = catalog._load_file_io(location=metadata_location)
    metadata = FromInputFile.table_metadata(io.new_input(metadata_location))
    return Table(key.identifier, metadata, metadata_location, io, catalog)


def whole_metadata(table: Table) -> TableMetadata:
    """Return the metadata with all snapshots: a REST catalog may have returned only those of branches and tags."""
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.serializers import FromInputFile

    is_empty = not (table.metadata.snapshots or table.metadata.metadata_log or _sequence(table.metadata))
    if is_empty or not isinstance(table.catalog, RestCatalog):
        return table.metadata
    return FromInputFile.table_metadata(table.io.new_input(table.metadata_location))


def read_footprint(table: Table, before: Footprint | None = None) -> Footprint:
    """Read the complete footprint of a table as it was loaded.

    :param before: the footprint of earlier metadata of the table; only newer manifests are read.
    :raises OSError: the storage does not answer.
    """
    metadata = whole_metadata(table)
    base = _of_metadata(table, metadata)
    if before is not None and not _continues(metadata, table.metadata_location, before):
        before = None
    since = before.sequence if before is not None and metadata.format_version > 1 else -1
    folders = set(base.former)
    if before is not None:
        folders.update(before.places)
    manifests, is_damaged = _manifests(metadata, table.io, since)
    folders.update(parent(path) for path in manifests)
    inside = _prefixes(base.present)
    with ThreadPoolExecutor(READERS, thread_name_prefix="snowpack-footprint") as pool:
        for found in pool.map(lambda manifest: _folders_of(manifest, table.io, inside), manifests.values()):
            is_damaged = is_damaged or found is None
            folders |= found or set()
    return replace(
        base,
        former=_roots(folders, base.present),
        is_complete=True,
        is_damaged=is_damaged,
        sequence=_sequence(metadata),
    )


def _sequence(metadata: TableMetadata) -> int:
    """Return the newest sequence number; 0 in format version 1, which has none."""
    return getattr(metadata, "last_sequence_number", 0)


def _read(table: Table, before: Footprint | None, *, complete: bool) -> Footprint:
    if before is not None and before.is_complete and before.is_of(table.metadata_location, None):
        return replace(before, read_at=None)  # a REST catalog returns it only with the table
    if complete or (before is not None and before.is_complete):
        return read_footprint(table, before)
    return _of_metadata(table, table.metadata)


def _of_metadata(table: Table, metadata: TableMetadata) -> Footprint:
    elsewhere = (metadata.properties.get(key) for key in LOCATION_PROPERTIES)
    present = (metadata.location, *(path for path in elsewhere if path))
    named = (
        table.metadata_location,
        *(entry.metadata_file for entry in metadata.metadata_log),
        *(snapshot.manifest_list for snapshot in metadata.snapshots if snapshot.manifest_list),
        *(each.statistics_path for each in (*metadata.statistics, *metadata.partition_statistics)),
    )
    folders = {parent(path) for path in named}
    return Footprint(table.metadata_location, str(metadata.table_uuid), present, _roots(folders, present))


def _continues(metadata: TableMetadata, location: str, before: Footprint) -> bool:
    """Return whether an earlier footprint is of the same table, whose commits led from there to this metadata.

    Only the metadata log shows that: a table that was registered again with earlier metadata has other snapshots after those that
    it shares with the earlier footprint, and again has snapshots that had expired in it.
    """
    if not before.is_complete or before.table_uuid != str(metadata.table_uuid):
        return False
    return before.metadata_location in (location, *(entry.metadata_file for entry in metadata.metadata_log))


def _manifests(metadata: TableMetadata, io: FileIO, since: int) -> tuple[dict[str, ManifestFile], bool]:
    """Return the manifests of all kept snapshots that were committed after a sequence number, by path.

    :returns: and whether a manifest list is missing or damaged.
    """
    new = [each for each in metadata.snapshots if (each.sequence_number or 0) > since]

    def read(snapshot: Snapshot) -> list[ManifestFile] | None:
        try:
            return read_manifest_list(snapshot, io)
        except DAMAGES:
            return None

    with ThreadPoolExecutor(READERS, thread_name_prefix="snowpack-footprint") as pool:
        lists = list(pool.map(read, new))
    listed = [each for manifests in lists for each in manifests or () if (each.sequence_number or 0) > since]
    return {each.manifest_path: each for each in listed}, None in lists


def _folders_of(manifest: ManifestFile, io: FileIO, inside: tuple[str, ...]) -> set[str] | None:
    """Return the folders of a manifest's live files, outside of ``inside``; ``None`` if it is missing or damaged."""
    try:
        rows = PATHS.rows(read_blocks(io.new_input(manifest.manifest_path)))
        return {parent(path) for status, path in rows if status != DELETED and (not path.startswith(inside) or "/../" in path)}
    except DAMAGES:
        return None


def _roots(folders: Iterable[str], present: Sequence[str]) -> tuple[str, ...]:
    """Return the fewest folders around these that lie outside of the present ones, at most :data:`MAX_PLACES`."""
    places = [place_of(folder) for folder in present]
    outside = {folder.rstrip("/") for folder in folders if not _is_in(place_of(folder), places)}
    while len(outside) > MAX_PLACES:
        deepest = max(folder.count("/") for folder in outside)
        above = {parent(folder) if folder.count("/") == deepest else folder for folder in outside}
        if above == outside:
            break
        outside = above
    kept: list[str] = []
    for folder in sorted(outside):
        if not kept or not f"{folder}/".startswith(f"{kept[-1]}/"):
            kept.append(folder)
    return tuple(kept)


def _is_in(place: StoragePlace, others: Sequence[StoragePlace]) -> bool:
    return any(relation_of_places(place, other) in (Relation.SAME, Relation.INSIDE) for other in others)


def _prefixes(folders: Sequence[str]) -> tuple[str, ...]:
    """Return the prefixes of paths in these folders; none for local folders, since links lead out of them."""
    return tuple(f"{folder.rstrip('/')}/" for folder in folders if place_of(folder).scheme != "file")


def database_of(catalog: Catalog) -> str:
    """Return a fingerprint of a SQL catalog's database and schema, without secrets; empty for any other catalog.

    Connect first: the connection decides the schema.
    """
    from pyiceberg.catalog.sql import SqlCatalog

    if not isinstance(catalog, SqlCatalog):
        return ""
    url, schema = catalog.engine.url, catalog.engine.dialect.default_schema_name
    parts = (url.get_backend_name(), url.host, url.port, url.database, schema)
    return hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()[:16]


def _listed(catalog: Catalog) -> dict[TableKey, Listed]:
    """Return what the catalog and its database's other catalog names have, or raise :class:`CatalogUnreachable`."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.exceptions import NoSuchNamespaceError

    # A REST catalog raises this error for a namespace that was dropped since it was listed.
    unreachable: tuple[type[Exception], ...] = (NoSuchNamespaceError, *connection_errors())
    try:
        if isinstance(catalog, ListsEverything):
            return {TableKey(catalog.name, identifier): found for identifier, found in catalog.entries()}
        return dict(_listed_in_sql(catalog) if isinstance(catalog, SqlCatalog) else _listed_by_name(catalog))
    except unreachable as error:
        raise CatalogUnreachable(catalog.name, error) from error


def _listed_in_sql(catalog: SqlCatalog) -> Iterator[tuple[TableKey, Listed]]:
    import sqlalchemy as sa
    from pyiceberg.catalog.sql import ICEBERG_TABLE_TYPE

    # All columns: older catalogs lack iceberg_type, which distinguishes views from tables. All catalog names: they share the
    # database, and often the warehouse.
    rows = sa.text("SELECT * FROM iceberg_tables ORDER BY catalog_name, table_namespace, table_name")
    with catalog.engine.connect() as conn:
        for row in conn.execute(rows).mappings():
            key = TableKey(row["catalog_name"], (*catalog.identifier_to_tuple(row["table_namespace"]), row["table_name"]))
            yield key, Listed(row["metadata_location"], row.get("iceberg_type") not in (None, ICEBERG_TABLE_TYPE))


def _listed_by_name(catalog: Catalog, namespace: Identifier = ()) -> Iterator[tuple[TableKey, Listed]]:
    for child in catalog.list_namespaces(namespace):
        if len(child) > len(namespace):
            yield from ((TableKey(catalog.name, table), Listed()) for table in catalog.list_tables(child))
            yield from ((TableKey(catalog.name, view), Listed(is_view=True)) for view in catalog.list_views(child))
            yield from _listed_by_name(catalog, child)
