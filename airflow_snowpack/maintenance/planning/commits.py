"""Estimate the manifests that the commits of a rewrite leave, from the numbers of a table's partitions.

A commit writes a manifest of its new files, and rewrites the manifests with files that it removes. A manifest without live files
stays until the next commit. So several commits leave the manifests of unchanged files, those that the last commit emptied, and
one per commit.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

from airflow_snowpack.iceberg.health import FileCounts, PartitionHealth, TableHealth
from airflow_snowpack.iceberg.health.bounds import manifest_target
from airflow_snowpack.iceberg.table_properties import MANIFEST_MERGE, MERGED_FROM, value_of
from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.planning.finding import Facts, Finding

KINDS: Mapping[str, str] = {Action.REWRITE_DATA_FILES: "data", Action.REWRITE_POSITION_DELETE_FILES: "delete"}
"""The kind of manifests that a rewrite changes."""


def commits_of(groups: int, most: int) -> int:
    """Return into how many commits Iceberg puts this many file groups; all but the last have the same number."""
    return -(-groups // -(-groups // most)) if groups else 1


def manifests_left(facts: Facts, action: Action) -> tuple[int, int]:
    """Return the data or delete manifests of the current partition spec after the earlier actions of the plan.

    :param action: the action that rewrites the files of such manifests.
    :return: how many there are, and how many have live files.
    """
    health, kind, merged_from = facts.health, KINDS[action], _merged_from(facts.health.properties)
    current: int = getattr(health, f"{kind}_manifests") - getattr(health, f"outdated_{kind}_manifests")
    empty: int = getattr(health, f"empty_{kind}_manifests")
    live, finding = max(current - empty, 0), facts.before.get(action)
    if not any(finding.commits for finding in facts.before.values()):
        return max(current, 0), live
    if finding is None:
        return live, live
    merging = max(merged_from - live, 1)
    if merging <= finding.commits:
        total = health.data_manifests + health.delete_manifests
        merged = -(-health.manifests_bytes * live // max(total, 1) // manifest_target(health.properties))
        merged = max(merged, 1) + finding.commits - merging
        return merged, merged
    staying = list(_manifests_of_remaining(health, finding, kind, live))
    emptied = _manifests_of_any([*staying, _changed_manifests(health, finding, kind, live)], live)
    return emptied + finding.commits, _manifests_of_any(staying, live) + finding.commits


def dropped_by_commits(facts: Facts) -> list[tuple[int, int]]:
    """Return for each commit of the plan's earlier actions how many files and manifests it drops, and the bytes of the files."""
    health, dropped = facts.health, list[tuple[int, int]]()
    for action, finding in facts.before.items():
        if finding.work is None or not finding.commits:
            continue
        kind = KINDS.get(action)
        each = finding.work.files_removed // finding.commits
        if kind is not None:
            live = getattr(health, f"{kind}_manifests") - getattr(health, f"empty_{kind}_manifests")
            each += _changed_manifests(health, finding, kind, live)
        dropped += [(each, finding.work.bytes_rewritten // finding.commits)] * finding.commits
    if dropped:
        files, size = dropped[0]
        dropped[0] = files + health.empty_data_manifests + health.empty_delete_manifests, size
    return dropped


def _changed_manifests(health: TableHealth, finding: Finding, kind: str, live: int) -> int:
    """Return how many manifests one commit of a rewrite rewrites or empties."""
    counts = [_manifests(each, kind, live) for each in _rewritten(health, finding, kind)]
    mean = sum(counts) / max(len(counts), 1)
    return _manifests_of_any([mean] * max(round(len(counts) / finding.commits), 1), live)


def _manifests_of_remaining(health: TableHealth, finding: Finding, kind: str, live: int) -> Iterable[float]:
    """Yield for each partition how many manifests have files that the rewrite leaves."""
    assert finding.work is not None
    rewritten = {id(each) for each in _rewritten(health, finding, kind)}
    candidates = sum(_candidates(each, kind) for each in health.partitions if id(each) in rewritten)
    share = min(finding.work.files_removed / max(candidates, 1), 1)
    for each in health.partitions:
        taken = _candidates(each, kind) * share if id(each) in rewritten else 0
        yield min(_manifests(each, kind, live), max(_files(each, kind) - taken, 0))
    if _files(health.rest, kind):
        yield live


def _rewritten(health: TableHealth, finding: Finding, kind: str) -> list[PartitionHealth]:
    if finding.partitions is not None:
        return list(finding.partitions)
    return [each for each in health.partitions if _candidates(each, kind)]


def _files(counts: FileCounts, kind: str) -> int:
    return counts.data_files if kind == "data" else counts.delete_files


def _candidates(counts: FileCounts, kind: str) -> int:
    """Return how many files of a partition a rewrite considers."""
    if kind == "delete":
        return counts.position_delete_files
    return counts.small_files + counts.large_files + counts.with_deletes_files


def _manifests(partition: PartitionHealth, kind: str, live: int) -> int:
    return min(getattr(partition, f"{kind}_manifests") or _files(partition, kind), live)


def _manifests_of_any(counts: Iterable[float], of: int) -> int:
    """Return how many manifests have files of any of the partitions, if their files are spread independently."""
    without = float(of)
    for count in counts:
        without *= 1 - min(count / max(of, 1), 1)
    return round(of - without)


def _merged_from(properties: Mapping[str, str]) -> int:
    """Return the number of manifests from which a commit merges them."""
    # To Iceberg, anything but "true" is false.
    if properties.get(MANIFEST_MERGE, "true").lower() != "true":
        return sys.maxsize
    count: int = value_of(properties, MERGED_FROM)
    return count
