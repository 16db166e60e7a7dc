"""Stored health and policies written by hand, for tests of plans: numbers that no real table has to be made for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.iceberg.health import (
    FileCounts,
    HealthBounds,
    PartitionHealth,
    Ref,
    SnapshotLog,
    SpecField,
    TableHealth,
    TableNumbers,
)
from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.options import parse_options
from airflow_snowpack.maintenance.policies import ActionPolicy, TablePolicy

NOW = datetime(2026, 11, 23, 3, 0, tzinfo=UTC)
TABLE = TableName("lake", "db", "events")
MIB = 1024**2
BY_DAY = (SpecField("ts", "timestamptz", "day", "ts_day"),)


def partition(value: Any, *, spec_id: int = 0, newest: timedelta | None = timedelta(days=2), **counts: int) -> PartitionHealth:
    """Return a partition: of ``small_files`` of 1 MiB unless the counts have bytes, whose newest file is this old."""
    given = {"data_files": counts.get("small_files", 0), "small_bytes": counts.get("small_files", 0) * MIB, **counts}
    given.setdefault("bytes", given["small_bytes"] + given.get("large_bytes", 0) + given.get("with_deletes_bytes", 0))
    at = None if newest is None else NOW - newest
    return PartitionHealth(spec_id=spec_id, values=(value,), label=f"ts_day={value}", newest_at=at, **given)


def health(
    partitions: Iterable[PartitionHealth] = (),
    *,
    spec: Sequence[SpecField] = BY_DAY,
    ages: Sequence[timedelta] = (timedelta(hours=1),),
    refs: Sequence[Ref] = (),
    **values: Any,
) -> TableHealth:
    """Return the health of a table with these partitions, and one snapshot of each age, the oldest first."""
    listed = tuple(partitions)
    times = tuple(int((NOW - age).timestamp() * 1000) for age in ages)
    ids = tuple(range(1, len(times) + 1))
    log = SnapshotLog(ids, (None, *ids)[: len(ids)], times, ("append",) * len(ids))
    outdated = [each for each in listed if each.spec_id != 0]
    given: dict[str, Any] = {
        "properties": {},
        "specs": {0: tuple(spec)},
        "snapshots": log,
        "refs": (Ref("main", "branch", ids[-1]), *refs) if ids else tuple(refs),
        "partitions": listed,
        "partition_count": len(listed),
        "outdated": _sum(outdated),
        **{each.name: getattr(_sum(listed), each.name) for each in fields(FileCounts)},
        **values,
    }
    return TableHealth(
        table="db.events",
        metadata_location="file:///lake/db/events/metadata/00007.metadata.json",
        table_uuid="5f8d0c9a-0000-4000-8000-000000000001",
        location="file:///lake/db/events",
        format_version=given.pop("format_version", 2),
        read_at=NOW,
        bounds=HealthBounds(),
        totals=TableNumbers(),
        **given,
    )


def _sum(partitions: Iterable[PartitionHealth]) -> FileCounts:
    listed = list(partitions)
    return FileCounts(**{each.name: sum(getattr(part, each.name) for part in listed) for each in fields(FileCounts)})


THRESHOLDS = {
    Action.REWRITE_DATA_FILES: {"small_files": 100, "large_files": 10, "files_with_deletes": 10},
    Action.REWRITE_POSITION_DELETE_FILES: {"delete_files": 10},
    Action.REWRITE_MANIFESTS: {"small_manifests": 10},
    Action.EXPIRE_SNAPSHOTS: {"old_snapshots": 1},
    Action.REMOVE_ORPHAN_FILES: {},
}


def policy(actions: Mapping[str, Mapping[str, Any]] | None = None, **values: Any) -> TablePolicy:
    """Return a policy; by action, its ``options`` and what else :class:`ActionPolicy` takes; no orphan files without."""
    made = {}
    for action in Action:
        given = dict((actions or {}).get(action, {}))
        options = parse_options(action, given.pop("options", {}))
        own = ActionPolicy(action.value, action != Action.REMOVE_ORPHAN_FILES, options, thresholds=THRESHOLDS[action])
        made[action.value] = replace(own, **given)
    return TablePolicy(TABLE, made, **values)
