"""Orphan files as a removal: how files are listed for a plan, and guarded when they are deleted.

The invariant: a file is deleted only if it is exactly the listed file (by path, size and modification time), no metadata of its
table or of another table names it now, and no other table keeps files in its location since.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from airflow_snowpack.iceberg import Equalities, ForeignFiles, MetadataReader, TableUnreadable, stat_files
from airflow_snowpack.iceberg.catalog import unreadable_errors
from airflow_snowpack.iceberg.locations import (
    NOTHING_DECIDED,
    Spelling,
    is_inside,
    is_written_once,
    leads_elsewhere,
    parent,
    place_of,
)
from airflow_snowpack.iceberg.quarantine import FOLDER
from airflow_snowpack.maintenance.removals.errors import RemovalRefused
from airflow_snowpack.maintenance.removals.model import ItemOutcome, RemovalItem, RemovalKind
from airflow_snowpack.maintenance.removals.options import ORPHAN_AGE_FLOOR
from airflow_snowpack.maintenance.removals.quarantine import check_means, held_before, quarantine_of, take_away
from airflow_snowpack.maintenance.removals.running import removals_of

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from pyiceberg.table import Table

    from airflow_snowpack.iceberg import StoredFile
    from airflow_snowpack.maintenance.action_run import ActionRun
    from airflow_snowpack.maintenance.removals.model import Removal

BATCH_PARTS = 20
STATS_PER_CALL = 20_000
UNKNOWN_TIME = "its modification time cannot be read"
NAMED_NOW = "metadata of the table names it now"
REPLACED = "it was written again after the plan"
TOO_YOUNG = "it is younger than 24 h by this worker's clock"
OUTSIDE = "it is outside the table's location"
IN_QUARANTINE = "it is in quarantine after a removal"
BEHIND_LINK = "it lies behind a symbolic link (see follow_symlinks)"
NAMED_BY = "the table {} names it"


@dataclass(frozen=True, slots=True)
class ForeignGuard:
    """Protects files of other tables.

    :param follow_symlinks: compare a file behind a symbolic link by its real path, instead of keeping it.
    :param read: the files that nearby tables name, cached between the batches of a list.
    """

    equal: Equalities = NOTHING_DECIDED
    follow_symlinks: bool = False
    read: dict[str, frozenset[str]] = field(default_factory=dict)

    def refuse_shared(self, run: ActionRun, location: str, trust_since: datetime | None = None) -> ForeignFiles:
        """Return the other tables; refuse a removal from a location in which one of them keeps files.

        :param trust_since: reads of tables since then are reused.
        :raises RemovalRefused: another table keeps files in the location, or may do so.
        """
        foreign = ForeignFiles.of(
            run.catalog, run.name, run.footprints, trust_since=trust_since, equal=self.equal, read=self.read
        )
        if conflicts := foreign.conflicts(location):
            raise RemovalRefused(
                f"Files of other tables lie where {run.name.dotted} keeps its own ({location!r}): "
                f"{'; '.join(str(conflict) for conflict in conflicts[:5])}. To this table they would be orphans. Move one of the "
                "tables, or leave remove_orphan_files out."
            )
        return foreign

    def reasons(self, reader: MetadataReader, foreign: ForeignFiles, paths: Sequence[str], location: str) -> dict[str, str]:
        """Return by path why files are kept; the others may be deleted.

        :param reader: of the table that the files belong to.
        :raises TableUnreadable: the metadata of a table that has files in the location cannot be read.
        """
        # Iceberg does not list hidden folders, unless its listing by prefix spells the location differently.
        kept = {path: IN_QUARANTINE for path in paths if f"/{FOLDER}/" in path}
        kept |= {path: NAMED_BY.format(label) for path, label in foreign.named(paths, [location]).items()}
        links = {folder for folder in set(map(parent, paths)) if leads_elsewhere(folder, location)}
        linked = [path for path in paths if path not in kept and parent(path) in links]
        if place_of(location).scheme == "file":
            # Iceberg compares text, but a symbolic link gives a file of the table a second path.
            spelling, own = Spelling(self.equal), self._own_files(reader)
            kept |= {path: NAMED_NOW for path in paths if spelling(path) in own}
        if not self.follow_symlinks:
            return dict.fromkeys(linked, BEHIND_LINK) | kept
        return kept | {path: NAMED_BY.format(label) for path, label in foreign.named(linked, links).items()}

    def _own_files(self, reader: MetadataReader) -> frozenset[str]:
        location = reader.table.metadata_location
        if location not in self.read or not is_written_once(location):
            try:
                self.read[location] = reader.referenced_files(Spelling(self.equal))
            except unreadable_errors() as error:
                raise TableUnreadable(".".join(reader.table.name()), error) from error
        return self.read[location]

    def planned(
        self, table: Table, foreign: ForeignFiles, paths: Iterable[str], *, older_than: datetime, skipped: Counter[str]
    ) -> Iterator[RemovalItem]:
        """Yield the files of a plan with their sizes and modification times.

        :param skipped: counts the paths that are not listed, by reason.
        :raises OSError: the storage does not answer.
        """
        rest, reader = iter(paths), MetadataReader(table)
        while some := list(islice(rest, STATS_PER_CALL)):
            kept = self.reasons(reader, foreign, some, table.location())
            for path, file in zip(some, stat_files(table, some), strict=True):
                if file is None:
                    skipped["it no longer exists"] += 1
                elif path in kept:
                    skipped[kept[path]] += 1
                elif file.modified_at is None:
                    skipped[UNKNOWN_TIME] += 1
                elif file.modified_at >= older_than:
                    skipped["it is too young"] += 1
                else:
                    yield RemovalItem(path, file.bytes, file.modified_at)


@dataclass(frozen=True, slots=True)
class OrphanFiles:
    """Guards and deletes orphan files, or moves them to quarantine.

    :param remove: takes the plan's options and paths, deletes those that no metadata of the table names, and returns them. For
        quarantine, it only returns them.
    :param foreign: takes the plan's options, and returns the guard of other tables' files.
    """

    remove: Callable[[ActionRun, Mapping[str, Any], Sequence[str]], Collection[str]]
    foreign: Callable[[Mapping[str, Any]], ForeignGuard] = lambda _: ForeignGuard()
    kind: RemovalKind = RemovalKind.ORPHANS
    files: Mapping[str, int] = field(default_factory=dict)

    @property
    def batch_parts(self) -> int:
        """How many parts one procedure call gets; each call reads the metadata of the whole table."""
        return BATCH_PARTS

    def guard(self, run: ActionRun, removal: Removal, table: Table, items: Sequence[RemovalItem]) -> list[RemovalItem]:
        """Pass the files that are still the listed ones.

        :raises RemovalRefused: another table keeps files in the location now, or may do so.
        """
        guard, paths = self.foreign(removal.settings), [item.name for item in items]
        foreign = guard.refuse_shared(run, removal.location)
        stored, kept = stat_files(table, paths), guard.reasons(MetadataReader(table), foreign, paths, removal.location)
        found = zip(items, stored, strict=True)
        guarded = [_guarded(item, file, removal, run.now, kept.get(item.name)) for item, file in found]
        if removal.quarantine is None:
            return guarded
        check_means(removal, table)
        quarantine = quarantine_of(removal, table.io.properties)
        return held_before(quarantine, items, guarded)

    def delete(self, run: ActionRun, removal: Removal, items: Sequence[RemovalItem]) -> list[RemovalItem]:
        """Delete the files, or only compare them with the metadata for quarantine, and return the outcomes.

        The storage is checked, because the procedure reports files that it failed to delete as deleted.
        """
        removed = set(self.remove(run, removal.settings, [item.name for item in items]))
        if removal.quarantine is not None:
            return _taken_away(run, removal, items, removed)
        stored = stat_files(run.table(), [item.name for item in items])
        return [_result(item, item.name in removed, file) for item, file in zip(items, stored, strict=True)]


def _guarded(item: RemovalItem, file: StoredFile | None, removal: Removal, now: datetime, kept: str | None) -> RemovalItem:
    if not is_inside(item.name, removal.location):
        return _left_out(item, OUTSIDE)
    if file is None:
        # STARTED: an earlier attempt had begun to delete it.
        outcome = ItemOutcome.DELETED if item.outcome is ItemOutcome.STARTED else ItemOutcome.GONE
        return replace(item, outcome=outcome)
    if kept is not None:
        return _left_out(item, kept)
    if file.modified_at is None or item.at is None:
        return _left_out(item, UNKNOWN_TIME)
    if (file.modified_at, file.bytes) != (item.at, item.bytes):
        return _left_out(item, REPLACED)
    if file.modified_at > now - ORPHAN_AGE_FLOOR:
        return _left_out(item, TOO_YOUNG)
    return replace(item, outcome=ItemOutcome.STARTED)


def _taken_away(run: ActionRun, removal: Removal, items: Sequence[RemovalItem], unnamed: Collection[str]) -> list[RemovalItem]:
    quarantine = quarantine_of(removal, run.table().io.properties)
    removals_of(run).records.begin_quarantine(removal)
    unnamed_items = [item for item in items if item.name in unnamed]
    taken = {item.name: item for item in take_away(quarantine, unnamed_items, lambda: run.work.interrupted)}
    return [taken.get(item.name) or _left_out(item, NAMED_NOW) for item in items]


def _result(item: RemovalItem, removed: bool, file: StoredFile | None) -> RemovalItem:
    if file is None:
        return replace(item, outcome=ItemOutcome.DELETED if removed else ItemOutcome.GONE)
    return item if removed else _left_out(item, NAMED_NOW)


def _left_out(item: RemovalItem, reason: str) -> RemovalItem:
    return replace(item, outcome=ItemOutcome.LEFT_OUT, reason=reason)
