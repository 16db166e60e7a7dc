"""Footprints: the places in which the files of a table lie, by everything that its metadata names.

    footprint = read_footprint(table)
    footprint.present, footprint.places
    others = other_tables(catalog, name, memory)           # of each other table, loading those that have changed

A table may have files far from its location: it was moved, a property that sent its data elsewhere was removed, another table's
files were added to it, or it is registered under two names. So a footprint has the folders of all files that its metadata file
names, and those of the data and delete files of all kept snapshots. It is a filter and no more: files of another table are
looked up in that table's metadata before any of them is deleted, see :mod:`.foreign_files`.

The invariants: a table counts with the footprint of its current metadata, however little of the catalog is read. A metadata file
is written once and never changed, so what it names is read once and remembered, and of its successor only the manifests that are
new. Which metadata file a table has now is read from the catalog each time: a SQL catalog lists it in one query, for all catalog
names of its database. A REST catalog does not list it, so each table is loaded there, unless the caller accepts footprints that
were read since some moment. A footprint may be larger than the table, and never smaller.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from airflow_snowpack.iceberg.avro_columns import AvroColumns, read_blocks
from airflow_snowpack.iceberg.catalog import connection_errors, with_snapshots
from airflow_snowpack.iceberg.errors import CatalogUnreachable
from airflow_snowpack.iceberg.locations import (
    LOCATION_PROPERTIES,
    UNIQUE_FILE,
    Place,
    Relation,
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
READERS = 16
"""How many manifests of a table are read at once: a request each, to an object store."""
MAX_PLACES = 50
"""Of one footprint; where files lie in more folders, it has the folders around them."""
DAMAGES = (FileNotFoundError, ValueError)
"""What reading a manifest or a manifest list raises that is missing or damaged."""
PATHS = AvroColumns((STATUS, PATH), required=(STATUS, PATH))


@dataclass(frozen=True, slots=True)
class Footprint:
    """The places that one metadata file of a table names.

    :param metadata_location: that file.
    :param present: where the table writes: its location first, then the paths of its properties.
    :param former: folders outside of these that have files of the table; without :attr:`is_complete`, those that the metadata
        file itself names.
    :param is_complete: whether the manifests of all kept snapshots were read.
    :param sequence: the newest sequence number of the table; its manifests up to that were read.
    :param is_damaged: manifests that the metadata names are missing or damaged, so the snapshots that use them cannot be read.
        What the others name counts. It is not remembered.
    :param read_at: when the table was loaded; ``None`` for now.
    """

    metadata_location: str
    table_uuid: str
    present: tuple[str, ...]
    former: tuple[str, ...] = ()
    is_complete: bool = False
    is_damaged: bool = False
    sequence: int = 0
    read_at: datetime | None = None

    @property
    def places(self) -> tuple[str, ...]:
        """Where files of the table are or will be."""
        return (*self.present, *self.former)

    def is_of(self, metadata_location: str | None, trust_since: datetime | None) -> bool:
        """Whether this is the footprint of the table as the catalog has it now.

        :param metadata_location: as the catalog lists it; ``None`` where it does not.
        :param trust_since: without a listed location, accept what was read since; ``None`` for nothing.
        """
        if metadata_location is not None:
            # A name with a UUID is written once. One without, such as v3.metadata.json, may be written again for another table.
            return metadata_location == self.metadata_location and UNIQUE_FILE.search(metadata_location) is not None
        return trust_since is not None and self.read_at is not None and self.read_at >= trust_since


@dataclass(frozen=True, slots=True, order=True)
class TableKey:
    """A table of a catalog, by the catalog name that its rows have in a SQL catalog's database."""

    catalog: str
    identifier: Identifier

    def label(self, own: str) -> str:
        """Return the name for people: without the catalog's in a catalog named ``own``."""
        name = ".".join(self.identifier)
        return name if self.catalog == own else f"{self.catalog}.{name}"


