"""The score of a table: one number from 0 (sick) to 100 (healthy), the sum of its parts.

    score(health).total                       # 61
    score(health).parts[0].evidence           # '847 of 1,284 data files are below 384 MiB; 835 of them could be merged away'

Each part loses points in proportion to what maintenance would improve, and never because a table is small, empty or was never
written, or has the snapshots that its properties keep. Small numbers weigh little: only :data:`MANY` files, manifests or
snapshots lose all points of a part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_snowpack.humanize import duration, number, plural, size
from airflow_snowpack.iceberg.health.bounds import manifest_target
from airflow_snowpack.iceberg.table_properties import (
    DEFAULTS,
    MAX_SNAPSHOT_AGE,
    MIN_SNAPSHOTS,
    age_of,
    keeps_all_snapshots,
    value_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from airflow_snowpack.iceberg.health.file_counts import FileCounts
    from airflow_snowpack.iceberg.health.model import TableHealth

FILE_SIZES, DELETES, MANIFESTS, SNAPSHOTS = 45, 25, 15, 15
"""What each part of the score is worth."""
MANY = 100
MANY_SNAPSHOTS = 5_000
MANY_EQUALITY_DELETES = 10
MANY_DELETED_ROWS = 0.3


@dataclass(frozen=True, slots=True)
class ScorePart:
    """One part of a score.

    :param name: ``file_sizes``, ``deletes``, ``manifests`` or ``snapshots``.
    :param points: the table's points, from 0 to ``of``.
    :param of: the points of a healthy table.
    :param evidence: the numbers behind it, as a sentence without a full stop.
    """

    name: str
    points: int
    of: int
    evidence: str


@dataclass(frozen=True, slots=True)
class Score:
    """A table's score, from 0 (sick) to 100 (healthy); the sum of its parts."""

    total: int
    parts: tuple[ScorePart, ...]


def score(health: TableHealth, *, now: datetime | None = None) -> Score:
    """Score the health of a table; the age of snapshots counts until ``now``, or until the health was read."""
    parts = (_file_sizes(health), _deletes(health), _manifests(health), _snapshots(health, now or health.read_at))
    return Score(sum(part.points for part in parts), parts)


def _file_sizes(health: TableHealth) -> ScorePart:
    bounds = health.bounds
    removable = sum(bounds.removable(counts, partitions) for counts, partitions in _partitions(health))
    worst = max((_loss(bounds.removable(each), each.data_files) for each in health.partitions), default=0.0)
    lost = max(_loss(removable + health.large_files, health.data_files), worst)
    if not health.small_files and not health.large_files:
        evidence = f"No data file of {number(health.data_files)} is too small or too large"
        return _part("file_sizes", FILE_SIZES, lost, evidence)
    files, low = plural(health.data_files, "data file"), size(bounds.min_file_size_bytes)
    small = f"{number(health.small_files)} of {files} below {low}"
    fewer = f"; compaction would leave {number(removable)} fewer" if removable else ""
    large = f", {number(health.large_files)} above {size(bounds.max_file_size_bytes)}" if health.large_files else ""
    return _part("file_sizes", FILE_SIZES, lost, f"{small}{large}{fewer}")


def _partitions(health: TableHealth) -> Iterator[tuple[FileCounts, int]]:
    """Yield the counts of each listed partition, and of the others together, with the number of partitions."""
    yield from ((partition, 1) for partition in health.partitions)
    yield health.rest, health.partition_count - len(health.partitions)


def _deletes(health: TableHealth) -> ScorePart:
    if not health.delete_files:
        return _part("deletes", DELETES, 0.0, "No delete files")
    rows = health.totals.position_deletes + health.totals.equality_deletes
    lost = max(
        health.delete_files / max(health.data_files, 1),
        health.equality_delete_files / MANY_EQUALITY_DELETES,
        rows / max(health.records, 1) / MANY_DELETED_ROWS,
    )
    kinds = {
        "position delete file": health.position_delete_files,
        "equality delete file": health.equality_delete_files,
        "deletion vector": health.deletion_vectors,
    }
    found = ", ".join(plural(count, kind) for kind, count in kinds.items() if count)
    evidence = f"{found} for {plural(health.data_files, 'data file')}; {number(rows)} of {plural(health.records, 'row')} deleted"
    return _part("deletes", DELETES, lost, evidence)


def _manifests(health: TableHealth) -> ScorePart:
    # Iceberg's Java library skips manifests without live files, and the next commit drops them.
    live = health.data_manifests - health.empty_data_manifests, health.delete_manifests - health.empty_delete_manifests
    count, target = sum(live), manifest_target(health.properties)
    fewest = max(-(-health.manifests_bytes // target), sum(each > 0 for each in live))
    evidence = f"{plural(count, 'manifest')} of {size(health.manifests_bytes)} together"
    removable = max(count - fewest, 0)
    return _part(
        "manifests", MANIFESTS, _loss(removable, count), evidence + (f"; {number(fewest)} would do" if removable else "")
    )


def _snapshots(health: TableHealth, now: datetime) -> ScorePart:
    """Score snapshots by the retention of main or of the table, if set: those that its owner keeps cost no points."""
    count, properties = len(health.snapshots), health.properties
    if keeps_all_snapshots(properties):
        return _part("snapshots", SNAPSHOTS, 0.0, f"{plural(count, 'snapshot')}, and none may expire by the table's properties")
    own = {name: value_of(properties, name) for name in (MAX_SNAPSHOT_AGE, MIN_SNAPSHOTS) if name in properties}
    for main in (ref for ref in health.refs if ref.name == "main"):
        settings = {MAX_SNAPSHOT_AGE: main.max_snapshot_age_ms, MIN_SNAPSHOTS: main.min_snapshots_to_keep}
        own |= {name: value for name, value in settings.items() if value is not None}
    age, keeps = age_of(own.get(MAX_SNAPSHOT_AGE, DEFAULTS[MAX_SNAPSHOT_AGE])), own.get(MIN_SNAPSHOTS, 0)
    needed = {ref.snapshot_id for ref in health.refs} | set(health.snapshots.ids[-keeps:] if keeps else ())
    ages, cutoff = zip(health.snapshots.ids, health.snapshots.committed_ms, strict=True), (now - age).timestamp() * 1000
    old = sum(committed < cutoff and snapshot not in needed for snapshot, committed in ages)
    lost = max(old / MANY, count / MANY_SNAPSHOTS if count > MANY and not own else 0.0)
    limit = duration(age) if age.seconds else plural(age.days, "day")
    kept = f"{number(keeps)} newest kept, " if keeps else ""
    evidence = f"{plural(count, 'snapshot')}, {kept}{number(old)} of them older than {limit} and named by no branch or tag"
    return _part("snapshots", SNAPSHOTS, lost, evidence)


def _loss(improvable: int, total: int) -> float:
    """Return the share of what maintenance would improve, which counts in full from :data:`MANY` on."""
    return improvable / total * min(improvable / MANY, 1.0) if total else 0.0


def _part(name: str, of: int, lost: float, evidence: str) -> ScorePart:
    return ScorePart(name, of - round(of * min(max(lost, 0.0), 1.0)), of, evidence)
