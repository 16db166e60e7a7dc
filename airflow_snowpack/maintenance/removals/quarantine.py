"""Orphan files in quarantine: take them away instead of deleting them, restore them, and delete them when their time is over.

The list of a removal is the only record of what is in quarantine: the place of each file follows from its path. Before files are
taken away, the record has that they may be in quarantine. After a kill, both places of a file are looked up.

The invariant: only the attempt that has the fence of the removal moves files, and no file is ever overwritten.
"""

from __future__ import annotations

import logging
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.humanize import plural
from airflow_snowpack.iceberg import StoredFile, load_table
from airflow_snowpack.iceberg.quarantine import Means, means_of, open_quarantine, quarantine_folder
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance.action_run import Effect
from airflow_snowpack.maintenance.removals.errors import NothingInQuarantine, RemovalRefused
from airflow_snowpack.maintenance.removals.model import COUNTED, ItemOutcome
from airflow_snowpack.maintenance.removals.options import ALL
from airflow_snowpack.store import Actor

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
PURGED_PARTS = 20
"""One job deletes the files of so many parts of lists for good at most, so that it gets to its own work."""
NEVER_TAKEN = "it was not taken away"
OCCUPIED = "another file is in its place"
MISSING = "it is neither in quarantine nor in its place"
POSSIBLY_HELD = (ItemOutcome.QUARANTINED, ItemOutcome.STARTED)
"""A killed attempt may have taken an item away that it had started."""

Step = tuple[ItemOutcome, str | None]
"""What became of an item, and why."""


# --- taking files away ---


def quarantine_settings(table: Table, *, may_copy: bool) -> dict[str, str]:
    """Return how the files of a new list will be taken away, to keep with the list.

    :raises QuarantineNotPossible: the storage cannot take files away at no cost, and they may not be copied.
    """
    return {"quarantined_by": means_of(table.location(), table.io.properties, may_copy=may_copy).value}


def quarantine_of(removal: Removal, properties: Mapping[str, str]) -> Quarantine:
    """Return the quarantine of a removal.

    :param properties: of the access to the files of the table.
    """
    return open_quarantine(Means(removal.settings["quarantined_by"]), removal.location, properties, removal.removal_id)


def check_means(removal: Removal, table: Table) -> None:
    """Check that what is deleted now can still be restored as the plan has it.

    :raises RemovalRefused: it cannot, such as when a bucket no longer keeps versions.
    """
    means = Means(removal.settings["quarantined_by"])
    try:
        found = means_of(table.location(), table.io.properties, may_copy=True)
    except SnowpackError as problem:
        raise RemovalRefused(str(problem)) from problem
    if means not in (found, Means.COPY):
        raise RemovalRefused(
            f"The files were to be taken away by {means.value.replace('_', ' ')}, which {quarantine_folder(table.location())!r} "
            "does not allow any more. Plan the removal again."
        )


def held_before(quarantine: Quarantine, before: RemovalItem, item: RemovalItem) -> RemovalItem:
    """Return an item that a guard has passed or left out, as in quarantine if a killed attempt has put it there.

    :param before: the item as the record has it.
    """
    started = before.outcome is ItemOutcome.STARTED and item.outcome is not ItemOutcome.STARTED
    if started and quarantine.holds(_file(item)):
        return replace(item, outcome=ItemOutcome.QUARANTINED, reason=None)
    # An attempt that takes files away deletes none.
    return replace(item, outcome=ItemOutcome.GONE) if item.outcome is ItemOutcome.DELETED else item


def take_away(quarantine: Quarantine, items: Sequence[RemovalItem]) -> list[RemovalItem]:
    """Take files away; an item that could not be is returned as ``STARTED``, or as left out if it never can be."""

    def take(item: RemovalItem) -> Step:
        try:
            quarantine.take(_file(item))
        except FileNotFoundError:
            return ItemOutcome.GONE, None
        except (FileExistsError, PermissionError) as error:
            return ItemOutcome.LEFT_OUT, str(error)
        return ItemOutcome.QUARANTINED, None

    return _each(items, take)


