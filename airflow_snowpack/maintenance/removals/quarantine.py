"""Quarantine of orphan files: move them there instead of deleting them, restore them, and delete them when their time is over.

The list of a removal is the only record of what is in quarantine: the place of each file follows from its path. Before files are
moved, the removal records that they may be in quarantine. After a kill, both places of a file are checked.

The invariant: only the attempt that has the removal's fence moves files, and no file is ever overwritten.
"""

from __future__ import annotations

import logging
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.humanize import plural
from airflow_snowpack.iceberg import QuarantineNotPossible, StoredFile, load_table
from airflow_snowpack.iceberg.locations import normalise
from airflow_snowpack.iceberg.quarantine import Means, NotTaken, means_of, open_quarantine
from airflow_snowpack.iceberg.s3_objects import MOST_KEYS
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance.action_run import ActionEffect
from airflow_snowpack.maintenance.removals.errors import NothingInQuarantine, RemovalRefused
from airflow_snowpack.maintenance.removals.model import COUNTED, ItemOutcome
from airflow_snowpack.maintenance.removals.options import ALL

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from airflow_snowpack.iceberg.names import TableName
    from airflow_snowpack.iceberg.quarantine import Quarantine
    from airflow_snowpack.maintenance.removals.model import Removal, RemovalItem
    from airflow_snowpack.maintenance.removals.of_job import JobRemovals

log = logging.getLogger(__name__)

THREADS = 16
SHOWN = 5
"""How many reasons and paths an error names; the list has the others."""
PURGED_PARTS = 20
"""How many parts of lists one job deletes for good at most, before its main work."""
NEVER_TAKEN = "it was not taken away"
OCCUPIED = "another file is in its place"
MISSING = "it is neither in quarantine nor in its place"
POSSIBLY_HELD = (ItemOutcome.QUARANTINED, ItemOutcome.STARTED)
"""Outcomes of items that may be in quarantine; a killed attempt may have moved an item that it had started."""

Step = tuple[ItemOutcome, str | None]
"""The outcome of an item, and the reason."""


# --- taking files away ---


def quarantine_settings(table: Table, *, may_copy: bool) -> dict[str, str]:
    """Return how the files of a new list will be moved to quarantine, to be stored with the list.

    :raises QuarantineNotPossible: the storage cannot move files at no cost, and they may not be copied.
    """
    return {"quarantined_by": means_of(table.location(), table.io.properties, may_copy=may_copy).value}


def quarantine_of(removal: Removal, properties: Mapping[str, str]) -> Quarantine:
    """Return the quarantine of a removal; the properties are those of the access to the table's files."""
    return open_quarantine(Means(removal.settings["quarantined_by"]), removal.location, properties, removal.removal_id)


def check_means(removal: Removal, table: Table) -> None:
    """Check that files deleted now can still be restored as planned.

    :raises RemovalRefused: they cannot, for example because a bucket no longer keeps versions.
    """
    copies = removal.settings["quarantined_by"] == Means.COPY
    try:
        means_of(table.location(), table.io.properties, may_copy=copies)
    except QuarantineNotPossible as problem:
        raise RemovalRefused(f"{problem} Then plan the removal again.") from problem


def held_before(quarantine: Quarantine, before: Sequence[RemovalItem], after: Sequence[RemovalItem]) -> list[RemovalItem]:
    """Return guarded items; those that a killed attempt has moved become quarantined.

    :param before: the recorded items; ``after`` are those that the guard returned.
    :raises OSError: the storage does not answer.
    """

    def checked(was: RemovalItem, item: RemovalItem) -> RemovalItem:
        started = was.outcome is ItemOutcome.STARTED and item.outcome is not ItemOutcome.STARTED
        if started and quarantine.holds(_file(item)):
            return replace(item, outcome=ItemOutcome.QUARANTINED, reason=None)
        # With quarantine, no attempt deletes files.
        return replace(item, outcome=ItemOutcome.GONE) if item.outcome is ItemOutcome.DELETED else item

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(checked, before, after))


def take_away(quarantine: Quarantine, items: Sequence[RemovalItem], stopped: Callable[[], bool]) -> list[RemovalItem]:
    """Move files to quarantine until stopped. Failed moves stay ``STARTED``, or are left out if they can never succeed."""
    if (failed := _in_bulk(quarantine.take_in_bulk, items, stopped)) is not None:
        return [_after(item, failed, ItemOutcome.QUARANTINED) for item in items]

    def take(item: RemovalItem) -> Step:
        try:
            quarantine.take(_file(item))
        except FileNotFoundError:  # or moved just now by an attempt that has lost its job
            return (ItemOutcome.QUARANTINED if quarantine.holds(_file(item)) else ItemOutcome.GONE), None
        except NotTaken as reason:
            return ItemOutcome.LEFT_OUT, str(reason)
        return ItemOutcome.QUARANTINED, None

    return _each(items, take, stopped)


# --- restoring and deleting for good ---


