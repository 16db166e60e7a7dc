"""Of the attempts at a shard exactly one counts, and always the same."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from built_runs import write_attempt
from effort import rounds
from hypothesis import given, settings, strategies as st

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.errors import ShardCoverageError, StorageFailed
from airflow_snowpack.builds.json_format import checksum_of, to_json
from airflow_snowpack.builds.model import ShardAttemptResult
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.write.selection import read_attempts, select_winners, winner_sort_key

AT = datetime(2026, 1, 1, tzinfo=UTC)
INT64_MAX = 2**63 - 1

attempts = st.builds(
    ShardAttemptResult,
    run_id=st.just("r1"),
    shard_id=st.integers(0, 2),
    attempt=st.integers(0, 2),
    task_attempt_id=st.none() | st.integers(0, 3) | st.just(INT64_MAX),
    url=st.none() | st.sampled_from(["", "data/r1/a", "data/r1/b"]),
    rows=st.integers(0, 1),
    bytes=st.just(1),
    min_key=st.none(),
    max_key=st.none(),
    checksum=st.just(checksum_of(b"")),
    finished_at=st.just(AT),
)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path, sleep=lambda _: None)


def specified_key(attempt: ShardAttemptResult) -> tuple[int, int, str]:
    """The comparator as the specification writes it down."""
    task = attempt.task_attempt_id
    return (attempt.attempt, task if task is not None else INT64_MAX, attempt.url if attempt.url is not None else "")


@settings(max_examples=rounds(100, soak=5000))
@given(st.lists(attempts, max_size=8), st.data())
def test_the_smallest_attempt_of_each_shard_wins_in_whatever_order_they_come(
    found: list[ShardAttemptResult], data: st.DataObject
) -> None:
    covering = [replace(found[0], shard_id=shard_id) for shard_id in range(3)] if found else []
    everything = found + covering
    if not everything:
        return
    winners = select_winners(everything, 3, "r1")
    assert [winner.shard_id for winner in winners] == [0, 1, 2]
    for winner in winners:
        theirs = [attempt for attempt in everything if attempt.shard_id == winner.shard_id]
        assert specified_key(winner) == min(specified_key(attempt) for attempt in theirs)
        assert winner_sort_key(winner) == specified_key(winner)
    assert select_winners(data.draw(st.permutations(everything)), 3, "r1") == winners


def test_what_is_not_covered_is_named(storage: Storage) -> None:
    found = [write_attempt(storage, "r1", shard_id) for shard_id in (1, 4, 5)]
    message = r"no attempt at shards 0, 2, 3 succeeded and attempts name shard 5, outside of 0 to 4"
    with pytest.raises(ShardCoverageError, match=message) as caught:
        select_winners(found, 5, "r1")
    assert (caught.value.missing, caught.value.unknown) == ((0, 2, 3), (5,))
    with pytest.raises(ShardCoverageError, match="and 9980 more succeeded"):
        select_winners([], 10_000, "r1")


def test_attempts_are_found_by_their_records(storage: Storage) -> None:
    written = [write_attempt(storage, "r1", shard_id, task=task) for shard_id in range(2) for task in (9, 10, 1)]
    written.append(write_attempt(storage, "r1", 0, task=None))
    write_attempt(storage, "r10", 0)
    assert sorted(read_attempts(storage, "r1"), key=to_json) == sorted(written, key=to_json)
    assert [winner.task_attempt_id for winner in select_winners(read_attempts(storage, "r1"), 2, "r1")] == [1, 1]
    assert read_attempts(storage, "never") == []


def test_an_attempt_without_a_sound_record_did_not_succeed(storage: Storage, caplog: pytest.LogCaptureFixture) -> None:
    sound = write_attempt(storage, "r1", 0, task=7)
    broken = {task: write_attempt(storage, "r1", 0, task=task) for task in range(6)}

    def record(task: int) -> str:
        return f"{layout.attempt_folder('r1', 0, 0, str(task))}{layout.RECORD}"

    storage.write(record(0), storage.read(record(0))[:50])
    storage.delete(record(1))
    storage.delete(broken[2].url or "")
    storage.write(broken[3].url or "", b"not as long as it was")
    storage.write(record(4), to_json(replace(broken[4], shard_id=1)))
    storage.write(record(5), to_json(replace(broken[5], url=sound.url)))
    assert read_attempts(storage, "r1") == [sound]
    assert caplog.text.count("attempt_ignored") == 5


def test_a_storage_that_cannot_be_read_is_no_missing_attempt(tmp_path: Path) -> None:
    class Unreadable(Storage):
        def read(self, path: str) -> bytes:
            raise StorageFailed("read", path, "it is not the time")

    write_attempt(Storage(tmp_path), "r1", 0)
    with pytest.raises(StorageFailed, match="it is not the time"):
        read_attempts(Unreadable(tmp_path), "r1")


def test_ten_thousand_shards_are_selected() -> None:
    found = [
        ShardAttemptResult("r1", shard_id, attempt, shard_id * 2 + attempt, f"data/r1/{shard_id}/{attempt}", 1, 1, 0, 0, "x", AT)
        for attempt in (1, 0)
        for shard_id in range(10_000)
    ]
    assert [winner.attempt for winner in select_winners(found, 10_000, "r1")] == [0] * 10_000
