"""Orphan files as a removal: what is listed at the plan, and what guards a listed file when it is deleted.

The invariant: a file is deleted only if it is the very file that was listed, by path, size and modification time, if no metadata
of its table names it now, and if no other table has come to keep files in its location.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from airflow_snowpack.iceberg import location_conflicts, stat_files
from airflow_snowpack.iceberg.locations import is_inside
from airflow_snowpack.maintenance.removals.errors import RemovalRefused
from airflow_snowpack.maintenance.removals.model import ItemOutcome, RemovalItem, RemovalKind
from airflow_snowpack.maintenance.removals.options import ORPHAN_AGE_FLOOR

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from pyiceberg.table import Table

    from airflow_snowpack.iceberg import StoredFile
    from airflow_snowpack.maintenance.action_run import ActionRun
    from airflow_snowpack.maintenance.removals.model import Removal

BATCH_PARTS = 20
STATS_PER_CALL = 1_000
UNKNOWN_TIME = "its modification time cannot be read"
NAMED_NOW = "metadata of the table names it now"
REPLACED = "it was written again after the plan"
TOO_YOUNG = "it is younger than 24 h by this worker's clock"
OUTSIDE = "it is outside the table's location"


def refuse_foreign(run: ActionRun, location: str, trust_since: datetime | None = None) -> None:
    """Refuse a removal from a location in which other tables keep files.

    :param trust_since: what was read of a table since then is not read again.
    :raises RemovalRefused: another table keeps files in the location.
    """
    conflicts = location_conflicts(run.catalog, run.name, run.locations, location=location, trust_since=trust_since)
    if conflicts:
        raise RemovalRefused(
            f"Files of other tables lie where {run.name.dotted} keeps its own ({location!r}): "
            f"{'; '.join(str(conflict) for conflict in conflicts[:5])}. To this table they would be orphans. Move one of the "
            "tables, or leave remove_orphan_files out."
        )


def planned_files(table: Table, paths: Iterable[str], *, older_than: datetime, skipped: Counter[str]) -> Iterator[RemovalItem]:
    """Return the files of a plan with their sizes and modification times.

    :param skipped: counts the paths that are not listed, by reason.
    :raises OSError: the storage does not answer.
    """
    rest = iter(paths)
    while some := list(islice(rest, STATS_PER_CALL)):
        for path, file in zip(some, stat_files(table, some), strict=True):
            if file is None:
                skipped["it no longer exists"] += 1
            elif file.modified_at is None:
                skipped[UNKNOWN_TIME] += 1
            elif file.modified_at >= older_than:
                skipped["it is too young"] += 1
            else:
                yield RemovalItem(path, file.bytes, file.modified_at)


@dataclass(frozen=True, slots=True)
class OrphanFiles:
    """Guards and deletes orphan files.

    :param remove: takes the options of the plan and paths, deletes those that no metadata of the table names, and returns them.
    """

    remove: Callable[[ActionRun, Mapping[str, Any], Sequence[str]], Collection[str]]
    kind: RemovalKind = RemovalKind.ORPHANS
    files: Mapping[str, int] = field(default_factory=dict)

    @property
    def batch_parts(self) -> int:
        """Return how many parts one call of the procedure gets: for each call, it reads the metadata of the whole table."""
        return BATCH_PARTS

    def guard(self, run: ActionRun, removal: Removal, table: Table, items: Sequence[RemovalItem]) -> list[RemovalItem]:
        """Pass the files that are still the listed ones.

        :raises RemovalRefused: another table keeps files in the location now.
        """
        refuse_foreign(run, removal.location)
        stored = stat_files(table, [item.name for item in items])
        return [_guarded(item, file, removal, run.now) for item, file in zip(items, stored, strict=True)]

    def delete(self, run: ActionRun, removal: Removal, items: Sequence[RemovalItem]) -> list[RemovalItem]:
        """Delete the files, and read what is left of them: the procedure reports a file that it failed to delete as deleted."""
        removed = set(self.remove(run, removal.settings, [item.name for item in items]))
        stored = stat_files(run.table(), [item.name for item in items])
        return [_result(item, item.name in removed, file) for item, file in zip(items, stored, strict=True)]


def _guarded(item: RemovalItem, file: StoredFile | None, removal: Removal, now: datetime) -> RemovalItem:
    if not is_inside(item.name, removal.location):
        return _left_out(item, OUTSIDE)
    if file is None:
        # An earlier attempt had begun to delete it.
        outcome = ItemOutcome.DELETED if item.outcome is ItemOutcome.STARTED else ItemOutcome.GONE
        return replace(item, outcome=outcome)
    if file.modified_at is None or item.at is None:
        return _left_out(item, UNKNOWN_TIME)
    if (file.modified_at, file.bytes) != (item.at, item.bytes):
        return _left_out(item, REPLACED)
    if file.modified_at > now - ORPHAN_AGE_FLOOR:
        return _left_out(item, TOO_YOUNG)
    return replace(item, outcome=ItemOutcome.STARTED)


def _result(item: RemovalItem, removed: bool, file: StoredFile | None) -> RemovalItem:
    if file is None:
        return replace(item, outcome=ItemOutcome.DELETED if removed else ItemOutcome.GONE)
    return item if removed else _left_out(item, NAMED_NOW)


def _left_out(item: RemovalItem, reason: str) -> RemovalItem:
    return replace(item, outcome=ItemOutcome.LEFT_OUT, reason=reason)
