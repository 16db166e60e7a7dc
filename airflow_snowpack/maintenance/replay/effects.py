"""What an action does to a simulated table. What it takes is chosen by the action's own rules."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_snowpack.iceberg.health.bounds import manifest_target
from airflow_snowpack.iceberg.metadata_reader import DeleteKind, LiveDelete
from airflow_snowpack.iceberg.table_properties import DELETE_GRANULARITY, age_of, value_of
from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.actions.expire_snapshots import ExpireSnapshots
from airflow_snowpack.maintenance.actions.rewrite_data_files import RewriteDataFiles, data_file_groups
from airflow_snowpack.maintenance.actions.rewrite_position_delete_files import (
    RewritePositionDeleteFiles,
    delete_file_groups,
)
from airflow_snowpack.maintenance.expiry import MAIN
from airflow_snowpack.maintenance.planning.model import Estimate
from airflow_snowpack.maintenance.replay.history import key_of
from airflow_snowpack.maintenance.replay.state import Dead

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from datetime import datetime

    from airflow_snowpack.iceberg.metadata_reader import PartitionKey
    from airflow_snowpack.maintenance.file_groups import File, FileGroup
    from airflow_snowpack.maintenance.options import ActionOptions
    from airflow_snowpack.maintenance.replay.history import Key
    from airflow_snowpack.maintenance.replay.state import SimulatedTable


def apply(
    state: SimulatedTable, options: ActionOptions, *, now: datetime, partitions: Collection[PartitionKey] | None
) -> Estimate:
    """Run an action on the simulated table.

    :param partitions: that the plan selects; ``None`` for all.
    :returns: what it did. Nothing is known of orphan files, and of actions that this simulation does not have.
    """
    effect = EFFECTS.get(options.action)
    return effect(state, options, now, partitions) if effect else Estimate()


def rewrite_data_files(
    state: SimulatedTable, options: ActionOptions, now: datetime, partitions: Collection[PartitionKey] | None
) -> Estimate:
    """Compact, with deletes of single files applied; other delete files go once they are older than all data files."""
    assert isinstance(options, RewriteDataFiles)
    spec = state.table.spec()
    only = None
    if partitions is not None:
        only = {path for path, file in state.data.items() if file.partition_key in partitions}
    groups = data_file_groups(state.files, options, spec_id=spec.spec_id, spec_fields=len(spec.fields), only=only)
    for batch in _batches(groups, _commits(options)):
        snapshot = state.commit(now)
        written = [file for group in batch for file in state.replace_data(group.files, max(group.outputs, 1), snapshot)]
        state.write_manifest({file.path for file in written}, spec_id=spec.spec_id, is_data=True)
    if groups:
        state.drop_outlived_deletes()
    return _rewritten(groups, sum(group.outputs for group in groups))


def rewrite_position_delete_files(
    state: SimulatedTable, options: ActionOptions, now: datetime, partitions: Collection[PartitionKey] | None
) -> Estimate:
    """Combine the position deletes of a partition, without those of data files that are gone."""
    assert isinstance(options, RewritePositionDeleteFiles)
    groups = delete_file_groups(state.files, options, properties=state.table.properties, only=partitions)
    keys, emptied = {id(delete): key for key, delete in state.deletes.items()}, state.emptied()
    added = 0
    for batch in _batches(groups, _commits(options)):
        snapshot = state.commit(now)
        written: set[Key] = set()
        for number, group in enumerate(batch):
            for each in group.files:
                state.drop(keys[id(each)])
            filled = [each for each in group.files if keys[id(each)] not in emptied]
            for combined in _combined(filled, f"simulated-deletes-{snapshot.number}-{number}", state):
                state.add(key_of(combined), combined, snapshot)
                written.add(key_of(combined))
        state.write_manifest(written, spec_id=state.table.spec().spec_id, is_data=False)
        added += len(written)
    return _rewritten(groups, added)


def _combined(deletes: Sequence[LiveDelete], path: str, state: SimulatedTable) -> Iterator[LiveDelete]:
    """Yield the files that hold these deletes afterwards, without those of data files that are gone."""
    left: dict[str | None, list[LiveDelete]] = defaultdict(list)
    for each in deletes:
        if each.data_file is None or each.data_file in state.data:
            left[each.data_file].append(each)
    if len(left) > 1 and (None in left or value_of(state.table.properties, DELETE_GRANULARITY) == "partition"):
        left = {None: [each for group in left.values() for each in group]}
    for number, (data_file, group) in enumerate(left.items()):
        size, records = sum(each.bytes for each in group), sum(each.records for each in group)
        place = (group[0].spec_id, group[0].partition, state.sequence)
        yield LiveDelete(f"{path}-{number}", size, records, *place, DeleteKind.POSITION, data_file)


def rewrite_manifests(
    state: SimulatedTable, options: ActionOptions, now: datetime, partitions: Collection[PartitionKey] | None
) -> Estimate:
    """Combine the manifests of the current partition spec into as few as their target size allows."""
    spec_id = state.table.spec().spec_id
    target = manifest_target(state.table.properties)
    taken = added = size = 0
    for is_data in (True, False):
        mine = {path: each for path, each in state.manifests.items() if each.is_data is is_data and each.spec_id == spec_id}
        total = sum(each.bytes for each in mine.values())
        outputs = -(-total // target)
        if len(mine) <= 1:
            continue
        files = [key for each in mine.values() for key in each.files]
        for path in mine:
            del state.manifests[path]
        state.commit(now)
        for number in range(outputs):
            state.write_manifest(set(files[number::outputs]), spec_id=spec_id, is_data=is_data, size=total // outputs)
        taken, added, size = taken + len(mine), added + outputs, size + total
    return Estimate(taken, added, size)


def expire_snapshots(
    state: SimulatedTable, options: ActionOptions, now: datetime, partitions: Collection[PartitionKey] | None
) -> Estimate:
    """Expire snapshots by age, and free the files that only they needed. What a branch or a tag names stays."""
    assert isinstance(options, ExpireSnapshots)
    refs = dict(state.table.metadata.refs)
    main = refs.pop(MAIN)
    named = {ref.snapshot_id for ref in refs.values()}
    # A branch's own settings go before those of the action.
    most = options.retain_last if main.min_snapshots_to_keep is None else main.min_snapshots_to_keep
    age = options.max_age if main.max_snapshot_age_ms is None else age_of(main.max_snapshot_age_ms)
    newest_first = list(reversed(state.snapshots))
    # The commits of the same pass are older than the expiry, which without a least age takes them too.
    cutoff = now - age if age else now + timedelta(milliseconds=1)
    kept = [each for place, each in enumerate(newest_first) if place < most or each.at >= cutoff or each.snapshot_id in named]
    expired = len(state.snapshots) - len(kept)
    numbers = sorted(each.number for each in kept)
    needed, freed = list[Dead](), list[Dead]()
    for file in state.dead:
        place = bisect_left(numbers, file.born)
        (needed if place < len(numbers) and numbers[place] < file.died else freed).append(file)
    state.expire(list(reversed(kept)), needed)
    return Estimate(files_removed=len(freed), bytes_freed=sum(each.bytes for each in freed), snapshots_expired=expired)


EFFECTS: dict[str, Callable[..., Estimate]] = {
    Action.REWRITE_DATA_FILES: rewrite_data_files,
    Action.REWRITE_POSITION_DELETE_FILES: rewrite_position_delete_files,
    Action.REWRITE_MANIFESTS: rewrite_manifests,
    Action.EXPIRE_SNAPSHOTS: expire_snapshots,
}


def _commits(options: RewriteDataFiles | RewritePositionDeleteFiles) -> int:
    return options.partial_progress_max_commits if options.partial_progress else 1


def _batches(groups: list[FileGroup[File]], most: int) -> list[list[FileGroup[File]]]:
    """Split groups over at most so many commits, as partial progress does."""
    size = -(-len(groups) // most) if groups else 1
    return [groups[start : start + size] for start in range(0, len(groups), size)]


def _rewritten(groups: Sequence[FileGroup[Any]], added: int) -> Estimate:
    return Estimate(sum(len(group.files) for group in groups), added, sum(group.bytes for group in groups))
