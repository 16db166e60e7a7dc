"""A shard's file has its rows sorted by key, in either format, and returns what its record needs."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

from airflow_snowpack.builds.errors import InvalidBuild, InvalidRowKey
from airflow_snowpack.builds.model import ShardFormat
from airflow_snowpack.builds.write.attempt import RateLimit, ShardPlan, write_shard
from airflow_snowpack.builds.write.shard_writers import DICTIONARY_BYTES

SCHEMA = pa.schema([("seats", pa.int32()), ("tail", pa.string())])
BOTH = pytest.mark.parametrize("shard_format", list(ShardFormat))


def batches(tails: list[str], size: int = 2) -> list[pa.RecordBatch]:
    rows = [{"seats": number, "tail": tail} for number, tail in enumerate(tails)]
    return [pa.RecordBatch.from_pylist(rows[first : first + size], SCHEMA) for first in range(0, len(rows), size)]


def read(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        return rows
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    connection.row_factory = sqlite3.Row
    return [
        dict(row) for row in connection.execute("SELECT * FROM rows ORDER BY rowid" if repeats(path) else "SELECT * FROM rows")
    ]


def repeats(path: Path) -> bool:
    with sqlite3.connect(path) as connection:
        return bool(
            connection.execute("SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL").fetchone()[0]
        )


@BOTH
@pytest.mark.parametrize("batch_size", [1, 3, 100])
def test_a_file_has_the_rows_and_its_numbers_are_returned(tmp_path: Path, shard_format: ShardFormat, batch_size: int) -> None:
    plan = ShardPlan(SCHEMA, "tail", shard_format, batch_size=batch_size)
    file = write_shard(plan, batches(["a", "b", "c", "dé", "e"]), tmp_path)
    assert read(file.path) == [{"seats": number, "tail": tail} for number, tail in enumerate(["a", "b", "c", "dé", "e"])]
    assert (file.rows, file.min_key, file.max_key) == (5, "a", "e")
    content = file.path.read_bytes()
    assert (file.bytes, file.checksum) == (len(content), f"xxh3_64:{xxhash.xxh3_64_hexdigest(content)}")
    assert [each.name for each in tmp_path.iterdir()] == [f"shard.{shard_format.value}"]


@BOTH
def test_a_shard_without_rows_has_a_file_too(tmp_path: Path, shard_format: ShardFormat) -> None:
    file = write_shard(ShardPlan(SCHEMA, "tail", shard_format), [], tmp_path)
    assert (read(file.path), file.rows, file.min_key, file.max_key) == ([], 0, None, None)


@BOTH
@pytest.mark.parametrize("tails", ["aabc", "abbc", "abcc", "aaaaaa", "abbbc"])
def test_a_key_may_repeat_anywhere(tmp_path: Path, shard_format: ShardFormat, tails: str) -> None:
    file = write_shard(ShardPlan(SCHEMA, "tail", shard_format, batch_size=2), batches(list(tails)), tmp_path)
    assert [row["tail"] for row in read(file.path)] == list(tails)
    assert file.rows == len(tails)
    assert list(tmp_path.iterdir()) == [file.path]


def test_a_key_is_looked_up_by_the_primary_key_or_an_index(tmp_path: Path) -> None:
    def plan_of(kind: pa.DataType, keys: list[Any]) -> str:
        plan = ShardPlan(pa.schema([("other", pa.int8()), ('a "key"', kind)]), 'a "key"', ShardFormat.SQLITE)
        batch = pa.RecordBatch.from_pylist([{'a "key"': key} for key in keys], plan.schema)
        (tmp_path / "shard.sqlite").unlink(missing_ok=True)
        file = write_shard(plan, [batch], tmp_path)
        with sqlite3.connect(file.path) as connection:
            found = connection.execute('EXPLAIN QUERY PLAN SELECT * FROM rows WHERE "a ""key""" = ?', (keys[0],)).fetchone()
        return str(found[3])

    assert "INTEGER PRIMARY KEY (rowid=?)" in plan_of(pa.int64(), [-(2**63), 0, 2**63 - 1])
    assert "USING PRIMARY KEY" in plan_of(pa.string(), ["a", "b"])
    assert "USING PRIMARY KEY" in plan_of(pa.binary(), [b"", b"\0"])
    assert "USING INDEX rows_by_key" in plan_of(pa.int64(), [1, 1])


