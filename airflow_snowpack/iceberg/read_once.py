"""A table's file access that reads each file once, for PyIceberg's repeated scans of the same manifests.

    >>> io = ReadOnce(table.io)  # doctest: +SKIP

Import this module where it is used: it loads PyIceberg.
"""

from __future__ import annotations

from io import BytesIO

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile  # noqa: TID253 - see above


class ReadOnce(FileIO):
    """Reads each file once and keeps its bytes; writes nothing."""

    def __init__(self, io: FileIO) -> None:
        super().__init__(io.properties)
        self._io = io
        self._kept: dict[str, bytes] = {}

    def new_input(self, location: str) -> InputFile:
        if location not in self._kept:
            with self._io.new_input(location).open() as stream:
                self._kept[location] = stream.read()
        return KeptFile(location, self._kept[location])

    def new_output(self, location: str) -> OutputFile:
        raise NotImplementedError(f"A plan writes nothing, and not {location!r} either.")

    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise NotImplementedError(f"A plan deletes nothing, and not {location!r} either.")


class KeptFile(InputFile):
    """A file whose bytes are in memory."""

    def __init__(self, location: str, content: bytes) -> None:
        super().__init__(location)
        self._content = content

    def __len__(self) -> int:
        return len(self._content)

    def exists(self) -> bool:
        return True

    def open(self, seekable: bool = True) -> InputStream:
        return BytesIO(self._content)
