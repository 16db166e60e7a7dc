"""The folders of interim tables, wherever the catalog keeps them: a local disk, S3, or what else PyArrow reaches.

    Folder("s3://lake/snowpack_interim/flights_clean_5f0c3a9e4b7d4c21a8f6", catalog.properties).delete()

The invariant: **only a folder whose own name can only have been given here is deleted**, and with it what is below; any other
location is refused, whoever asks.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_snowpack.iceberg.locations import SCHEME, normalise
from airflow_snowpack.interim.names import is_ours

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

METADATA_FILE = re.compile(r"\.metadata\.json(\.gz)?$|\.gz\.metadata\.json$")


@dataclass(frozen=True, slots=True)
class Folder:
    """A place that may hold files.

    :param properties: of the table's or the catalog's file access; may hold secrets.
    """

    location: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """Its last part."""
        return posixpath.basename(normalise(self.location))

    def is_own_of(self, table_name: str) -> bool:
        """Whether nothing but this interim table can be in it."""
        return is_ours(table_name) and self.name == table_name

    def delete(self) -> bool:
        """Delete it and everything below; ``False``: there was nothing.

        :raises ValueError: no interim table's folder is called like this.
        """
        if not is_ours(self.name):
            raise ValueError(f"{self.location!r} is not the folder of an interim table, and is not deleted.")
        from pyarrow.fs import FileType

        system, path = self._opened()
        if system.get_file_info(path).type is not FileType.Directory:
            return False
        system.delete_dir(path)
        return True

    def children(self) -> list[str]:
        """The names of the folders right below."""
        from pyarrow.fs import FileSelector, FileType

        system, path = self._opened()
        found = system.get_file_info(FileSelector(path, recursive=False, allow_not_found=True))
        return sorted(info.base_name for info in found if info.type is FileType.Directory)

    def newest(self) -> datetime | None:
        """When the last of its files was written; for a folder without files, when it was changed itself, if that is known."""
        from pyarrow.fs import FileSelector, FileType

        system, path = self._opened()
        below = system.get_file_info(FileSelector(path, recursive=True, allow_not_found=True))
        files = [info for info in below if info.type is FileType.File]
        moments = [info.mtime_ns for info in files or [system.get_file_info(path)] if info.mtime_ns is not None]
        return datetime.fromtimestamp(max(moments) / 1e9, tz=UTC) if moments else None

    def table_properties(self) -> Mapping[str, str] | None:
        """Those of the table whose files these are, as its newest metadata file says; ``None``: no table was ever made of them.

        :raises OSError, ValueError: the file cannot be read.
        """
        from pyarrow.fs import FileSelector
        from pyiceberg.io.pyarrow import PyArrowFileIO
        from pyiceberg.serializers import FromInputFile

        system, path = self._opened()
        found = system.get_file_info(FileSelector(f"{path}/metadata", recursive=False, allow_not_found=True))
        names = sorted(info.base_name for info in found if METADATA_FILE.search(info.base_name))
        if not names:
            return None
        file = PyArrowFileIO(dict(self.properties)).new_input(f"{self.location}/metadata/{names[-1]}")
        return FromInputFile.table_metadata(file).properties

    def _opened(self) -> tuple[Any, str]:
        from pyiceberg.io.pyarrow import PyArrowFileIO

        scheme, authority, path = PyArrowFileIO.parse_location(self.location, dict(self.properties))
        return PyArrowFileIO(dict(self.properties)).fs_by_scheme(scheme, authority), path


def folder_of_namespace(catalog: Catalog, namespace: str) -> Folder | None:
    """Where new tables of a namespace go, if the catalog tells: Spark's and PyIceberg's SQL catalogs agree on that."""
    from pyiceberg.exceptions import NoSuchNamespaceError

    try:
        location = catalog.load_namespace_properties(tuple(namespace.split("."))).get("location")
    except NoSuchNamespaceError:
        location = None
    warehouse = catalog.properties.get("warehouse")
    if location is None and warehouse and (SCHEME.fullmatch(warehouse) or warehouse.startswith("/")):
        location = "/".join((warehouse.rstrip("/"), *namespace.split(".")))
    return None if location is None else Folder(location.rstrip("/"), catalog.properties)
