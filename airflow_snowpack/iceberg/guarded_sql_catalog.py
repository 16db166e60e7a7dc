"""The SQL catalog of :mod:`airflow_snowpack.iceberg.guarded_catalogs`; apart, because it alone needs SQLAlchemy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.catalog.sql import SqlCatalog  # noqa: TID253 - imported only by the function that connects
from pyiceberg.serializers import FromInputFile  # noqa: TID253 - imported only by the function that connects
from pyiceberg.table import Table  # noqa: TID253 - imported only by the function that connects

from airflow_snowpack.iceberg.guarded_catalogs import OwnFileAccess

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import IcebergTables


class GuardedSqlCatalog(OwnFileAccess, SqlCatalog):
    """A SQL catalog that opens all files with its own properties."""

    def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> Table:
        location = orm_table.metadata_location
        if not location:
            return super()._convert_orm_to_iceberg(orm_table)  # raises its error
        io = self._load_file_io(location=location)
        metadata = FromInputFile.table_metadata(io.new_input(location))
        identifier = (*self.identifier_to_tuple(orm_table.table_namespace), orm_table.table_name)
        return Table(identifier, metadata, location, io, self)
