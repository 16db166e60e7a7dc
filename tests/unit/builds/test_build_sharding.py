"""Whole columns are placed exactly as single keys are, and a row without a place stops the build."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, strategies as st

from airflow_snowpack.builds.errors import InvalidBuild, InvalidRowKey
from airflow_snowpack.builds.model import KeyType, Sharding, hash_shard
from airflow_snowpack.builds.sharding import BUCKETS, SHARD_COUNTS, Placing, bucket_of, fewest_shards, key_type_of

INTEGERS = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(INTEGERS), st.integers(1, 100_000))
def test_integers_are_placed_as_the_library_hashes_them(keys: list[int], num_shards: int) -> None:
    placed = Placing(Sharding.hash(num_shards), KeyType.INTEGER).shards(pa.array(keys, pa.int64()))
    assert placed.to_pylist() == [hash_shard(key, KeyType.INTEGER, num_shards) for key in keys]


@given(st.lists(st.text(max_size=300)), st.integers(1, 1000))
def test_strings_are_placed_as_single_ones(keys: list[str], num_shards: int) -> None:
    placed = Placing(Sharding.hash(num_shards), KeyType.STRING).shards(pa.array(keys, pa.large_string()))
    assert placed.to_pylist() == [hash_shard(key, KeyType.STRING, num_shards) for key in keys]


@given(st.lists(st.binary(max_size=300)))
def test_bytes_are_placed_as_single_ones(keys: list[bytes]) -> None:
    placed = Placing(Sharding.hash(7), KeyType.BYTES).shards(pa.array(keys, pa.binary()))
    assert placed.to_pylist() == [hash_shard(key, KeyType.BYTES, 7) for key in keys]


@pytest.mark.parametrize("width", [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.uint64()])
def test_a_narrow_integer_is_placed_as_a_wide_one(width: pa.DataType) -> None:
    assert key_type_of("id", width) is KeyType.INTEGER
    wide = Placing(Sharding.hash(1000), KeyType.INTEGER).shards(pa.array([0, 1, 100], pa.int64()))
    assert Placing(Sharding.hash(1000), KeyType.INTEGER).shards(pa.array([0, 1, 100], width)) == wide


def test_a_key_outside_of_64_bits_is_refused() -> None:
    with pytest.raises(InvalidRowKey, match="9223372036854775808 cannot be placed: an integer key must fit into 64 bits"):
        Placing(Sharding.hash(8), KeyType.INTEGER).shards(pa.array([1, 2**63], pa.uint64()))


def test_a_null_key_is_refused() -> None:
    with pytest.raises(InvalidRowKey, match="a key must not be null"):
        Placing(Sharding.hash(8), KeyType.STRING).shards(pa.array(["a", None]))


@pytest.mark.parametrize("kind", [pa.float64(), pa.decimal128(20, 0), pa.timestamp("us"), pa.bool_(), pa.list_(pa.int8())])
def test_a_column_without_valid_keys_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(InvalidBuild, match="an integer of up to 64 bits, a string or bytes"):
        key_type_of("id", kind)


def test_categories_go_to_their_shards_in_order() -> None:
    placing = Placing(Sharding.categories("origin", ("LGA", "JFK", "EWR")), KeyType.INTEGER)
    assert placing.shards(pa.array(["EWR", "LGA", "EWR"])).to_pylist() == [2, 0, 2]
    numbers = Placing(Sharding.categories("month", (1, 2)), KeyType.STRING)
    assert numbers.shards(pa.array([2, 1], pa.int16())).to_pylist() == [1, 0]


@pytest.mark.parametrize("stranger", ["BOS", None])
def test_a_value_that_is_no_category_stops_the_build(stranger: str | None) -> None:
    with pytest.raises(
        InvalidRowKey, match=f"{stranger!r} cannot be placed: it is not among the 2 categories of the column 'origin'"
    ):
        Placing(Sharding.categories("origin", ("LGA", "JFK")), KeyType.INTEGER).shards(pa.array(["LGA", stranger]))


def test_categories_of_another_type_than_their_column_are_refused() -> None:
    with pytest.raises(InvalidBuild, match="values = "):
        Placing(Sharding.categories("month", ("1", "2")), KeyType.INTEGER).shards(pa.array([1, 2]))


def test_an_expression_names_the_shard() -> None:
    assert Placing(Sharding.expression("id % 3", 3), KeyType.INTEGER).shards(pa.array([2, 0, 1])).to_pylist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("ids", "message"),
    [([0, 3], "it returned 3"), ([-1, 0], "it returned -1"), ([0, None], "it returned null"), ([0.5], "type double")],
)
def test_an_expression_that_returns_no_shard_stops_the_build(ids: list[object], message: str) -> None:
    with pytest.raises(InvalidBuild, match=message):
        Placing(Sharding.expression("id % 3", 3), KeyType.INTEGER).shards(pa.array(ids))


def fullest(keys: pa.Array, num_shards: int) -> int:
    kind = key_type_of("key", keys.type)
    counts = Placing(Sharding.hash(num_shards), kind).shards(keys).value_counts().field("counts").to_pylist()
    return max(counts, default=0)


def buckets(keys: pa.Array) -> np.ndarray:
    return np.bincount(bucket_of(keys), minlength=BUCKETS)


@pytest.mark.parametrize(
    ("keys", "most"), [(0, 1), (1, 1), (1000, 1000), (1001, 1000), (5000, 1000), (1_000_000, 100_000), (20_000, 5)]
)
def test_no_shard_gets_more_keys_than_it_may_have(keys: int, most: int) -> None:
    column = pa.array(range(keys), pa.int64())
    num_shards = fewest_shards(buckets(column), most)
    assert fullest(column, num_shards) <= most
    assert num_shards == 1 or keys > most


@given(st.lists(st.text(max_size=8), unique=True, max_size=200), st.integers(2, 30))
def test_no_shard_gets_more_random_keys_than_it_may_have(keys: list[str], most: int) -> None:
    column = pa.array(keys, pa.string())
    num_shards = fewest_shards(buckets(column), most)
    assert fullest(column, num_shards) <= most
    fewer = [count for count in SHARD_COUNTS if count < num_shards]
    assert not fewer or fullest(column, fewer[-1]) > most


def test_keys_that_were_chosen_to_meet_in_one_shard_are_kept_apart() -> None:
    every = pa.array(range(3000), pa.int64())
    chosen = every.filter(pc.equal(Placing(Sharding.hash(15), KeyType.INTEGER).shards(every), 7)).slice(0, 100)
    assert fullest(chosen, 15) == 100
    assert fullest(chosen, fewest_shards(buckets(chosen), 20)) <= 20


def test_keys_that_no_number_of_shards_keeps_apart_are_refused() -> None:
    counts = np.zeros(BUCKETS, np.int64)
    counts[4711] = 21
    with pytest.raises(InvalidBuild, match=r"with 21 keys, one of 90,090 shards would still have 21; increase it"):
        fewest_shards(counts, max_keys_per_shard=20)
