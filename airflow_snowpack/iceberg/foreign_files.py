"""Files of other tables: whether a place is shared, and which files other tables still name.

    foreign = ForeignFiles.of(catalog, name, memory)
    foreign.conflicts(table.location())                     # tables that make removing orphans there unsafe
    foreign.named(paths, [table.location()])                # {path: "db.flights"}

The invariant: a file that the kept metadata of another table names is reported, wherever that table lives now, and under whatever
name, catalog name, scheme or symbolic link. What cannot be known is an error or a conflict, and never "no".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg.catalog import load_table, unreadable_errors
from airflow_snowpack.iceberg.errors import TableUnreadable
from airflow_snowpack.iceberg.footprints import (
    Footprint,
    FootprintMemory,
    OtherTable,
    load_by_key,
    other_tables,
    table_at,
    whole_metadata,
)
from airflow_snowpack.iceberg.locations import (
    NOTHING_DECIDED,
    Equalities,
    Relation,
    Spelling,
    StoragePlace,
    is_written_once,
    place_of,
    relation_of_places,
)
from airflow_snowpack.iceberg.metadata_reader import MetadataReader

if TYPE_CHECKING:
    from datetime import datetime

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from airflow_snowpack.iceberg.names import TableName

LIES = {
    Relation.SAME: "at the same location",
    Relation.INSIDE: "inside it at",
    Relation.AROUND: "around it at",
    Relation.UNDECIDED: "perhaps at the same place, spelled",
}
IN = (Relation.SAME, Relation.INSIDE, Relation.UNDECIDED)
WAY_OUT = "Set equal_schemes or equal_authorities to decide whether it is"


@dataclass(frozen=True, slots=True)
class LocationConflict:
    """Another table whose files lie, or may lie, where this table's files lie.

    :param table: the other one, ``database.table``, with the name of its catalog if that is another one.
    :param location: where it stores files; empty if its metadata cannot be read.
    :param relation: how that lies to this table's location; ``None`` if it cannot be known.
    :param catalog: the name and identity of its catalog if this process does not reach it.
    """

    table: str
    location: str
    relation: Relation | None
    catalog: str | None = None

    def __str__(self) -> str:
        if self.relation is None:
            problem = "its metadata cannot be read, so where its files are is not known"
        else:
            problem = f"{LIES[self.relation]} {self.location}" + f"; {WAY_OUT}" * (self.relation is Relation.UNDECIDED)
        if self.catalog:
            problem += f"; if that catalog no longer exists: airflow snowpack tables forget-catalog {self.catalog}"
        return f"{self.table} ({problem})"


@dataclass(frozen=True)
class ForeignFiles:
    """The other tables that may name files of a table, as the catalog has them now.

    :param own: the footprint of the table itself, if it was requested.
    :param equal: which spellings of places mean the same.
    :param read: the files that tables name, by metadata file; most are unchanged in a later check.
    """

    catalog: Catalog
    others: Sequence[OtherTable]
    own: Footprint | None = None
    equal: Equalities = NOTHING_DECIDED
    read: dict[str, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        catalog: Catalog,
        name: TableName,
        memory: FootprintMemory | None = None,
        *,
        trust_since: datetime | None = None,
        complete: bool = True,
        table: Table | None = None,
        equal: Equalities = NOTHING_DECIDED,
        read: dict[str, frozenset[str]] | None = None,
    ) -> ForeignFiles:
        """Read the footprints of the other tables, and of this one if it is given, as :func:`.other_tables` does.

        :raises CatalogUnreachable: the list of tables cannot be read.
        :raises TableUnreadable: a file that the metadata of this table names is missing or damaged.
        """
        try:
            others, own = other_tables(catalog, name, memory, trust_since=trust_since, complete=complete, own=table)
        except unreadable_errors() as error:
            raise TableUnreadable(name.dotted, error) from error
        return cls(catalog, others, own, equal, {} if read is None else read)

    def conflicts(self, location: str) -> tuple[LocationConflict, ...]:
        """Return the tables that store files where this table's files lie, that may do so, or that cannot be read.

        Files that another table has left behind in the location are not a conflict: see :meth:`named`.
        """
        place = self._place(location)
        return tuple(conflict for other in self.others for conflict in self._conflicts(other, place))

    def undecided(self, places: Collection[str]) -> tuple[LocationConflict, ...]:
        """Return the tables that may or may not name files in these places.

        A table whose metadata file no longer exists counts by what was last read of it.
        """
        mine = [self._place(place) for place in places]
        return tuple(conflict for other in self.others for conflict in self._unknown(other, mine))

    def is_near(self, places: Collection[str]) -> bool:
        """Return whether any other table has files in or around these places, which then need a check file by file."""
        return bool(self._near(places))

    def named(self, paths: Sequence[str], places: Collection[str]) -> dict[str, str]:
        """Return the files that other tables name, each with the label of a table.

        :param places: around the files.
        :raises TableUnreadable: the metadata of a table that has files in these places cannot be read.
        """
        found: dict[str, str] = {}
        spelling: Callable[[str], str] = Spelling(self.equal)
        spelled = {path: spelling(path) for path in paths} if (near := self._near(places)) else {}
        for other in near:
            if other.footprint is not None and other.footprint.owns_folder:
                found |= {path: other.label for path in self._inside(other.footprint, spelled) if path not in found}
                continue
            named = self._files_of(other)
            found |= {path: other.label for path, place in spelled.items() if place in named and path not in found}
        return found

    def _conflicts(self, other: OtherTable, mine: StoragePlace) -> Iterator[LocationConflict]:
        footprint = other.footprint
        if footprint is None or not (other.is_current or other.catalog):
            yield LocationConflict(other.label, "", None, other.catalog)
            return
        for location in footprint.present:
            relation = relation_of_places(self._place(location), mine)
            if relation is not None:
                yield LocationConflict(other.label, location, relation, other.catalog)
        for location in footprint.former:
            if relation_of_places(self._place(location), mine) is Relation.UNDECIDED:
                yield LocationConflict(other.label, location, Relation.UNDECIDED, other.catalog)

    def _unknown(self, other: OtherTable, mine: Sequence[StoragePlace]) -> Iterator[LocationConflict]:
        footprint = other.footprint
        if other.is_view or (footprint is None and other.is_missing):
            return  # a view names no files of tables, and of a table without metadata no snapshot can be read
        if footprint is None or not ((footprint.is_complete and (other.is_current or other.is_missing)) or other.catalog):
            yield LocationConflict(other.label, "", None, other.catalog)
            return
        for location in footprint.places:
            relations = {relation_of_places(self._place(location), place) for place in mine}
            if Relation.UNDECIDED in relations:
                yield LocationConflict(other.label, location, Relation.UNDECIDED, other.catalog)

    def _near(self, places: Collection[str]) -> list[OtherTable]:
        mine = [self._place(place) for place in places]
        return [other for other in self.others if other.footprint is not None and self._touches(other.footprint, mine)]

    def _inside(self, folder: Footprint, paths: Iterable[str]) -> Iterator[str]:
        """Yield the paths in the folder of a table in another format."""
        theirs = [self._place(location) for location in folder.present]
        for path in paths:
            if any(relation_of_places(self._place(path), place) in IN for place in theirs):
                yield path

    def _touches(self, footprint: Footprint, mine: Sequence[StoragePlace]) -> bool:
        theirs = [self._place(location) for location in footprint.places]
        return any(relation_of_places(first, second) is not None for first in theirs for second in mine)

    def _place(self, location: str) -> StoragePlace:
        return place_of(location, self.equal)

    def _files_of(self, other: OtherTable) -> frozenset[str]:
        """Return the files that a table names, spelled as places."""
        assert other.footprint is not None
        location = other.footprint.metadata_location
        if other.catalog is None and not other.is_current:
            raise TableUnreadable(other.label, OSError("its present metadata cannot be read, and it has files in the same place"))
        if other.is_view:
            return frozenset({Spelling(self.equal)(location)})
        if location not in self.read or not is_written_once(location):
            try:
                self.read[location] = named_files(self._load(other), Spelling(self.equal))
            except TableUnreadable:
                raise
            except Exception as error:  # PyIceberg may raise anything for damaged metadata
                raise TableUnreadable(other.label, error) from error
        return self.read[location]

    def _load(self, other: OtherTable) -> Table:
        from pyiceberg.catalog.rest import RestCatalog

        assert other.footprint is not None
        if other.catalog is None and isinstance(self.catalog, RestCatalog):
            return load_by_key(self.catalog, other.key, None)
        return table_at(self.catalog, other.key, other.footprint.metadata_location)


def named_files(table: Table, spelling: Callable[[str], str]) -> frozenset[str]:
    """Return all files that a table's kept metadata names; raise ``OSError`` or ``ValueError`` if one is missing or damaged."""
    from pyiceberg.table import Table

    whole = Table(table.name(), whole_metadata(table), table.metadata_location, table.io, table.catalog)
    return MetadataReader(whole).referenced_files(spelling)


def location_conflicts(
    catalog: Catalog,
    name: TableName,
    memory: FootprintMemory | None = None,
    *,
    location: str | None = None,
    trust_since: datetime | None = None,
) -> tuple[LocationConflict, ...]:
    """Return the other tables whose files share this table's location, lie inside it, or lie around it.

    A table that cannot be read counts as a conflict, because its files may be anywhere.

    :param memory: what earlier calls have read; without it, each table of the catalog is loaded.
    :param location: of this table when the files in question were chosen; ``None`` for its present one.
    :param trust_since: for a catalog that does not list metadata locations, accept footprints read since. Omit it for deletions.
    :raises TableNotFound, TableUnreadable, CatalogUnreachable: this table, or the list of tables, cannot be read.
    """
    location = location or load_table(catalog, name).location()
    foreign = ForeignFiles.of(catalog, name, memory, trust_since=trust_since, complete=trust_since is None)
    return foreign.conflicts(location)