@dataclass(frozen=True, slots=True)
class KnownElsewhere:
    """A table of another catalog of this installation, as a check of that catalog has read it.

    :param catalog: its name and identity, ``lake@3f2a91bc04de``.
    """

    catalog: str
    key: TableKey
    footprint: Footprint


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a memory has: the tables of its own catalog, and those of the installation's other catalogs."""

    own: Mapping[TableKey, Footprint]
    elsewhere: Sequence[KnownElsewhere] = ()


class FootprintMemory(Protocol):
    """Keeps footprints between two calls, for one catalog. What it loses is read again."""

    def read(self, database: str) -> Remembered:
        """Return all that is remembered, as of one moment.

        :param database: of this catalog, see :func:`database_of`; tables of the same database are listed, and not elsewhere.
        """

    def keep(self, learned: Mapping[TableKey, Footprint], database: str) -> None:
        """Replace what is remembered of these tables."""

    def forget(self, gone: Collection[TableKey]) -> None:
        """Drop tables that the catalog does not have any more."""


@dataclass(frozen=True, slots=True)
class OtherTable:
    """Another table than the one in question.

    :param label: its name for people.
    :param footprint: the last one that was read; ``None`` if it was never read.
    :param is_current: whether that is the footprint of its metadata of now.
    :param is_missing: its metadata file does not exist any more, so nothing can be read of it.
    :param table: the table if this call has loaded it. A REST catalog returns it without its past snapshots.
    :param catalog: the name and identity of its catalog if this process does not reach it.
    """

    label: str
    key: TableKey
    footprint: Footprint | None
    is_current: bool
    is_missing: bool = False
    table: Table | None = None
    catalog: str | None = None


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
    :param trust_since: for a catalog that does not list metadata locations, accept footprints that were read since. Leave it out
        before files are deleted.
    :param complete: read the manifests of tables, too; before files are deleted.
    :param own: the table itself, to return its footprint as well.
    :raises CatalogUnreachable: the list of tables cannot be read.
    :raises OSError, ValueError: the table itself cannot be read.
    """
    try:
        listed = dict(_listed(catalog))
    except connection_errors() as error:
        raise CatalogUnreachable(catalog.name, error) from error
    database, mine = database_of(catalog), TableKey(catalog.name, name.identifier)
    # One read, after the listing: what another process remembers meanwhile cannot replace what is compared here.
    remembered = memory.read(database) if memory is not None else Remembered({})
    known = {key: found for key, found in remembered.own.items() if key in listed}
    current = {
        key: known[key]
        for key, metadata_location in listed.items()
        if key in known and known[key].is_of(metadata_location, trust_since) and (known[key].is_complete or not complete)
    }
    changed = {key: listed[key] for key in listed if key not in current and key != mine}
    loaded, gone, missing = _load(catalog, changed, known, current, memory, complete=complete)
    if gone:
        again = dict(_listed(catalog))
        gone -= again.keys()  # a catalog may report a table as unknown whose metadata it cannot read
        appeared = {key: location for key, location in again.items() if key not in listed and key != mine}
        listed |= appeared  # a renamed table has left one name and has another
        more = _load(catalog, appeared, known, current, memory, complete=complete)
        loaded, missing = loaded | more[0], missing | more[2]
    if own is not None:
        current[mine] = _read(own, known.get(mine), complete=complete)
        _keep(memory, {mine: current[mine]}, database)
    if memory is not None:
        memory.forget(remembered.own.keys() - listed.keys())
    found = [
        OtherTable(
            key.label(catalog.name), key, current.get(key, known.get(key)), key in current, key in missing, loaded.get(key)
        )
        for key in listed
        if key != mine and key not in gone
    ]
    return (*found, *map(_from_elsewhere, remembered.elsewhere)), current.get(mine)


def _from_elsewhere(known: KnownElsewhere) -> OtherTable:
    label = f"{known.key.label('')} of the catalog {known.catalog}"
    return OtherTable(label, known.key, known.footprint, is_current=False, catalog=known.catalog)


def _load(
    catalog: Catalog,
    changed: Mapping[TableKey, str | None],
    known: Mapping[TableKey, Footprint],
    current: dict[TableKey, Footprint],
    memory: FootprintMemory | None,
    *,
    complete: bool,
) -> tuple[dict[TableKey, Table], set[TableKey], set[TableKey]]:
    """Load the tables and add their footprints; returns the loaded, those unknown by now, and those without metadata file."""
    from pyiceberg.exceptions import NoSuchTableError

    loaded: dict[TableKey, Table] = {}
    gone, missing = set[TableKey](), set[TableKey]()
    keys = list(changed)
    for start in range(0, len(keys), BATCH_SIZE):
        learned: dict[TableKey, Footprint] = {}
        for key in keys[start : start + BATCH_SIZE]:
            try:
                table = load_by_key(catalog, key, changed[key])
                learned[key] = _read(table, known.get(key), complete=complete)
                loaded[key] = table
            except NoSuchTableError:
                gone.add(key)  # Dropped since it was listed.
            except FileNotFoundError:
                missing.add(key)
            except Exception as problem:  # noqa: BLE001 - what PyIceberg raises for damaged metadata may be anything
                log.warning("table_not_readable: %s: %r", key.label(""), problem)
        current.update(learned)
        # Batch by batch, so that a first reading of a large catalog that is cut short goes on from there.
        _keep(memory, learned, database_of(catalog))
    return loaded, gone, missing


def _keep(memory: FootprintMemory | None, learned: Mapping[TableKey, Footprint], database: str) -> None:
    whole = {key: found for key, found in learned.items() if not found.is_damaged}
    if memory is not None and whole:
        memory.keep(whole, database)


def load_by_key(catalog: Catalog, key: TableKey, metadata_location: str | None) -> Table:
    """Load a table of the catalog or of another catalog name of its database.

    :param metadata_location: needed for another catalog name.
    """
    from pyiceberg.catalog.rest import RestCatalog

    if key.catalog != catalog.name:
        assert metadata_location is not None, "only SQL catalogs list other names, with metadata locations"
        return table_at(catalog, key, metadata_location)
    if isinstance(catalog, RestCatalog):
        catalog = with_snapshots(catalog, "refs")  # a long history is a large answer, and often nothing has changed
    return catalog.load_table(key.identifier)


def table_at(catalog: Catalog, key: TableKey, metadata_location: str) -> Table:
    """Read a table from its metadata file, with the file access of a catalog.

    :raises OSError, ValueError: the file cannot be read.
    """
    from pyiceberg.serializers import FromInputFile
    from pyiceberg.table import Table

    io = catalog._load_file_io(location=metadata_location)
    metadata = FromInputFile.table_metadata(io.new_input(metadata_location))
    return Table(key.identifier, metadata, metadata_location, io, catalog)


def whole_metadata(table: Table) -> TableMetadata:
    """Return the metadata with all snapshots: a REST catalog may have returned those of branches and tags alone."""
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.serializers import FromInputFile

    is_empty = not (table.metadata.snapshots or table.metadata.metadata_log or _sequence(table.metadata))
    if is_empty or not isinstance(table.catalog, RestCatalog):
        return table.metadata
    return FromInputFile.table_metadata(table.io.new_input(table.metadata_location))


def read_footprint(table: Table, before: Footprint | None = None) -> Footprint:
    """Read the complete footprint of a table as it was loaded.

    :param before: of earlier metadata of the table; only manifests that are newer are read.
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
        return replace(before, read_at=None)  # a REST catalog returns it with the table alone
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
    """Whether an earlier footprint is of the same table, whose commits have led from there to this metadata.

    Only the metadata log shows that: a table that was registered again with earlier metadata has snapshots of its own after those
    that it shares with the earlier footprint, and snapshots again that had expired in it.
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
    """Return the folders of the live files of a manifest outside of some; ``None`` if it is missing or damaged."""
    try:
        rows = PATHS.rows(read_blocks(io.new_input(manifest.manifest_path)))
        return {parent(path) for status, path in rows if status != DELETED and (not path.startswith(inside) or "/../" in path)}
    except DAMAGES:
        return None


def _roots(folders: Iterable[str], present: Sequence[str]) -> tuple[str, ...]:
    """Return the fewest folders around these that lie outside of the present ones, :data:`MAX_PLACES` at most."""
    places = [place_of(folder) for folder in present]
    outside = {folder.rstrip("/") for folder in folders if not _is_in(place_of(folder), places)}
    while len(outside) > MAX_PLACES and len(shorter := _shortened(outside)) < len(outside):
        outside = shorter
    kept: list[str] = []
    for folder in sorted(outside):
        if not kept or not f"{folder}/".startswith(f"{kept[-1]}/"):
            kept.append(folder)
    return tuple(kept)


def _is_in(place: Place, others: Sequence[Place]) -> bool:
    return any(relation_of_places(place, other) in (Relation.SAME, Relation.INSIDE) for other in others)


def _shortened(folders: set[str]) -> set[str]:
    """Return the folders with the deepest ones replaced by the folders around them, until some of these are the same."""
    shorter = folders
    while len(shorter) == len(folders) and (deepest := max(folder.count("/") for folder in shorter)) > 0:
        above = {parent(folder) if folder.count("/") == deepest else folder for folder in shorter}
        if above == shorter:
            break
        shorter = above
    return shorter


def _prefixes(folders: Sequence[str]) -> tuple[str, ...]:
    """Return the beginnings of paths that lie in these folders; of local folders none, since links lead out of them."""
    return tuple(f"{folder.rstrip('/')}/" for folder in folders if place_of(folder).scheme != "file")


def database_of(catalog: Catalog) -> str:
    """Return a fingerprint of a SQL catalog's database, without secrets; empty for a catalog that is no SQL catalog."""
    from pyiceberg.catalog.sql import SqlCatalog

    if not isinstance(catalog, SqlCatalog):
        return ""
    url = catalog.engine.url
    return hashlib.sha256(f"{url.get_backend_name()}|{url.host}|{url.port}|{url.database}".encode()).hexdigest()[:16]


