"""A storage whose calls fail when a test says so: a file system of pyarrow's, wrapped at its outermost edge.

flaky = failing_storage(tmp_path, every_third())
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
from pyarrow import fs

from airflow_snowpack.builds.storage import Storage

Fails = Callable[[str, str], None]
"""Is told of each call, by its name and path, and raises what the call is to fail with."""

CALLS = (
    "get_file_info",
    "get_file_info_selector",
    "open_input_stream",
    "open_output_stream",
    "delete_file",
    "delete_dir",
)


class _Wrapped(fs.FSSpecHandler):
    """The local disk as fsspec sees it, with a look at each call before it."""

    def __init__(self, before: Fails) -> None:
        super().__init__(fsspec.filesystem("file", auto_mkdir=True))
        self._before = before


def _looked_at(name: str) -> Callable[..., Any]:
    inner = getattr(fs.FSSpecHandler, name)

    def call(self: _Wrapped, what: Any, *arguments: Any, **named: Any) -> Any:
        path = what[0] if isinstance(what, list) else getattr(what, "base_dir", what)
        self._before(name, str(path))
        return inner(self, what, *arguments, **named)

    return call


for _name in CALLS:
    setattr(_Wrapped, _name, _looked_at(_name))


def failing_storage(folder: Path, before: Fails) -> Storage:
    """The storage of a folder; it never waits between its tries."""
    return Storage(folder, filesystem=fs.PyFileSystem(_Wrapped(before)), sleep=lambda _: None)


def every_third() -> Fails:
    """Each third call of a thread fails, of whatever kind it is."""
    calls = threading.local()

    def before(name: str, path: str) -> None:
        calls.made = getattr(calls, "made", 0) + 1
        if calls.made % 3 == 0:
            raise OSError(f"{name} of {path} is call {calls.made}, and each third one fails")

    return before
