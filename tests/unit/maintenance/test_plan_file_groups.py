"""Which files a rewrite takes: Iceberg's rules, number by number."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform

from airflow_snowpack.iceberg import DeleteKind, LiveDelete, LiveFile, TableFiles
from airflow_snowpack.maintenance import RewriteDataFiles, RewritePositionDeleteFiles
from airflow_snowpack.maintenance.actions.rewrite_data_files import data_file_groups
from airflow_snowpack.maintenance.actions.rewrite_position_delete_files import delete_file_groups
from airflow_snowpack.maintenance.file_groups import SizeBounds

OPTIONS: dict[str, Any] = {"target_file_size_bytes": 100}
BY_MONTH = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "month"))


def data(path: str, size: int = 10, *, month: int | None = 1, spec_id: int = 0) -> LiveFile:
    return LiveFile(path, size, records=100, spec_id=spec_id, partition=(month,), sequence=1)


def about(
    path: str | None, *, records: int = 1, month: int = 1, kind: DeleteKind = DeleteKind.POSITION, size: int = 1
) -> LiveDelete:
    return LiveDelete("d", size, records, 0, (month,), 2, kind, path)


def taken(files: TableFiles, **options: Any) -> list[list[str]]:
    groups = data_file_groups(files, RewriteDataFiles(**OPTIONS, **options), BY_MONTH)
    return [[file.path for file in group.files] for group in groups]


def small(number: int, **where: Any) -> tuple[LiveFile, ...]:
    return tuple(data(f"small-{index}", **where) for index in range(number))


def test_too_few_small_files_are_left_alone() -> None:
    assert taken(TableFiles(small(4))) == []
    assert len(taken(TableFiles(small(5)))[0]) == 5


def test_files_that_are_large_enough_stay_out_of_the_group() -> None:
    assert taken(TableFiles((*small(5), data("fine", 80)))) == [[f"small-{index}" for index in range(5)]]


def test_a_file_that_is_too_large_is_split_by_itself() -> None:
    assert taken(TableFiles((data("huge", 181),))) == [["huge"]]
    assert taken(TableFiles((data("large", 180),))) == []


def test_two_files_that_fill_a_target_are_worth_it_whatever_their_number() -> None:
    assert taken(TableFiles((data("a", 60), data("b", 60)))) == [["a", "b"]]
    assert taken(TableFiles((data("a", 50), data("b", 50)))) == []


def test_partitions_are_not_mixed() -> None:
    files = TableFiles((*small(3, month=1), *small(3, month=2)))

    assert taken(files) == []


def test_files_of_older_partition_specs_go_with_those_of_no_partition() -> None:
    files = TableFiles((*small(3, month=1, spec_id=7), *small(3, month=2, spec_id=8), *small(3, month=None), *small(3, month=4)))

    assert [len(group) for group in taken(files)] == [9]


def test_a_file_with_two_delete_files_is_rewritten_whatever_its_size() -> None:
    files = TableFiles((data("fine", 90), data("other", 90)), (about("fine"), about("fine"), about("other")))

    assert taken(files) == [["fine"]]


def test_a_file_with_a_tenth_of_its_rows_gone_is_rewritten() -> None:
    assert taken(TableFiles((data("a", 90),), (about("a", records=10),))) == [["a"]]
    assert taken(TableFiles((data("a", 90),), (about("a", records=9),))) == []


def test_deletes_of_a_whole_partition_count_as_files_and_not_as_rows() -> None:
    assert taken(TableFiles((data("a", 90),), (about(None, records=100),))) == []
    assert taken(TableFiles((data("a", 90),), (about(None), about(None)))) == [["a"]]


def test_a_group_does_not_outgrow_its_limit() -> None:
    groups = taken(TableFiles(small(10)), max_file_group_size_bytes=50)

    assert [len(group) for group in groups] == [5, 5]
    groups = taken(TableFiles(small(11)), max_file_group_input_files=5)

    assert [len(group) for group in groups] == [5, 5], "the last one has too few files to be worth a rewrite"


def test_rewrite_all_takes_everything() -> None:
    assert taken(TableFiles((data("fine", 90),)), rewrite_all=True) == [["fine"]]


def test_only_files_that_the_predicate_may_match_are_looked_at() -> None:
    groups = data_file_groups(TableFiles(small(6)), RewriteDataFiles(**OPTIONS), BY_MONTH, {"small-1", "small-2"})

    assert groups == []


@pytest.mark.parametrize(
    ("size", "outputs"),
    [(0, 1), (99, 1), (100, 1), (109, 1), (120, 2), (176, 2), (200, 2), (219, 2), (230, 3), (1000, 10), (1050, 10)],
)
def test_the_rest_is_spread_unless_files_would_grow_too_large(size: int, outputs: int) -> None:
    bounds = SizeBounds(target=100, low=75, high=180, min_input_files=5)

    assert bounds.outputs(size) == outputs


def test_position_deletes_are_grouped_by_partition_and_vectors_stay_out() -> None:
    deletes = (
        *(about(None, month=1) for _ in range(5)),
        *(about(None, month=2) for _ in range(4)),
        *(about("a", month=3, kind=DeleteKind.VECTOR) for _ in range(9)),
        *(about(None, month=4, kind=DeleteKind.EQUALITY) for _ in range(9)),
    )

    groups = delete_file_groups(TableFiles((), deletes), RewritePositionDeleteFiles(), properties={})

    assert [len(group.files) for group in groups] == [5]


def test_the_table_says_how_large_a_delete_file_should_be() -> None:
    deletes = tuple(about(None, size=100) for _ in range(9))
    properties = {"write.delete.target-file-size-bytes": "100"}

    assert delete_file_groups(TableFiles((), deletes), RewritePositionDeleteFiles(), properties=properties) == []
    assert len(delete_file_groups(TableFiles((), deletes), RewritePositionDeleteFiles(), properties={})) == 1
