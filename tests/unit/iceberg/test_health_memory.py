"""What reading health keeps in memory: partitions and delete files, and nothing of data files."""

from __future__ import annotations

import gc
import sys
from collections import deque
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from airflow_snowpack.iceberg import DeleteKind, HealthBounds, LiveDelete, LiveFile, TableFiles
from airflow_snowpack.iceberg.avro_columns import AvroBlocks, read_blocks
from airflow_snowpack.iceberg.health.counting import Counting
from airflow_snowpack.iceberg.health.deletes import DeleteIndex

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table

    Flights = Callable[..., Table]

SOME, MANY = 20, 400


def bytes_of(kept: object) -> int:
    """Return the size of an object and all that it refers to, which no other thread changes."""
    found, waiting = {id(kept): kept}, [kept]
    while waiting:
        for each in gc.get_referents(waiting.pop()):
            if not isinstance(each, type | ModuleType | FunctionType) and id(each) not in found:
                found[id(each)] = each
                waiting.append(each)
    return sum(map(sys.getsizeof, found.values()))


@pytest.fixture
def manifest(flights: Flights) -> tuple[ManifestFile, AvroBlocks]:
    table = flights(3)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    (found,) = snapshot.manifests(table.io)
    return found, read_blocks(table.io.new_input(found.manifest_path))


def test_twenty_times_the_data_files_need_no_more_memory(manifest: tuple[ManifestFile, AvroBlocks]) -> None:
    def count(times: int) -> Counting:
        listed, read = manifest
        counting = Counting(HealthBounds(), {})
        for _ in range(times):
            counting.add_data(listed, AvroBlocks(read.location, read.schema, deque(read.blocks)))
        return counting

    some, many = count(SOME), count(MANY)

    assert dict(many.partitions())[0, (3,)][0] == MANY
    assert bytes_of(many) < bytes_of(some) + 200


def test_a_deletion_vector_takes_a_few_numbers() -> None:
    index = DeleteIndex(HealthBounds())
    path = "s3://lake/warehouse/db/flights/data/month=3/00000-0-7b1f8e4c-6a5e-4a6f-9a51-8f8c2b1d9e00-{}.parquet"

    for number in range(20_000):
        index.add_for_file(path.format(number), (0, (3,)), number)

    assert 8 < bytes_of(index) / 20_000 < 200


keys = st.sampled_from([(0, (1,)), (0, (2,)), (1, ())])
data_files = st.builds(
    lambda number, key, sequence, records: LiveFile(f"f{number}", 1, records, *key, sequence),
    st.integers(0, 9), keys, st.integers(0, 5), st.integers(0, 20),
)  # fmt: skip


@st.composite
def delete_files(draw: st.DrawFn) -> LiveDelete:
    kind, key = draw(st.sampled_from(DeleteKind)), draw(keys)
    about = None if kind is DeleteKind.EQUALITY else draw(st.none() | st.integers(0, 9).map("f{}".format))
    if about is None and kind is DeleteKind.VECTOR:
        about = "f0"
    # A delete file for one data file is never older than that.
    sequence = 5 if about is not None else draw(st.integers(0, 5))
    return LiveDelete("d", 1, draw(st.integers(1, 20)), *key, sequence, kind, about)


@given(
    data=st.lists(data_files, max_size=6),
    deletes=st.lists(delete_files(), max_size=6),
    threshold=st.integers(0, 3),
    ratio=st.sampled_from([0.0, 0.1, 0.9]),
)
def test_many_deletes_are_found_by_the_rules_of_scan_planning(
    data: list[LiveFile], deletes: list[LiveDelete], threshold: int, ratio: float
) -> None:
    index = DeleteIndex(HealthBounds(delete_file_threshold=threshold, delete_ratio_threshold=ratio))
    # One for a single data file is in the partition of that file.
    places = {file.path: file.partition_key for file in data}
    files = TableFiles(tuple({file.path: file for file in data}.values()), tuple(deletes))
    for delete in deletes:
        if delete.data_file is not None:
            index.add_for_file(delete.data_file, places.get(delete.data_file, delete.partition_key), delete.records)
        else:
            index.add_for_partition(delete.partition_key, delete.sequence, equality=delete.kind is DeleteKind.EQUALITY)

    for file in files.data:
        found = files.deletes_of(file)
        known = sum(delete.records for delete in found if delete.data_file is not None)
        by_ratio = bool(found) and file.records > 0 and min(known, file.records) / file.records >= ratio
        expected = len(found) >= threshold or by_ratio
        key = file.partition_key
        assert (index.is_concerned(key) and index.has_many(file.path, key, file.sequence, file.records)) is expected