def _listed(catalog: Catalog) -> Iterator[tuple[TableKey, str | None]]:
    """Each table of the catalog with the location of its metadata, or ``None`` where the catalog does not list it."""
    from pyiceberg.catalog.sql import SqlCatalog

    if isinstance(catalog, SqlCatalog):
        yield from _listed_in_sql(catalog)
    else:
        yield from ((TableKey(catalog.name, table), None) for table in _tables(catalog))


def _listed_in_sql(catalog: SqlCatalog) -> Iterator[tuple[TableKey, str | None]]:
    import sqlalchemy as sa
    from pyiceberg.catalog.sql import ICEBERG_TABLE_TYPE

    # All columns: older catalogs have no iceberg_type, which distinguishes views from tables. And all catalog names: they share
    # the database, and often the warehouse.
    rows = sa.text("SELECT * FROM iceberg_tables ORDER BY catalog_name, table_namespace, table_name")
    with catalog.engine.connect() as conn:
        for row in conn.execute(rows).mappings():
            if row.get("iceberg_type") in (None, ICEBERG_TABLE_TYPE):
                identifier = (*catalog.identifier_to_tuple(row["table_namespace"]), row["table_name"])
                yield TableKey(row["catalog_name"], identifier), row["metadata_location"]


def _tables(catalog: Catalog, namespace: Identifier = ()) -> Iterator[Identifier]:
    for child in catalog.list_namespaces(namespace):
        if len(child) > len(namespace):
            yield from catalog.list_tables(child)
            yield from _tables(catalog, child)