# --- restoring and deleting for good ---


def restore(
    removals: JobRemovals, catalog: Catalog, removal_id: str, paths: Collection[str], stopped: Callable[[], bool]
) -> Effect:
    """Restore files, and continue where an attempt before ended.

    :param removal_id: of the list, or ``all`` lists of the table.
    :param paths: only these files; empty for all of them.
    :param stopped: whether to end early; a later attempt continues.
    :raises RemovalTakenOver: another attempt runs the job.
    :raises RemovalNotFound, NothingInQuarantine, RemovalNotPossible: nothing was restored.
    """
    records, job = removals.records, removals.job
    lists = list(records.in_quarantine(job.table)) if removal_id == ALL else [removals.of_table(removal_id)]
    again = removals.job.attempt > 1
    if not lists and not again:
        raise NothingInQuarantine(job.table)
    total, reasons, missing = 0, Counter[str](), set(paths)
    properties = access_properties(catalog, job.table)
    for each in reversed(lists):
        if each.quarantined_until is None and again and each.job_id == job.job_id:
            total, missing = total + each.restored_count, set()  # an attempt before has restored it
            continue
        removal = records.reopen(each.removal_id, job.job_id, job.attempt_id or "")
        quarantine = quarantine_of(removal, properties)

        def back(item: RemovalItem, quarantine: Quarantine = quarantine) -> Step:
            return _restored(quarantine, item)

        walk = _Walk(removals, removal, back, only=paths, stopped=stopped)
        walk.run()
        total, missing = total + walk.done[ItemOutcome.RESTORED], missing - walk.seen
        reasons += walk.problems
        if not walk.left:
            quarantine.close()
        records.settle(removal, left=walk.left, actor=_actor(removals), change="restore_removal", files=walk.done.total())
        if walk.ended_early:
            return Effect(ActionOutcome.INTERRUPTED, f"Restored {plural(total, 'file')} before it was interrupted")
    problems = [f"{plural(count, 'file')} could not be restored: {reason}" for reason, count in reasons.items()]
    problems += [f"{path!r} is not in quarantine" for path in sorted(missing)[:5]]
    error = "; ".join(problems) or None
    outcome = ActionOutcome.FAILED if error else ActionOutcome.SUCCEEDED
    metrics = {"restored_files_count": total}
    return Effect(outcome, f"Restored {plural(total, 'file')} from quarantine", metrics, error, final=True)


def purge(removals: JobRemovals, catalog: Callable[[], Catalog], stopped: Callable[[], bool]) -> int:
    """Delete the files of the table for good whose time in quarantine is over, up to a limit; return how many.

    :raises RemovalTakenOver: the attempt has lost its job.
    """
    records, job = removals.records, removals.job
    elapsed, budget, deleted = records.in_quarantine(job.table, until=records.store.clock()), PURGED_PARTS, 0
    if not elapsed:
        return 0
    properties = access_properties(catalog(), job.table)
    for each in elapsed:
        if budget <= 0 or stopped():
            break
        removal = records.reopen(each.removal_id, job.job_id, job.attempt_id or "")
        quarantine = quarantine_of(removal, properties)

        def end(item: RemovalItem, quarantine: Quarantine = quarantine) -> Step:
            if not quarantine.holds(_file(item)):
                return ItemOutcome.GONE, None
            quarantine.purge(_file(item))
            return ItemOutcome.DELETED, None

        walk = _Walk(removals, removal, end, stopped=stopped, most_parts=budget)
        walk.run()
        deleted, budget = deleted + walk.done[ItemOutcome.DELETED], budget - walk.parts
        if not walk.left:
            quarantine.close()
        records.settle(removal, left=walk.left, actor=_actor(removals), change="purge_removal", files=walk.done.total())
    log.info("Deleted %s of %s whose time in quarantine was over", plural(deleted, "file"), job.table)
    return deleted


