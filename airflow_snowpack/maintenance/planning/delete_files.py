"""Whether ``rewrite_position_delete_files`` should compact the position-delete files now, and of which partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.humanize import number, plural
from airflow_snowpack.iceberg.health.bounds import delete_target
from airflow_snowpack.iceberg.table_properties import DELETE_GRANULARITY, value_of
from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.actions.rewrite_position_delete_files import (
    WITH_VECTORS,
    RewritePositionDeleteFiles,
)
from airflow_snowpack.maintenance.expiry import MAIN
from airflow_snowpack.maintenance.planning.commits import commits_of
from airflow_snowpack.maintenance.planning.finding import Finding, of_partitions
from airflow_snowpack.maintenance.planning.model import Estimate
from airflow_snowpack.maintenance.planning.where import NotSelectable, where_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_snowpack.iceberg.health import PartitionHealth
    from airflow_snowpack.maintenance.planning.finding import Case


MAX_FILES = "max_files_to_rewrite"
WITHOUT_DELETES = ("append", "replace")
"""Operations of commits that add no deletes."""


def find_delete_files(case: Case) -> Finding:
    """Return what ``rewrite_position_delete_files`` would do, after the rewrite of data files of the same plan.

    That leaves the deletes of its files in the table: Iceberg drops only those that are older than every data file.
    """
    health, options = case.health, case.own.options
    assert isinstance(options, RewritePositionDeleteFiles)
    metrics = {"position_delete_files": health.position_delete_files, "partitions": health.partition_count}
    if not health.position_delete_files:
        return Finding("no position-delete files", metrics)
    if _are_outlived(case):
        return Finding(f"{_files(health.position_delete_files)}, which the rewrite of all data files drops", metrics)
    every = health.format_version >= WITH_VECTORS or options.rewrite_all
    least = 1 if every else options.min_input_files
    enough = [each for each in health.partitions if each.position_delete_files >= least]
    sick = [each for each in enough if every or each.position_delete_files > _outputs(each, case)]
    metrics["sick_partitions"] = len(sick)
    if not sick:
        why = "and a rewrite would leave as many" if enough else "and no partition has enough of them to combine"
        if enough and all(_own_left(each, case) >= each.position_delete_files for each in enough):
            why = "each of another data file"
        return Finding(f"{_files(health.position_delete_files)}, {why}", metrics)
    return _found(case, sick, metrics)


def _are_outlived(case: Case) -> bool:
    """Return whether every data file is rewritten after a commit that added no deletes, so that all data files are newer."""
    data, health = case.before.get(Action.REWRITE_DATA_FILES), case.health
    if data is None or data.work is None or data.work.files_removed < health.data_files:
        return False
    log, head = health.snapshots, next((ref.snapshot_id for ref in health.refs if ref.name == MAIN), None)
    return head in log.ids and log.operations[log.ids.index(head)] in WITHOUT_DELETES


def _left(partition: PartitionHealth, case: Case) -> int:
    """Return how many data files of a partition the rewrite of data files leaves as they are."""
    data = case.before.get(Action.REWRITE_DATA_FILES)
    if data is None or MAX_FILES in data.options or partition not in (data.partitions or case.health.partitions):
        return partition.data_files
    return partition.data_files - partition.small_files - partition.large_files - partition.with_deletes_files


def _own_left(partition: PartitionHealth, case: Case) -> int:
    """Return how many of these data files have delete files of their own."""
    return min(partition.own_deletes_files, _left(partition, case))


def _found(case: Case, sick: Sequence[PartitionHealth], metrics: Mapping[str, int | float]) -> Finding:
    health, options = case.health, case.own.options
    assert isinstance(options, RewritePositionDeleteFiles)
    files, threshold = sum(each.position_delete_files for each in sick), case.threshold("delete_files")
    evidence = f"{_files(files)}{of_partitions(len(sick), health)}; threshold {number(threshold)}"
    where, partitions = case.own.where, tuple(sick)
    if len(sick) < health.partition_count and {each.spec_id for each in sick} == {health.spec_id}:
        try:
            generated = where_of(health.specs[health.spec_id], [each.values for each in sick], catalog=case.policy.table.catalog)
            where = f"({where}) AND ({generated})" if where else generated
        except NotSelectable as problem:
            evidence += f"; {problem}, so the whole table is selected"
    return Finding(
        evidence,
        metrics,
        Estimate(files, sum(_outputs(each, case) for each in sick), sum(map(_bytes, sick))),
        files >= threshold,
        options={"where": where} if where else {},
        partitions=partitions,
        commits=commits_of(len(sick), partial_progress=options.partial_progress, at_most=options.partial_progress_max_commits),
    )


def _outputs(partition: PartitionHealth, case: Case) -> int:
    """Return how many delete files a rewrite leaves: by default, Spark writes one for each data file, and none for files that
    are gone."""
    options, properties = case.own.options, case.health.properties
    assert isinstance(options, RewritePositionDeleteFiles)
    by_size = -(-_bytes(partition) // (options.target_file_size_bytes or delete_target(properties)))
    by_partition = value_of(properties, DELETE_GRANULARITY) == "partition"
    return max(by_size, 1 if by_partition else _own_left(partition, case), 1) if _left(partition, case) else 0


def _bytes(partition: PartitionHealth) -> int:
    """Return the size of its position-delete files."""
    return partition.delete_bytes * partition.position_delete_files // max(partition.delete_files, 1)


def _files(count: int) -> str:
    return plural(count, "position-delete file")
