"""Plan a removal, and delete exactly its list.

    effect = run_removal(run, OrphanFiles(remove), options.removal_id, plan=lambda: plan_removal(run))

Each batch of the list is guarded, recorded as about to be deleted, deleted, and recorded with its outcomes. So a killed attempt
leaves a record of what it may have deleted, and the next one continues with the same list.

The invariant: only items of the list are deleted, each after a guard of this attempt has passed it.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from airflow_snowpack.humanize import plural, size, timestamp
from airflow_snowpack.iceberg import TableNotFound
from airflow_snowpack.iceberg.table_properties import GC_ENABLED, NESSIE, allows_deletes, owner_properties
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance.action_run import REMOVED, ActionEffect
from airflow_snowpack.maintenance.removals.errors import (
    RemovalNotFound,
    RemovalNotPossible,
    RemovalOfAnotherTable,
    RemovalRefused,
    RemovalsNotKept,
    RemovalTakenOver,
)
from airflow_snowpack.maintenance.removals.model import COUNTED, ItemOutcome, Removal, RemovalKind, RemovalState
from airflow_snowpack.maintenance.table_defaults import OF_NESSIE
from airflow_snowpack.spark import SparkInterrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyiceberg.table import Table

    from airflow_snowpack.maintenance.action_run import ActionRun
    from airflow_snowpack.maintenance.removals.model import RemovalItem
    from airflow_snowpack.maintenance.removals.of_job import JobRemovals

CLOCK_SKEW = timedelta(minutes=5)
"""How far a worker's clock may be behind the clock that a removal was planned by."""
NOUNS = {RemovalKind.ORPHANS: "file", RemovalKind.SNAPSHOTS: "snapshot"}
DELETED = {RemovalKind.ORPHANS: REMOVED, RemovalKind.SNAPSHOTS: "expired_snapshots_count"}


class Deletion(Protocol):
    """How one kind of items is guarded and deleted."""

    @property
    def kind(self) -> RemovalKind: ...

    @property
    def files(self) -> Mapping[str, int]:
        """How many files of each kind were deleted with the items, as the procedure counts them."""
        ...

    @property
    def batch_parts(self) -> int:
        """How many parts of a list are guarded and deleted together."""
        ...

    def guard(self, run: ActionRun, removal: Removal, table: Table, items: Sequence[RemovalItem]) -> list[RemovalItem]:
        """Return the items in order: ``STARTED`` for those that may be deleted, and another outcome for the rest.

        :raises RemovalRefused: nothing of the removal may be deleted any more.
        """
        ...

    def delete(self, run: ActionRun, removal: Removal, items: Sequence[RemovalItem]) -> list[RemovalItem]:
        """Delete the items, and return them in order; those that could not be deleted stay ``STARTED``."""
        ...


def removals_of(run: ActionRun) -> JobRemovals:
    """Return the removals of the job.

    :raises RemovalsNotKept: the engine has no store.
    """
    if run.removals is None:
        raise RemovalsNotKept
    return run.removals


def run_removal(
    run: ActionRun, deletion: Deletion, removal_id: str | None, *, plan: Callable[[], Removal | ActionEffect]
) -> ActionEffect:
    """Plan a removal, and delete its list unless it needs an approval.

    :param removal_id: delete this list, and plan nothing.
    :param plan: returns the planned removal, or what to report if there is nothing to delete.
    :raises RemovalsNotKept: the engine has no store.
    """
    if removal_id is not None:
        return carry_out(run, removal_id, deletion)
    if effect := _resumed(run, deletion):
        return effect
    planned = plan()
    if isinstance(planned, ActionEffect):
        return planned
    return _awaiting(planned) or carry_out(run, planned.removal_id, deletion)


def _resumed(run: ActionRun, deletion: Deletion) -> ActionEffect | None:
    """Return the result of the list that an earlier attempt at this job planned; ``None`` if the job has to plan.

    A list that the earlier attempt was deleting is completed. One that awaits a decision, or has one, is left alone.
    """
    for removal in removals_of(run).planned(deletion.kind):
        match removal.state:
            case RemovalState.DELETING if removal.decided_by is None:
                return carry_out(run, removal.removal_id, deletion)
            case RemovalState.DELETED | RemovalState.QUARANTINED if removal.is_done:
                return _ended(removals_of(run), removal, deletion)
            case RemovalState.AWAITING_APPROVAL | RemovalState.APPROVED | RemovalState.REJECTED | RemovalState.DELETING:
                return _awaiting(removal)
    return None


