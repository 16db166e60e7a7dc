"""Locations of tables and files, made comparable.

    >>> normalise("file:/warehouse/db/flights"), normalise("s3a://lake/db//flights/")
    ('/warehouse/db/flights', 's3://lake/db/flights')
    >>> relation_of("file:///warehouse/db/flights", "/warehouse/db/flights_2")
    >>> relation_of("file:///warehouse/db/flights", "/warehouse/db/flights/old")
    <Relation.AROUND: 'around'>

The invariant: two spellings of one place compare as equal, and folders are compared as folders, so ``flights`` is no prefix of
``flights_2``. Where spellings are ambiguous (a doubled slash in an object store) the answer errs towards "the same place", since
what hangs on it is whether files may be deleted.
"""

from __future__ import annotations

import posixpath
import re
from enum import StrEnum

SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?P<rest>/.*)", re.DOTALL)
# Names that differ by the client library and mean one store.
ONE_STORE = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "wasbs": "wasb"}


class Relation(StrEnum):
    """Where a second location lies, seen from a first one."""

    SAME = "same"
    INSIDE = "inside"
    AROUND = "around"


def normalise(location: str) -> str:
    """One spelling per place, without a slash at the end. A local path comes back without a scheme."""
    match = SCHEME.fullmatch(location)
    scheme, rest = (match["scheme"].lower(), match["rest"]) if match else ("file", location)
    authority, path = "", rest
    if rest.startswith("//"):
        authority, slash, tail = rest[2:].partition("/")
        path = slash + tail
    # normpath keeps exactly two leading slashes, which POSIX allows to mean something else; here they do not.
    clean = "/" + posixpath.normpath(path or "/").strip("/")
    if scheme == "file":
        return clean
    return f"{ONE_STORE.get(scheme, scheme)}://{authority.lower()}{clean}".rstrip("/")


def is_inside(location: str, folder: str) -> bool:
    """Whether a location is the folder or lies below it."""
    return f"{normalise(location)}/".startswith(f"{normalise(folder).rstrip('/')}/")


def relation_of(first: str, second: str) -> Relation | None:
    """How a first location lies to a second; ``None`` when they have nothing in common.

    ``INSIDE``: the first is inside the second. ``AROUND``: the first contains the second.
    """
    if normalise(first) == normalise(second):
        return Relation.SAME
    if is_inside(first, second):
        return Relation.INSIDE
    return Relation.AROUND if is_inside(second, first) else None
