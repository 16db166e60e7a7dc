"""The files below a table's location, on a disk or on S3.

files = TableFiles(table)
sum(file.size for file in files.list())
files.copy(path, other)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyarrow.fs import FileInfo, FileSelector
from pyiceberg.io.pyarrow import PyArrowFileIO

if TYPE_CHECKING:
    from pyiceberg.table import Table


class TableFiles:
    """Reaches the files of one table as PyIceberg does, all of them and not only those that its metadata names."""

    def __init__(self, table: Table) -> None:
        io = PyArrowFileIO(table.io.properties)
        scheme, place, self._root = io.parse_location(table.location(), io.properties)
        self._system = io.fs_by_scheme(scheme, place)

    def list(self, folder: str = "") -> list[FileInfo]:
        """Return the files, or only those of a folder such as ``data``."""
        below = FileSelector(f"{self._root}/{folder}".rstrip("/"), recursive=True)
        return [found for found in self._system.get_file_info(below) if found.is_file]

    def copy(self, path: str, other: str) -> None:
        """Copy a file; paths are those of :meth:`list`."""
        self._system.copy_file(path, other)