def _awaiting(removal: Removal) -> ActionEffect | None:
    """Return the result of an action that does not delete its list now; ``None`` for a list that needs no approval."""
    if removal.state is RemovalState.PLANNED:
        return None
    noun, total = NOUNS[removal.kind], removal.bytes or 0
    what = f"{plural(removal.item_count, noun)} of {size(total)}"
    message = f"The removal of {what} {removal.state_text}: removal {removal.removal_id}"
    metrics = {f"planned_{noun}s_count": removal.item_count, "planned_bytes_count": total, DELETED[removal.kind]: 0}
    return ActionEffect(ActionOutcome.SUCCEEDED, message, metrics)


def carry_out(run: ActionRun, removal_id: str, deletion: Deletion) -> ActionEffect:
    """Delete a removal that is approved or needs no approval, or continue an earlier attempt.

    :raises RemovalTakenOver: another attempt runs the job. What this one recorded stays.
    :raises SparkInterrupted, SparkFailed: from Spark; the removal can be run again.
    :raises TableUnreadable, CatalogUnreachable: from the catalog; the removal can be run again.
    """
    removals = removals_of(run)
    try:
        removal = removals.begin(removal_id, deletion.kind)
    except (RemovalNotFound, RemovalNotPossible, RemovalOfAnotherTable) as problem:
        return ActionEffect(ActionOutcome.FAILED, "Failed before anything was removed", error=str(problem), final=True)
    if removal.state is not RemovalState.DELETING:
        return _ended(removals, removal, deletion)
    records = removals.records
    try:
        with _record_error(removals, removal):
            left = _delete_all(run, removals, removal, deletion)
    except (RemovalRefused, TableNotFound) as refused:
        records.end(removal, RemovalState.FAILED, str(refused))
        # The next try of the job plans a list that needed no approval again.
        return _ended(removals, records.get(removal_id), deletion, str(refused), final=removal.decided_by is not None)
    if left:
        again = "removal" if removal.decided_by else "action"
        does = "deleted" if removal.quarantine is None else "moved to quarantine"
        why = next((f", such as: {reason}" for reason in left if reason), "")
        error = f"{plural(left.total(), NOUNS[removal.kind])} of the list could not be {does}{why}. Run the {again} again."
        return _ended(removals, records.end(removal, _state_after_failure(removal), error), deletion, error)
    return _ended(removals, records.end(removal, RemovalState.DELETED), deletion)


def refuse_protected(table: Table) -> None:
    """:raises RemovalRefused: the table may lose no files."""
    properties = owner_properties(table)
    if not allows_deletes(properties):
        gc_off = f"The table's property {GC_ENABLED} is not true, so Iceberg deletes no files of it"
        raise RemovalRefused(f"{OF_NESSIE[0].upper()}{OF_NESSIE[1:]}." if NESSIE in properties else f"{gc_off}.")


def check_table(run: ActionRun, removal: Removal) -> Table:
    """Return the current table, if it is still the one that the removal was planned for.

    :raises RemovalRefused: it is another table, was moved, or may lose no files.
    :raises TableNotFound: it was dropped.
    """
    table, again = run.table(), "Plan the removal again."
    if str(table.metadata.table_uuid) != removal.table_uuid:
        raise RemovalRefused(f"{run.name.dotted} was dropped and created again after its removal was planned. {again}")
    if table.location() != removal.location:
        raise RemovalRefused(f"{run.name.dotted} was moved from {removal.location!r} to {table.location()!r}. {again}")
    refuse_protected(table)
    if run.now < removal.planned_at - CLOCK_SKEW:
        raise RemovalRefused(
            f"The clock of this worker, {run.now:%Y-%m-%d %H:%M} UTC, is behind the plan, {removal.planned_at:%Y-%m-%d %H:%M} "
            "UTC, so the age of a file is not known. Correct the clock and plan the removal again."
        )
    return table


