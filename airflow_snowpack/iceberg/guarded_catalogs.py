"""PyIceberg's catalogs, whose tables cannot choose how their files are opened.

PyIceberg lets the properties of a table override those of the catalog when it opens the table's files: ``py-io-impl`` would
import and call any Python class in every process that loads the table, and ``gcs.service.host`` or ``s3.endpoint`` would send the
catalog's credentials elsewhere. A user who may alter a table is not entitled to that. Like Iceberg's Java implementation, these
catalogs use only the properties of the catalog, and what a REST catalog returns beside the table.

They also open files in folders such as ``t#1``, which to PyIceberg is ``t``.

SQL catalogs, the Hive Metastore and AWS Glue are in modules of their own, as their libraries are optional.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.rest import RestCatalog  # noqa: TID253 - imported only by the function that connects
from pyiceberg.io.pyarrow import PyArrowFileIO  # noqa: TID253 - imported only by the function that connects
from pyiceberg.table import Table  # noqa: TID253 - imported only by the function that connects
from pyiceberg.view import View  # noqa: TID253 - imported only by the function that connects

from airflow_snowpack.iceberg.locations import storage_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.catalog.rest import TableResponse, ViewResponse
    from pyiceberg.io import FileIO


class LiteralFileIO(PyArrowFileIO):
    """PyArrow's file access, which takes every character of a path literally."""

    @staticmethod
    def parse_location(location: str, properties: Mapping[str, str] = MappingProxyType({})) -> tuple[str, str, str]:
        return storage_path(location, properties)


def literal_io(io: FileIO) -> FileIO:
    """Return the file access with every character of a path taken literally, if it is PyArrow's."""
    return LiteralFileIO(io.properties) if type(io) is PyArrowFileIO else io


class OwnFileAccess:
    """Opens all files with the properties of the catalog; a base class before PyIceberg's."""

    def _load_file_io(self, properties: Mapping[str, str] | None = None, location: str | None = None) -> FileIO:
        catalog: Any = super()
        return literal_io(catalog._load_file_io(location=location))


class LocatedView(View):
    """A view with its metadata location, which PyIceberg leaves out."""

    metadata_location: str | None = None


class GuardedRestCatalog(RestCatalog):
    """A REST catalog that opens files with its own properties and those that the server returns beside the table."""

    def _load_file_io(self, properties: Mapping[str, str] = MappingProxyType({}), location: str | None = None) -> FileIO:
        return literal_io(super()._load_file_io(dict(properties), location))

    def _response_to_table(self, identifier_tuple: tuple[str, ...], table_response: TableResponse) -> Table:
        place = table_response.metadata_location or ""
        vended = self._resolve_storage_credentials(table_response.storage_credentials, table_response.metadata_location)
        return Table(
            identifier_tuple,
            table_response.metadata,
            place,
            self._load_file_io({**table_response.config, **vended}, table_response.metadata_location),
            self,
            table_response.config,
        )

    def _response_to_view(self, identifier_tuple: tuple[str, ...], view_response: ViewResponse) -> LocatedView:
        view = LocatedView(identifier_tuple, view_response.metadata)
        view.metadata_location = view_response.metadata_location
        return view
