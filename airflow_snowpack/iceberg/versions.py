"""Which tables of a catalog have changed since they were read, found out without reading their metadata.

    settled, changed = compare_versions(catalog, {name: version})
    settled[name]            # None: the table has not changed; or the error why it cannot be read
    changed[name]()          # reads the table; None when only this shows that it has not changed

A version is the location of a table's metadata file. A file with a UUID in its name is written once, so a table has not changed
while its catalog returns the same location. A SQL catalog returns the locations of all tables in one statement. A REST catalog
returns each in a response with the snapshots of branches and tags alone (``snapshots=refs``). The invariant: **a table whose
version is not certainly the known one is read.**
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg.catalog import connection_errors, load_table, neighbours, unreadable_errors, with_snapshots
from airflow_snowpack.iceberg.errors import CatalogUnreachable, TableNotFound, TableUnreadable
from airflow_snowpack.iceberg.locations import UNIQUE_FILE

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

    from airflow_snowpack.iceberg.names import TableName

    Known = Mapping[TableName, str | None]
    Settled = dict[TableName, Exception | None]
    Changed = dict[TableName, Callable[[], Table | None]]

TABLES_PER_STATEMENT = 1_000


def compare_versions(catalog: Catalog, known: Known) -> tuple[Settled, Changed]:
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
        elif _is_same(location, version):
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


def _read_metadata(catalog: SqlCatalog, name: TableName, location: str) -> Table:
    """Open a table by the location of its metadata, without the connection, as PyIceberg does after it has found the location.

    :raises TableUnreadable: the file cannot be read.
    """
    from pyiceberg.io import load_file_io
    from pyiceberg.serializers import FromInputFile
    from pyiceberg.table import Table

    try:
        metadata = FromInputFile.table_metadata(load_file_io(catalog.properties, location).new_input(location))
        io = load_file_io({**catalog.properties, **metadata.properties}, location)
    except unreadable_errors() as error:
        raise TableUnreadable(str(name), error) from error
    return Table(name.identifier, metadata, location, io, catalog)


def _load_changed(refs: RestCatalog, whole: RestCatalog, name: TableName, version: str | None) -> Table | None:
    if version is not None and _is_same(load_table(refs, name).metadata_location, version):
        return None
    return load_table(whole, name)


def _is_same(location: str | None, version: str | None) -> bool:
    return location is not None and location == version and UNIQUE_FILE.search(location) is not None