def access_properties(catalog: Catalog, name: TableName) -> Mapping[str, str]:
    """Return the properties by which the files of a table are reached, also of one that is damaged or was dropped."""
    try:
        return dict(load_table(catalog, name).io.properties)
    except SnowpackError as problem:
        log.info("The files of %s are reached with the settings of its catalog: %s", name, problem)
        return {key: str(value) for key, value in catalog.properties.items()}


class _Walk:
    """Goes through a list and does something with each item that may be in quarantine.

    :param step: returns what became of an item; ``QUARANTINED``: it is still there.
    :param only: only these paths; empty for all.
    :ivar done: how many items left the quarantine, by outcome. ``left``: how many are in it.
    """

    def __init__(
        self,
        removals: JobRemovals,
        removal: Removal,
        step: Callable[[RemovalItem], Step],
        *,
        stopped: Callable[[], bool],
        only: Collection[str] = (),
        most_parts: int | None = None,
    ) -> None:
        self._records, self._removal, self._step = removals.records, removal, step
        self._stopped, self._only, self._most_parts = stopped, frozenset(only), most_parts
        self._counts = Counter({outcome: getattr(removal, column) for outcome, column in COUNTED.items()})
        self.done: Counter[ItemOutcome] = Counter()
        self.problems: Counter[str] = Counter()
        self.seen: set[str] = set()
        self.left = self.parts = 0
        self.ended_early = False

    def run(self) -> None:
        """Go through the list, and record each part of it."""
        for number in self._records.part_numbers(self._removal.removal_id):
            part = list(self._records.part(self._removal.removal_id, number))
            self.seen |= {item.name for item in part if item.outcome is ItemOutcome.RESTORED} & self._only
            held = [item for item in part if item.outcome in POSSIBLY_HELD]
            chosen = [item for item in held if not self._only or item.name in self._only]
            self.ended_early = self.ended_early or self._stopped()
            if chosen and not self.ended_early and (self._most_parts is None or self.parts < self._most_parts):
                chosen = self._handle(number, part, chosen)
                held = [item for item in held if item.name not in self.seen] + chosen
            self.left += sum(item.outcome in POSSIBLY_HELD for item in held)

    def _handle(self, number: int, part: list[RemovalItem], chosen: Sequence[RemovalItem]) -> list[RemovalItem]:
        after = _each(chosen, self._step)
        known = {item.name: item for item in after}
        self.parts += 1
        self.seen |= known.keys()
        for was, item in zip(chosen, after, strict=True):
            assert was.outcome is not None
            assert item.outcome is not None
            self._counts[was.outcome] -= 1
            self._counts[item.outcome] += 1
            if item.outcome not in POSSIBLY_HELD:
                self.done[item.outcome] += 1
            if item.reason is not None and item.reason != NEVER_TAKEN:
                self.problems[item.reason] += 1
        self._records.record(self._removal, {number: [known.get(item.name, item) for item in part]}, self._counts)
        return after


def _restored(quarantine: Quarantine, item: RemovalItem) -> Step:
    if item.outcome is ItemOutcome.STARTED and not quarantine.holds(_file(item)):
        return ItemOutcome.LEFT_OUT, NEVER_TAKEN
    try:
        quarantine.restore(_file(item))
    except FileExistsError:
        return ItemOutcome.QUARANTINED, OCCUPIED
    except FileNotFoundError:
        return ItemOutcome.GONE, MISSING
    return ItemOutcome.RESTORED, None


def _each(items: Sequence[RemovalItem], step: Callable[[RemovalItem], Step]) -> list[RemovalItem]:
    """Apply a step to each item, several at a time. One whose storage fails is returned as it is, with the reason."""

    def apply(item: RemovalItem) -> RemovalItem:
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


def _actor(removals: JobRemovals) -> Actor:
    job = removals.job
    return Actor(job.owner or job.submitted_by or f"job {job.job_id}", "job")
