"""What counts as a small file, a large file and many deletes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from airflow_snowpack.iceberg.table_properties import DEFAULTS, DELETE_TARGET, FILE_TARGET, MANIFEST_TARGET, value_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_snowpack.iceberg.health.file_counts import FileCounts

MIN_SIZE_SHARE = 0.75
MAX_SIZE_SHARE = 1.8


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthBounds:
    """The bounds with which health is read. Health that was read with other bounds is read again.

    They have the names and the defaults of the options of ``rewrite_data_files``.

    :param target_file_size_bytes: the size of a good data file.
    :param min_file_size_bytes: a smaller data file is small; 0 means 75 % of the target.
    :param max_file_size_bytes: a larger data file is large; 0 means 180 % of the target.
    :param delete_file_threshold: a data file with this many delete files has many deletes.
    :param delete_ratio_threshold: a data file with this share of its rows deleted has many deletes.
    """

    target_file_size_bytes: int = DEFAULTS[FILE_TARGET]
    min_file_size_bytes: int = 0
    max_file_size_bytes: int = 0
    delete_file_threshold: int = 2
    delete_ratio_threshold: float = 0.1

    def __post_init__(self) -> None:
        low, high = good_sizes(self.target_file_size_bytes, self.min_file_size_bytes, self.max_file_size_bytes)
        object.__setattr__(self, "min_file_size_bytes", low)
        object.__setattr__(self, "max_file_size_bytes", high)

    @classmethod
    def of_table(cls, properties: Mapping[str, str]) -> HealthBounds:
        """Return the bounds of a table without a policy, from its target size."""
        return cls(target_file_size_bytes=value_of(properties, FILE_TARGET))

    def removable(self, counts: FileCounts, partitions: int = 1) -> int:
        """Return how many small files would disappear if those of each of ``partitions`` partitions were merged."""
        merged = -(-counts.small_bytes // self.target_file_size_bytes)
        return max(counts.small_files - max(merged, min(partitions, counts.small_files)), 0)

    def improvable(self, counts: FileCounts) -> int:
        """Return how many files of one partition a rewrite would merge, split or free from deletes."""
        return self.removable(counts) + counts.large_files + counts.with_deletes_files + counts.delete_files

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; ``HealthBounds(**values)`` gives equal bounds."""
        return asdict(self)


def good_sizes(target: int, low: int = 0, high: int = 0) -> tuple[int, int]:
    """Return the sizes below and above which a file is rewritten; 0 means Iceberg's share of the target."""
    return low or int(target * MIN_SIZE_SHARE), high or int(target * MAX_SIZE_SHARE)


def manifest_target(properties: Mapping[str, str]) -> int:
    """Return the size of a good manifest, from the table's property."""
    size: int = value_of(properties, MANIFEST_TARGET)
    return size


def delete_target(properties: Mapping[str, str]) -> int:
    """Return the size of a good delete file, from the table's property."""
    size: int = value_of(properties, DELETE_TARGET)
    return size