@BOTH
@pytest.mark.parametrize("tails", ["ba", "acb", "abca"])
def test_rows_that_are_out_of_order_are_refused(tmp_path: Path, shard_format: ShardFormat, tails: str) -> None:
    with pytest.raises(InvalidRowKey, match="it comes after a larger one"):
        write_shard(ShardPlan(SCHEMA, "tail", shard_format, batch_size=2), batches(list(tails)), tmp_path)


def test_a_parquet_shard_has_dictionaries_where_values_repeat_and_nowhere_else(tmp_path: Path) -> None:
    rows, few = 50_000, ["N14228", "N24211", "N39463"]
    columns = {
        "id": [f"flight-{number:06d}" for number in range(rows)],
        "tail": [few[number % 3] for number in range(rows)],
        "distance": [number / 7 for number in range(rows)],
        "crew": [{"home": few[number % 3]} for number in range(rows)],
    }
    table = pa.table(columns)
    file = write_shard(ShardPlan(table.schema, "id"), table.to_batches(), tmp_path)
    key, repeating, different, nested = (pq.read_metadata(file.path).row_group(0).column(at) for at in range(4))
    assert max(repeating.total_uncompressed_size, nested.total_uncompressed_size) < rows
    assert different.total_uncompressed_size < 8 * rows + 1.25 * DICTIONARY_BYTES
    assert key.total_uncompressed_size < 17 * rows + 1.25 * DICTIONARY_BYTES
    assert pq.read_table(file.path).equals(table)


def test_a_parquet_shard_is_cut_into_groups_with_statistics(tmp_path: Path) -> None:
    file = write_shard(ShardPlan(SCHEMA, "tail", batch_size=2), batches(list("abcde"), size=5), tmp_path)
    footer = pq.read_metadata(file.path)
    bounds = [footer.row_group(number).column(1).statistics for number in range(footer.num_row_groups)]
    assert [(each.min, each.max) for each in bounds] == [("a", "b"), ("c", "d"), ("e", "e")]


def test_ambiguous_columns_are_refused() -> None:
    with pytest.raises(InvalidBuild, match="another column has the same name"):
        ShardPlan(pa.schema([("id", pa.int64()), ("Tail", pa.string()), ("tail", pa.string())]), "id")
    with pytest.raises(InvalidBuild, match="must be exactly one of the columns seats, tail"):
        ShardPlan(SCHEMA, "id")


def test_more_columns_than_sqlite_has_are_refused(tmp_path: Path) -> None:
    plan = ShardPlan(pa.schema([(f"c{number}", pa.int64()) for number in range(2001)]), "c0", ShardFormat.SQLITE)
    with pytest.raises(InvalidBuild, match="SQLite cannot make a table of them"):
        write_shard(plan, [], tmp_path)


def test_rows_go_on_no_faster_than_the_rate_allows() -> None:
    now, waits = [100.0], []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        now[0] += seconds

    limit = RateLimit(1000, monotonic=lambda: now[0], sleep=sleep)
    for _ in range(3):
        limit.wait(500)
    now[0] += 2
    limit.wait(500)
    assert waits == pytest.approx([0.5, 0.5, 0.5])


@pytest.mark.parametrize("rate", [0, -1, float("nan")])
def test_a_rate_that_lets_nothing_through_is_refused(rate: float) -> None:
    with pytest.raises(InvalidBuild, match="rows_per_second"):
        ShardPlan(SCHEMA, "tail", rows_per_second=rate)