def restore(
    removals: JobRemovals, catalog: Catalog, removal_id: str, paths: Collection[str], stopped: Callable[[], bool]
) -> ActionEffect:
    """Restore files, or continue an earlier attempt.

    :param removal_id: the list, or ``all`` lists of the table.
    :param paths: only these files; empty for all.
    :param stopped: whether to end early; a later attempt continues.
    :raises RemovalTakenOver: another attempt runs the job.
    :raises RemovalNotFound, NothingInQuarantine, RemovalNotPossible: nothing was restored.
    """
    records, job = removals.records, removals.job
    earlier = job.job_id if job.attempt > 1 else None
    one = None if removal_id == ALL else removals.of_table(removal_id)
    lists = records.in_quarantine(job.table, or_of_job=earlier) if one is None else [one]
    if not lists:
        raise NothingInQuarantine(job.table)
    wanted = {normalise(path): path for path in paths}
    total, reasons, found = 0, Counter[str](), set[str]()
    properties = access_properties(catalog, job.table)
    for each in reversed(lists):
        if each.quarantined_until is None and each.job_id == earlier:  # completed by an earlier attempt
            total += each.restored_count
            found |= {normalise(item.name) for item in records.items(each.removal_id) if wanted}
            continue
        walk = _Walk(removals, each.removal_id, properties, _restore_each, stopped=stopped, only=wanted)
        walk.run("restore_removal")
        total, found, reasons = total + walk.done[ItemOutcome.RESTORED], found | walk.seen, reasons + walk.problems
        if stopped():
            return ActionEffect(ActionOutcome.INTERRUPTED, f"Restored {plural(total, 'file')} before it was interrupted")
    problems = [f"{plural(count, 'file')} could not be restored: {reason}" for reason, count in reasons.most_common(SHOWN)]
    problems += [f"{path!r} is not in quarantine" for place, path in sorted(wanted.items()) if place not in found][:SHOWN]
    error = "; ".join(problems) or None
    outcome = ActionOutcome.FAILED if error else ActionOutcome.SUCCEEDED
    metrics = {"restored_files_count": total}
    final = reasons.keys() <= {OCCUPIED, MISSING}
    return ActionEffect(outcome, f"Restored {plural(total, 'file')} from quarantine", metrics, error, final)


def purge(removals: JobRemovals, catalog: Callable[[], Catalog], stopped: Callable[[], bool]) -> int:
    """Delete the table's files whose quarantine is over for good, up to a limit; return how many.

    :raises RemovalTakenOver: the attempt has lost its job.
    """
    records, job = removals.records, removals.job
    # By two clocks, usually of two machines, because files deleted too early cannot be restored.
    elapsed = records.in_quarantine(job.table, until=min(records.store.clock(), job.submitted_at))
    if not elapsed:
        return 0
    budget, deleted = PURGED_PARTS, 0
    properties = access_properties(catalog(), job.table)
    for each in elapsed:
        if budget <= 0 or stopped():
            break
        walk = _Walk(removals, each.removal_id, properties, _purge_each, stopped=stopped, most_parts=budget)
        walk.run("purge_removal")
        deleted, budget = deleted + walk.done[ItemOutcome.DELETED], budget - walk.parts
    log.info("Deleted %s of %s whose time in quarantine was over", plural(deleted, "file"), job.table)
    return deleted


def access_properties(catalog: Catalog, name: TableName) -> Mapping[str, str]:
    """Return the properties for access to a table's files, even if the table is damaged or was dropped."""
    try:
        return dict(load_table(catalog, name).io.properties)
    except SnowpackError as problem:
        log.info("The files of %s are reached with the settings of its catalog: %s", name, problem)
        return {key: str(value) for key, value in catalog.properties.items()}


