"""Places: the canonical spelling of a place, and whether two places are, contain, or may be each other.

    >>> normalise("file:/warehouse/db/flights"), normalise("s3a://lake/db//flights/")
    ('/warehouse/db/flights', 's3://lake/db/flights')
    >>> relation_of("file:///warehouse/db/flights", "/warehouse/db/flights_2")
    >>> relation_of("file:///warehouse/db/flights", "/warehouse/db/flights/old")
    <Relation.AROUND: 'around'>
    >>> relation_of("hdfs://nn:8020/db/flights", "hdfs:///db/flights")
    <Relation.UNDECIDED: 'undecided'>

The invariants: two spellings of one place compare as equal, and folders are compared as folders: ``flights`` is not a prefix of
``flights_2``. A local folder is compared by its real path, since a symbolic link leads to the files of another one. The result
decides whether files may be deleted: where spellings are ambiguous (a doubled slash in an object store), it errs towards "the
same place", and where only the cluster could decide (which name node ``hdfs:///`` means), it is :attr:`Relation.UNDECIDED`.
:class:`Equalities` decides such cases as ``equal_schemes`` and ``equal_authorities`` of Iceberg do.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import quote, unquote

SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?P<rest>/.*|)", re.DOTALL)
# Names that differ by client library and mean one store.
ONE_STORE = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "wasb": "abfs", "wasbs": "abfs"}
TOP = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:)?(//[^/]*)?")
AZURE_HOST = re.compile(r"(?P<container>[^@/]+)@(?P<account>[^./]+)\.(?:blob|dfs)\.(?P<domain>.+)")
"""The host of a container, for the drivers of Blob Storage (``wasb``) and Data Lake (``abfs``)."""
HADOOP = frozenset({"hdfs", "webhdfs", "swebhdfs"})
"""Schemes whose authorities are host names, name services, ports, or missing: different ones may mean one cluster."""
STORES = HADOOP | {"file", "s3", "gs", "abfs", "oss", "cosn", "obs", "oci", "tos", "swift"}
"""Schemes whose paths are those of the files. Any other, such as ``viewfs`` and ``dbfs``, may have the paths of a mount table."""
UNIQUE_FILE = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}[^/]*$", re.IGNORECASE)
LOCATION_PROPERTIES = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
"""Properties by which a table may store files outside its location."""


class Relation(StrEnum):
    """Where one location lies relative to another."""

    SAME = "same"
    INSIDE = "inside"
    AROUND = "around"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Equalities:
    """What the owner of a table has decided about schemes and authorities.

    :param schemes: such as ``{"s3a,s3n": "s3"}``: each name of a key means the value.
    :param authorities: in the same form; two that mean different values are known to be different.
    """

    schemes: tuple[tuple[str, str], ...] = ()
    authorities: tuple[tuple[str, str], ...] = ()

    def scheme(self, name: str) -> str | None:
        """Return what a scheme means; ``None`` for one that is not listed."""
        return _meaning(self.schemes, name)

    def authority(self, name: str) -> str | None:
        """Return what an authority means; ``None`` for one that is not listed."""
        return _meaning(self.authorities, name)


NOTHING_DECIDED = Equalities()


def _meaning(pairs: Iterable[tuple[str, str]], name: str) -> str | None:
    for names, meaning in pairs:
        meant = meaning.strip().lower()
        if name in (meant, *(each.strip().lower() for each in names.split(","))):
            return meant
    return None


@dataclass(frozen=True, slots=True)
class StoragePlace:
    """A folder or a file in its canonical spelling.

    :param scheme: such as ``s3``; ``file`` also for a path without a scheme, which is local or in Hadoop's default file system.
    :param path: without a slash at the end, and empty for the root; of a local folder, its real path.
    :param is_mounted: the path may be that of a mount table.
    :param decided: the owner has listed the authority, so it differs from every other one that is listed.
    :param scheme_decided: the same for the scheme.
    """

    scheme: str
    authority: str
    path: str
    has_scheme: bool = field(default=True, compare=False)
    is_mounted: bool = field(default=False, compare=False)
    decided: bool = field(default=False, compare=False)
    scheme_decided: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def normalise(location: str) -> str:
    """Return the canonical spelling of a place, without a slash at the end; of a local path without a scheme."""
    scheme, authority, path = _split(location)
    if scheme == "file":
        return path or "/"
    return f"{scheme}://{authority}{path}"


def place_of(location: str, equal: Equalities = NOTHING_DECIDED) -> StoragePlace:
    """Return the place that a location means; symbolic links of a local one are followed."""
    match = SCHEME.fullmatch(location)
    scheme, authority, path = _split(location)
    listed = equal.scheme(match["scheme"].lower() if match else scheme)
    means = ONE_STORE.get(listed, listed) if listed else scheme
    if scheme == "file":
        authority, path = "", os.path.realpath(path or "/").rstrip("/")
    meant = equal.authority(authority)
    decided, authority = meant is not None, authority if meant is None else meant
    return StoragePlace(means, authority, path, match is not None, scheme not in STORES, decided, listed is not None)


def _split(location: str) -> tuple[str, str, str]:
    match = SCHEME.fullmatch(location)
    scheme, rest = (match["scheme"].lower(), match["rest"]) if match else ("file", location)
    authority, path = "", rest
    if rest.startswith("//"):
        authority, slash, tail = rest[2:].partition("/")
        path = slash + tail
    # normpath keeps exactly two leading slashes, which POSIX allows to mean something else; here they do not.
    clean = "/" + posixpath.normpath(path or "/").strip("/")
    authority = authority.lower()
    if azure := AZURE_HOST.fullmatch(authority):
        authority = f"{azure['container']}@{azure['account']}.{azure['domain']}"
    return ONE_STORE.get(scheme, scheme), authority, clean.rstrip("/")


def scheme_of(location: str) -> str:
    """Return the scheme of a location in lower case, the same for each name of a store; ``file`` for a path."""
    match = SCHEME.fullmatch(location)
    scheme = match["scheme"].lower() if match else "file"
    return ONE_STORE.get(scheme, scheme)


def storage_path(location: str, properties: Mapping[str, str]) -> tuple[str, str, str]:
    """Return the scheme, the authority and the path for PyArrow's file systems, with every character of the path.

    PyIceberg treats a location as a URL, whose path ends at ``#`` or ``?``, and would open another file or folder.
    """
    from pyiceberg.io.pyarrow import PyArrowFileIO

    scheme, authority, path = PyArrowFileIO.parse_location(quote(location, safe=":/@"), dict(properties))
    return scheme, unquote(authority), unquote(path)


def is_written_once(metadata_location: str) -> bool:
    """Return whether no other metadata gets this name; a later table may have one without a UUID: ``v3.metadata.json``."""
    return UNIQUE_FILE.search(metadata_location) is not None


def is_inside(location: str, folder: str) -> bool:
    """Return whether a location is the folder or lies below it."""
    return f"{normalise(location)}/".startswith(f"{normalise(folder).rstrip('/')}/")


def relation_of(first: str, second: str) -> Relation | None:
    """Return where the first lies relative to the second; ``None`` if neither contains the other."""
    return relation_of_places(place_of(first), place_of(second))


def relation_of_places(first: StoragePlace, second: StoragePlace) -> Relation | None:
    """Return where the first lies relative to the second; ``None`` if neither contains the other."""
    relation = _relation_of_paths(first.path, second.path)
    if (first.scheme, first.authority) == (second.scheme, second.authority):
        return relation
    is_mounted = first.is_mounted or second.is_mounted
    return Relation.UNDECIDED if (relation or is_mounted) and _may_be_one_store(first, second) else None


def _relation_of_paths(first: str, second: str) -> Relation | None:
    if first == second:
        return Relation.SAME
    if first.startswith(f"{second}/"):
        return Relation.INSIDE
    return Relation.AROUND if second.startswith(f"{first}/") else None


def _may_be_one_store(first: StoragePlace, second: StoragePlace) -> bool:
    """Return whether two file systems with different spellings may be the same one."""
    schemes, authorities = {first.scheme, second.scheme}, {first.authority, second.authority}
    if len(schemes) > 1 and first.scheme_decided and second.scheme_decided:
        return False
    if len(authorities) > 1 and first.decided and second.decided:
        return False
    if first.is_mounted or second.is_mounted or schemes <= HADOOP:
        return True
    if "file" in schemes:
        # Without a scheme, a path is in Hadoop's default file system.
        local, other = (first, second) if first.scheme == "file" else (second, first)
        return not local.has_scheme and other.scheme in HADOOP
    if schemes == {"abfs"}:
        # The account may be left out: the container alone is then the host.
        return "@" not in min(authorities, key=len) and len({each.partition("@")[0] for each in authorities}) == 1
    # Some providers serve a bucket by several protocols. Two buckets of one protocol are different.
    return len(schemes) > 1 and not schemes & HADOOP and (len(authorities) == 1 or "" in authorities)


class Spelling:
    """Spells files as places, to compare what storages list with what metadata names. It resolves each folder once."""

    def __init__(self, equal: Equalities = NOTHING_DECIDED) -> None:
        self._equal = equal
        self._folders: dict[str, str] = {}

    def __call__(self, path: str) -> str:
        folder, _, name = path.rpartition("/")
        known = self._folders.get(folder)
        if known is None:
            known = self._folders[folder] = str(place_of(folder or "/", self._equal))
        return f"{known}/{name}"


def parent(location: str) -> str:
    """Return the folder that contains a file or a folder; a whole file system or bucket contains itself."""
    location = location.rstrip("/")
    return location if TOP.fullmatch(location) else posixpath.dirname(location)


def leads_elsewhere(folder: str, around: str) -> bool:
    """Return whether a local folder is reached through a symbolic link below ``around``, and therefore has another path, too."""
    place = place_of(around)
    below = normalise(folder).removeprefix(normalise(around))
    return place.scheme == "file" and place_of(folder).path != f"{place.path}{below}".rstrip("/")