def _delete_all(run: ActionRun, removals: JobRemovals, removal: Removal, deletion: Deletion) -> Counter[str | None]:
    """Process the list; return how many items could not be deleted, by reason if known.

    :raises SparkInterrupted: the rest of the list was not tried.
    """
    records, left = removals.records, Counter[str | None]()
    counts = Counter({outcome: getattr(removal, column) for outcome, column in COUNTED.items()})
    numbers = iter(records.part_numbers(removal.removal_id))
    while batch := list(islice(numbers, deletion.batch_parts)):
        parts = {number: list(records.part(removal.removal_id, number)) for number in batch}
        counts -= _counted(parts)  # by earlier attempts
        if _unfinished(parts):
            _replace(parts, deletion.guard(run, removal, check_table(run, removal), _unfinished(parts)))
            records.record(removal, parts, counts + _counted(parts))
        if started := [item for item in _unfinished(parts) if item.outcome is ItemOutcome.STARTED]:
            _replace(parts, deletion.delete(run, removal, started))
            records.record(removal, parts, counts + _counted(parts))
        counts += _counted(parts)
        left += Counter(item.reason for item in _unfinished(parts))
        if left and run.work.interrupted:
            raise SparkInterrupted
    return left


def _unfinished(parts: Mapping[int, Sequence[RemovalItem]]) -> list[RemovalItem]:
    """Return the items that may still exist."""
    return [item for part in parts.values() for item in part if item.outcome in (None, ItemOutcome.STARTED)]


def _replace(parts: dict[int, list[RemovalItem]], items: Sequence[RemovalItem]) -> None:
    known = {item.name: item for item in items}
    for number, part in parts.items():
        parts[number] = [known.get(item.name, item) for item in part]


def _counted(parts: Mapping[int, Sequence[RemovalItem]]) -> Counter[ItemOutcome]:
    return Counter(item.outcome for part in parts.values() for item in part if item.outcome is not None)


@contextmanager
def _record_error(removals: JobRemovals, removal: Removal) -> Iterator[None]:
    """Record why an attempt ended early. A killed attempt records nothing, and the next one continues from its fence."""
    try:
        yield
    except (RemovalTakenOver, RemovalRefused, TableNotFound):
        raise
    except Exception as error:
        removals.records.end(removal, _state_after_failure(removal), str(error))
        raise


def _state_after_failure(removal: Removal) -> RemovalState:
    """Return the state of a removal that ended early: the next try of the job plans one that needed no approval again."""
    return RemovalState.APPROVED if removal.decided_by else RemovalState.FAILED


def _ended(
    removals: JobRemovals, removal: Removal, deletion: Deletion, error: str | None = None, *, final: bool = False
) -> ActionEffect:
    noun, deleted, held = NOUNS[removal.kind], removal.deleted_count, removal.quarantined_count
    if error and not deleted + held:
        parts = ["Failed before anything was removed"]
    elif held:
        until = f" until {timestamp(removal.quarantined_until)}" if removal.quarantined_until else ""
        parts = [f"Moved {plural(held, 'orphan file')} to quarantine{until}: removal {removal.removal_id}"]
        parts += [f"{deleted:,} deleted"] if deleted else []
    elif removal.kind is RemovalKind.ORPHANS:
        parts = [f"Removed {plural(deleted, 'orphan file')}"]
    else:
        files = f" and deleted {plural(sum(deletion.files.values()), 'file')}" if deletion.files else ""
        parts = [f"Expired {plural(deleted, noun)}{files}"]
    metrics = {f"planned_{noun}s_count": removal.item_count, DELETED[removal.kind]: deleted, **deletion.files}
    if removal.quarantine is not None:
        items = removals.records.items(removal.removal_id) if held else ()
        size_held = sum(item.bytes or 0 for item in items if item.outcome is ItemOutcome.QUARANTINED)
        metrics |= {"quarantined_files_count": held, "quarantined_bytes_count": size_held}
    if removal.gone_count:
        parts.append(f"{removal.gone_count:,} no longer existed")
        metrics[f"gone_{noun}s_count"] = removal.gone_count
    if removal.left_out_count:
        parts.append(f"{removal.left_out_count:,} left out")
        metrics[f"left_out_{noun}s_count"] = removal.left_out_count
    outcome = ActionOutcome.FAILED if error else ActionOutcome.SUCCEEDED
    return ActionEffect(outcome, "; ".join(parts), metrics, error, final)
