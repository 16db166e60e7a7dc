"""The real commits of a table: which files and manifests each of them added and removed.

The invariant: each manifest is opened once. A commit's changes are the difference between the manifests of its snapshot and its
parent's, whatever engine wrote it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.iceberg.health.model import moment
from airflow_snowpack.iceberg.metadata_reader import LiveDelete, LiveFile, read_entries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

File = LiveFile | LiveDelete
Key = str | tuple[str, str | None]
REPLACE = "replace"


class NoHistory(SnowpackError, kind=Kind.INVALID):
    """The table has no commits to replay."""

    def __init__(self, table: str) -> None:
        super().__init__(f"The table {table!r} has no current snapshot, so there is nothing to replay.")


@dataclass(slots=True)
class ReplayedManifest:
    """A manifest of a recorded or simulated snapshot, with the keys of its live files."""

    path: str
    bytes: int
    is_data: bool
    spec_id: int
    files: set[Key]


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit to ``main``, and what it changed.

    :param sequence: its sequence number; 0 in format version 1.
    :param operation: ``append``, ``overwrite``, ``delete``, ``replace`` or ``unknown``.
    """

    snapshot_id: int
    sequence: int
    at: datetime
    operation: str
    added: tuple[File, ...]
    removed: tuple[File, ...]
    added_manifests: tuple[ReplayedManifest, ...]
    removed_manifests: tuple[ReplayedManifest, ...]

    @property
    def is_maintenance(self) -> bool:
        """Whether it changed no rows: a compaction, or a rewrite of manifests or deletes."""
        return self.operation == REPLACE


@dataclass(frozen=True, slots=True)
class TableHistory:
    """The commits of a table from a first state on.

    :param table: as loaded.
    :param begin: when the replay begins: the requested time, or that of the first state if it is later.
    :param start: the first state, as a commit that adds all of it.
    :param earlier: ids and times of the snapshots before it that the table still has, oldest first.
    :param commits: those after it, oldest first.
    :param abandoned: how many snapshots were current at or after the requested time and do not lead to the current one, because
        the table was rolled back or replaced.
    """

    table: Table
    begin: datetime
    start: Commit
    earlier: tuple[tuple[int, datetime], ...]
    commits: tuple[Commit, ...]
    abandoned: int = 0

    @property
    def compaction_ratio(self) -> float:
        """The bytes written per byte read by the table's real compactions; 1 without any."""
        compactions = [commit for commit in self.commits if commit.is_maintenance]
        read = sum(file.bytes for commit in compactions for file in commit.removed if isinstance(file, LiveFile))
        written = sum(file.bytes for commit in compactions for file in commit.added if isinstance(file, LiveFile))
        return written / read if read and written else 1.0


def key_of(file: File) -> Key:
    """Return the key of a file; one file may have the deletion vectors of several data files."""
    return file.path if isinstance(file, LiveFile) else (file.path, file.data_file)


def read_history(table: Table, since: datetime) -> TableHistory:
    """Read the commits to ``main`` since a given time, and the state that they start from.

    That is the last snapshot at or before the time or, if the table has expired it, the oldest one.

    :raises NoHistory: the table has no snapshot.
    :raises OSError, ValueError: a manifest cannot be read.
    """
    line = list(_line(table))
    if not line:
        raise NoHistory(".".join(table.name()))
    before = [place for place, snapshot in enumerate(line) if moment(snapshot.timestamp_ms) <= since]
    first = before[-1] if before else 0
    commits = list(_commits(table, line[first:]))
    earlier = tuple((each.snapshot_id, moment(each.timestamp_ms)) for each in line[:first])
    begin = max(since, commits[0].at)
    return TableHistory(table, begin, commits[0], earlier, tuple(commits[1:]), _abandoned(table, line, since))


def _abandoned(table: Table, line: list[Snapshot], since: datetime) -> int:
    others = {each.snapshot_id for each in table.metadata.snapshots} - {each.snapshot_id for each in line}
    log = table.metadata.snapshot_log
    current_until = [(each.snapshot_id, moment(following.timestamp_ms)) for each, following in pairwise(log)]
    return len({snapshot_id for snapshot_id, until in current_until if snapshot_id in others and until > since})


def _line(table: Table) -> Iterator[Snapshot]:
    """Yield the current snapshot and its ancestors, oldest first, as far as the table still has them."""
    found, following = [], table.metadata.current_snapshot_id
    by_id = {each.snapshot_id: each for each in table.metadata.snapshots}  # PyIceberg scans all snapshots to find one
    while following is not None and (snapshot := by_id.get(following)) is not None:
        found.append(snapshot)
        following = snapshot.parent_snapshot_id
    yield from reversed(found)


def _commits(table: Table, line: list[Snapshot]) -> Iterator[Commit]:
    contents: dict[str, tuple[ReplayedManifest, dict[Key, File]]] = {}
    for snapshot in line:
        manifests = {manifest.manifest_path: manifest for manifest in snapshot.manifests(table.io)}
        gone = {path: contents[path] for path in contents.keys() - manifests.keys()}
        new = {path: _open(table, manifests[path]) for path in manifests if path not in contents}
        yield _commit(snapshot, new, gone)
        contents = {path: new.get(path) or contents[path] for path in manifests}


def _open(table: Table, manifest: ManifestFile) -> tuple[ReplayedManifest, dict[Key, File]]:
    from pyiceberg.manifest import ManifestContent

    files: dict[Key, File] = {key_of(file): file for file in read_entries(manifest, table.io)}
    is_data = manifest.content == ManifestContent.DATA
    place = (manifest.manifest_path, manifest.manifest_length, is_data, manifest.partition_spec_id)
    return ReplayedManifest(*place, set(files)), files


def _commit(
    snapshot: Snapshot,
    new: dict[str, tuple[ReplayedManifest, dict[Key, File]]],
    gone: dict[str, tuple[ReplayedManifest, dict[Key, File]]],
) -> Commit:
    now = {key: file for _, files in new.values() for key, file in files.items()}
    before = {key: file for _, files in gone.values() for key, file in files.items()}
    return Commit(
        snapshot.snapshot_id,
        snapshot.sequence_number or 0,
        moment(snapshot.timestamp_ms),
        snapshot.summary.operation.value if snapshot.summary else "unknown",
        added=tuple(file for key, file in now.items() if key not in before),
        removed=tuple(file for key, file in before.items() if key not in now),
        added_manifests=tuple(manifest for manifest, _ in new.values()),
        removed_manifests=tuple(manifest for manifest, _ in gone.values()),
    )
