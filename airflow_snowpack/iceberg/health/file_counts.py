"""The counts of files, for a table, for one of its partitions and for the partitions that are not listed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCounts:
    """The files of a table, or of some of its partitions, counted by what rewriting them would improve.

    A data file is small, large or of a good size. One of a good size with many deletes counts only as ``with_deletes``.

    :param bytes: of the data files.
    :param records: rows in the data files, including those that delete files hide.
    :param position_delete_files: Parquet, Avro and ORC files with positions; deletion vectors are counted separately.
    :param delete_bytes: of all delete files and deletion vectors.
    """

    data_files: int = 0
    bytes: int = 0
    records: int = 0
    small_files: int = 0
    small_bytes: int = 0
    large_files: int = 0
    large_bytes: int = 0
    with_deletes_files: int = 0
    with_deletes_bytes: int = 0
    position_delete_files: int = 0
    equality_delete_files: int = 0
    deletion_vectors: int = 0
    delete_bytes: int = 0

    @property
    def delete_files(self) -> int:
        return self.position_delete_files + self.equality_delete_files + self.deletion_vectors

    @property
    def small_files_ratio(self) -> float:
        """Small files as a share of all data files, 0 without any."""
        return self.small_files / self.data_files if self.data_files else 0.0

    @property
    def average_file_bytes(self) -> float:
        """The mean size of a data file, 0 without any."""
        return self.bytes / self.data_files if self.data_files else 0.0