class _Walk:
    """Applies a step to each item of a list that may be in quarantine.

    :param step: returns items with their outcomes; ``QUARANTINED``: it is still there.
    :param only: only these paths, normalised with :func:`normalise`; empty for all.
    :ivar done: by outcome, how many items left the quarantine. ``problems``: by reason, how many did not.
    :ivar seen: the requested paths that the list has. ``parts``: how many parts of it were changed.
    """

    def __init__(
        self,
        removals: JobRemovals,
        removal_id: str,
        properties: Mapping[str, str],
        step: Callable[[Quarantine, Sequence[RemovalItem], Callable[[], bool]], list[RemovalItem]],
        *,
        stopped: Callable[[], bool],
        only: Collection[str] = (),
        most_parts: int | None = None,
    ) -> None:
        self._records, self._job, self._step = removals.records, removals.job, step
        self._removal = self._records.reopen(removal_id, self._job.job_id, self._job.attempt_id or "")
        self._quarantine = quarantine_of(self._removal, properties)
        self._stopped, self._only, self._most_parts = stopped, frozenset(only), most_parts
        self._counts = Counter({outcome: getattr(self._removal, column) for outcome, column in COUNTED.items()})
        self.done: Counter[ItemOutcome] = Counter()
        self.problems: Counter[str] = Counter()
        self.seen: set[str] = set()
        self.parts = 0

    def run(self, change: str) -> None:
        """Process the list, and record each part of it; the audit trail gets the change."""
        left = 0
        for number in self._records.part_numbers(self._removal.removal_id):
            part = list(self._records.part(self._removal.removal_id, number))
            chosen = [item for item in part if self._is_chosen(item)]
            self.seen |= {normalise(item.name) for item in chosen if self._only}
            chosen = [item for item in chosen if item.outcome in POSSIBLY_HELD]
            if chosen and not self._stopped() and (self._most_parts is None or self.parts < self._most_parts):
                part = self._handle(number, part, chosen)
            left += sum(item.outcome in POSSIBLY_HELD for item in part)
        if not left:
            self._quarantine.close()
        from airflow_snowpack.store import Actor  # with SQLAlchemy, which an assessment does without

        actor = Actor(self._job.owner or self._job.submitted_by or f"job {self._job.job_id}", "job")
        self._records.settle(self._removal, left=left, actor=actor, change=change, files=self.done.total())

    def _is_chosen(self, item: RemovalItem) -> bool:
        if item.outcome not in (*POSSIBLY_HELD, ItemOutcome.RESTORED):
            return False
        return not self._only or normalise(item.name) in self._only

    def _handle(self, number: int, part: list[RemovalItem], chosen: Sequence[RemovalItem]) -> list[RemovalItem]:
        after = self._step(self._quarantine, chosen, self._stopped)
        known = {item.name: item for item in after}
        self.parts += 1
        self._counts.subtract(was.outcome for was in chosen if was.outcome)
        self._counts.update(item.outcome for item in after if item.outcome)
        self.done.update(item.outcome for item in after if item.outcome and item.outcome not in POSSIBLY_HELD)
        self.problems.update(item.reason for item in after if item.reason not in (None, NEVER_TAKEN))
        part = [known.get(item.name, item) for item in part]
        self._records.record(self._removal, {number: part}, self._counts)
        return part


def _restore_each(quarantine: Quarantine, items: Sequence[RemovalItem], stopped: Callable[[], bool]) -> list[RemovalItem]:
    return _each(items, partial(_restored, quarantine), stopped)


def _restored(quarantine: Quarantine, item: RemovalItem) -> Step:
    try:
        try:
            held = quarantine.restore(_file(item))
        except FileNotFoundError:  # or restored just now by an attempt that has lost its job
            held = quarantine.restore(_file(item))
    except FileExistsError:
        return ItemOutcome.QUARANTINED, OCCUPIED
    except FileNotFoundError:
        return ItemOutcome.GONE, MISSING
    if not held and item.outcome is ItemOutcome.STARTED:
        return ItemOutcome.LEFT_OUT, NEVER_TAKEN
    return ItemOutcome.RESTORED, None


def _purge_each(quarantine: Quarantine, items: Sequence[RemovalItem], stopped: Callable[[], bool]) -> list[RemovalItem]:
    # What a killed attempt has only begun to move may be in its place.
    held = [item for item in items if item.outcome is ItemOutcome.QUARANTINED]
    failed = _in_bulk(quarantine.purge_in_bulk, held, stopped)
    if failed is None:
        return _each(items, partial(_purged, quarantine), stopped)
    begun = [item for item in items if item.outcome is not ItemOutcome.QUARANTINED]
    after = [_after(item, failed, ItemOutcome.DELETED) for item in held]
    return [*after, *_each(begun, partial(_purged, quarantine), stopped)]


def _in_bulk(
    change: Callable[[Sequence[StoredFile]], Mapping[str, str] | None], items: Sequence[RemovalItem], stopped: Callable[[], bool]
) -> Mapping[str, str | None] | None:
    """Return why items were not changed, by path, and no reason for those after a stop; ``None`` if they must go one by one."""
    problems: dict[str, str | None] = {}
    for start in range(0, len(items), MOST_KEYS):
        some = items[start : start + MOST_KEYS]
        if stopped():
            return problems | dict.fromkeys(item.name for item in items[start:])
        found = change([_file(item) for item in some])
        if found is None:
            return None
        problems |= found
    return problems


def _after(item: RemovalItem, failed: Mapping[str, str | None], outcome: ItemOutcome) -> RemovalItem:
    if item.name in failed:
        return replace(item, reason=failed[item.name] or item.reason)
    return replace(item, outcome=outcome, reason=None)


def _purged(quarantine: Quarantine, item: RemovalItem) -> Step:
    if not quarantine.holds(_file(item)):
        return ItemOutcome.GONE, None
    quarantine.purge(_file(item))
    return ItemOutcome.DELETED, None


def _each(items: Sequence[RemovalItem], step: Callable[[RemovalItem], Step], stopped: Callable[[], bool]) -> list[RemovalItem]:
    """Apply a step to items concurrently. An item whose storage fails is returned unchanged, with the reason."""

    def apply(item: RemovalItem) -> RemovalItem:
        if stopped():
            return item
        try:
            outcome, reason = step(item)
        except OSError as error:
            log.warning("quarantine_failed: %s: %s", item.name, error)
            return replace(item, reason=str(error))
        return replace(item, outcome=outcome, reason=reason)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(apply, items))


def _file(item: RemovalItem) -> StoredFile:
    return StoredFile(item.name, item.bytes or 0, item.at)
