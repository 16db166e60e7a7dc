"""The score of a table: what costs points, and what does not."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, strategies as st
from made_health import MIB, READ_AT, made_health, made_partition

from airflow_snowpack.iceberg import FileCounts, TableHealth, TableNumbers
from airflow_snowpack.iceberg.health import ScorePart, SnapshotLog, score


def part(health: TableHealth, name: str) -> ScorePart:
    (found,) = [each for each in score(health).parts if each.name == name]
    return found


def small_files(count: int, of: int, *, bytes_each: int = MIB) -> TableHealth:
    """Return a table of one partition, with so many small files among its files."""
    counts = {"data_files": of, "small_files": count, "small_bytes": count * bytes_each}
    return made_health(**counts, partitions=(made_partition(**counts),))


def snapshots(ages: list[timedelta]) -> SnapshotLog:
    """Return an append for each age."""
    number = len(ages)
    times = tuple(round((READ_AT - age).timestamp() * 1000) for age in sorted(ages, reverse=True))
    return SnapshotLog(tuple(range(100, 100 + number)), (None,) * number, times, ("append",) * number)


def test_a_healthy_table_has_all_points() -> None:
    found = score(made_health())

    assert found.total == 100
    assert [(each.name, each.points, each.of) for each in found.parts] == [
        ("file_sizes", 45, 45),
        ("deletes", 25, 25),
        ("manifests", 15, 15),
        ("snapshots", 15, 15),
    ]


def test_a_table_that_was_never_written_has_all_points() -> None:
    never = made_health(
        totals=TableNumbers(), data_files=0, bytes=0, records=0, data_manifests=0, manifests_bytes=0,
        snapshots=SnapshotLog(), refs=(), file_sizes=(), skew=0.0, partition_count=0, partitions=(),
    )  # fmt: skip

    assert score(never).total == 100


def test_small_files_cost_points_in_proportion_to_those_that_could_be_merged() -> None:
    assert part(small_files(847, 1284), "file_sizes") == ScorePart(
        "file_sizes", 15, 45, "847 of 1,284 data files below 384.0 MiB; compaction would leave 845 fewer"
    )
    assert part(small_files(1000, 1000), "file_sizes").points == 0
    assert part(small_files(100, 1000), "file_sizes").points > part(small_files(500, 1000), "file_sizes").points


def test_a_few_small_files_cost_next_to_nothing() -> None:
    assert part(small_files(5, 5), "file_sizes").points >= 43


def test_one_small_file_for_each_partition_is_healthy() -> None:
    partitions = tuple(made_partition(label=f"month={n}", data_files=1, small_files=1, small_bytes=MIB) for n in range(200))
    table = made_health(
        data_files=1000, small_files=1000, small_bytes=1000 * MIB, partitions=partitions, partition_count=1000,
        rest=FileCounts(data_files=800, small_files=800, small_bytes=800 * MIB),
    )  # fmt: skip

    assert part(table, "file_sizes").points == 45


def test_one_sick_partition_among_many_healthy_ones_counts() -> None:
    sick = made_partition(data_files=10_000, small_files=10_000, small_bytes=10_000 * MIB)
    table = made_health(data_files=1_010_000, small_files=10_000, small_bytes=10_000 * MIB, partitions=(sick,))

    assert part(table, "file_sizes").points == 0


def test_large_files_cost_points() -> None:
    assert part(made_health(data_files=200, large_files=100), "file_sizes").points < 45


@pytest.mark.parametrize(
    "sick",
    [
        {"data_files": 100, "position_delete_files": 100},
        {"data_files": 100, "deletion_vectors": 100},
        {"data_files": 1000, "equality_delete_files": 10},
        {"data_files": 0, "records": 0, "position_delete_files": 3},
    ],
)
def test_many_deletes_cost_all_points_of_their_part(sick: dict[str, int]) -> None:
    assert part(made_health(**sick), "deletes").points == 0


def test_deleted_rows_cost_points_whatever_the_number_of_delete_files() -> None:
    table = made_health(data_files=1000, records=1000, position_delete_files=1, totals=TableNumbers(position_deletes=150))

    assert part(table, "deletes") == ScorePart(
        "deletes", 13, 25, "1 position delete file for 1,000 data files; 150 of 1,000 rows deleted"
    )


def test_manifests_that_could_be_merged_cost_points() -> None:
    scattered = made_health(data_manifests=400, manifests_bytes=8 * MIB)

    assert part(scattered, "manifests") == ScorePart("manifests", 0, 15, "400 manifests of 8.0 MiB together; 1 would do")
    assert part(replace(scattered, properties={"commit.manifest.target-size-bytes": "20972"}), "manifests").points == 15
    assert part(replace(scattered, properties={"commit.manifest.target-size-bytes": "nonsense"}), "manifests").points == 0


def test_old_snapshots_cost_points_and_named_ones_do_not() -> None:
    old = made_health(snapshots=snapshots([timedelta(days=6)] * 50))

    assert part(old, "snapshots") == ScorePart(
        "snapshots", 7, 15, "50 snapshots, 50 of them older than 5 days and named by no branch or tag"
    )
    assert part(made_health(snapshots=snapshots([timedelta(days=4)] * 50)), "snapshots").points == 15
    assert part(made_health(snapshots=snapshots([timedelta(hours=1)] * 10_000)), "snapshots").points == 0
    assert score(old, now=READ_AT - timedelta(days=2)).total == 100


def test_the_score_is_never_out_of_bounds() -> None:
    worst = made_health(
        data_files=1, small_files=10_000, large_files=10_000, equality_delete_files=1_000, data_manifests=10_000,
        manifests_bytes=1, snapshots=snapshots([timedelta(days=9)] * 9_000),
    )  # fmt: skip

    assert score(worst).total == 0
    assert all(0 <= each.points <= each.of for each in score(worst).parts)


@given(
    partitions=st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 500), st.integers(1, 383 * MIB)), min_size=1, max_size=6),
    size=st.integers(1, 383 * MIB),
)
def test_one_more_small_file_never_raises_the_points_by_more_than_rounding(
    partitions: list[tuple[int, int, int]], size: int
) -> None:
    def file_sizes(added: int) -> int:
        parts = [
            {"data_files": small + good + now, "small_files": small + now, "small_bytes": small * each + now * size}
            for place, (small, good, each) in enumerate(partitions)
            for now in [0 if place else added]
        ]
        totals = {name: sum(each[name] for each in parts) for name in parts[0]}
        listed = tuple(made_partition(**each) for each in parts)
        return part(made_health(**totals, partitions=listed, partition_count=len(listed)), "file_sizes").points

    assert file_sizes(1) <= file_sizes(0) + 1
