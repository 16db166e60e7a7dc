"""Lets SQLite read a database of an object storage page by page, through a virtual file system of APSW.

    with registered(RangedFile(storage, "data/…/shard.sqlite", size)) as uri:
        apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)

The invariant: nothing is ever written, locked or looked for beside the file: a shard is immutable, and is opened so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from typing import Any

import apsw

from airflow_snowpack.builds.ranged_file import RangedFile

VFS = "snowpack-ranges"

_files: dict[str, RangedFile] = {}
_names = count(1)


@contextmanager
def registered(file: RangedFile) -> Iterator[str]:
    """The URI under which SQLite opens a file; a connection that was opened goes on reading after the end."""
    _vfs()
    name = f"/{next(_names)}"
    _files[name] = file
    try:
        yield f"file:{name}?vfs={VFS}&mode=ro&immutable=1"
    finally:
        del _files[name]


class _Vfs(apsw.VFS):
    def __init__(self) -> None:
        super().__init__(VFS, "")

    def xOpen(self, name: Any, flags: list[int]) -> Any:  # noqa: N802 - SQLite's name
        flags[1] = flags[0]
        return _File(_files[name.filename() if isinstance(name, apsw.URIFilename) else name])

    def xAccess(self, pathname: str, flags: int) -> bool:  # noqa: N802
        return False

    def xFullPathname(self, name: str) -> str:  # noqa: N802
        return name


class _File:
    """What SQLite asks of a file that is only read; APSW takes any object that has these methods."""

    def __init__(self, file: RangedFile) -> None:
        self._file = file

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        return self._file.read(offset, amount)

    def xFileSize(self) -> int:  # noqa: N802
        return self._file.size

    def xLock(self, level: int) -> None:  # noqa: N802
        """There is nothing to lock."""

    def xUnlock(self, level: int) -> None:  # noqa: N802
        """There is nothing to unlock."""

    def xCheckReservedLock(self) -> bool:  # noqa: N802
        return False

    def xFileControl(self, op: int, pointer: int) -> bool:  # noqa: N802
        return False

    def xSectorSize(self) -> int:  # noqa: N802
        return 4096

    def xDeviceCharacteristics(self) -> int:  # noqa: N802
        return int(apsw.SQLITE_IOCAP_IMMUTABLE)

    def xClose(self) -> None:  # noqa: N802
        """The file is shared by all connections of the shard's reader."""


@cache
def _vfs() -> _Vfs:
    """Registered once for the process."""
    return _Vfs()
