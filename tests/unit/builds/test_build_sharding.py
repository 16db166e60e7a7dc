"""Whole columns are placed exactly as single keys are, and a row without a place stops the build."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_examples import UNHURRIED

from airflow_snowpack.builds.errors import InvalidBuild, InvalidKey
from airflow_snowpack.builds.keys import KeyType, hash_shard
from airflow_snowpack.builds.model import Sharding
from airflow_snowpack.builds.sharding import Placing, key_type_of, num_shards_for

INTEGERS = st.integers(-(2**63), 2**63 - 1)


@UNHURRIED
@given(st.lists(INTEGERS), st.integers(1, 100_000))
def test_integers_are_placed_as_the_library_hashes_them(keys: list[int], num_shards: int) -> None:
    placed = Placing(Sharding.hash(num_shards), KeyType.INTEGER).shards(pa.array(keys, pa.int64()))
    assert placed.to_pylist() == [hash_shard(key, KeyType.INTEGER, num_shards) for key in keys]


@UNHURRIED
@given(st.lists(st.text(max_size=300)), st.integers(1, 1000))
def test_strings_are_placed_as_single_ones(keys: list[str], num_shards: int) -> None:
    placed = Placing(Sharding.hash(num_shards), KeyType.STRING).shards(pa.array(keys, pa.large_string()))
    assert placed.to_pylist() == [hash_shard(key, KeyType.STRING, num_shards) for key in keys]


@UNHURRIED
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
    with pytest.raises(InvalidKey, match="9223372036854775808 cannot be placed: an integer key must fit into 64 bits"):
        Placing(Sharding.hash(8), KeyType.INTEGER).shards(pa.array([1, 2**63], pa.uint64()))


def test_a_null_key_is_refused() -> None:
    with pytest.raises(InvalidKey, match="a key must not be null"):
        Placing(Sharding.hash(8), KeyType.STRING).shards(pa.array(["a", None]))


@pytest.mark.parametrize("kind", [pa.float64(), pa.decimal128(20, 0), pa.timestamp("us"), pa.bool_(), pa.list_(pa.int8())])
def test_a_column_that_holds_no_keys_is_refused(kind: pa.DataType) -> None:
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
        InvalidKey, match=f"{stranger!r} cannot be placed: it is not among the 2 categories of the column 'origin'"
    ):
        Placing(Sharding.categories("origin", ("LGA", "JFK")), KeyType.INTEGER).shards(pa.array(["LGA", stranger]))


def test_categories_of_another_type_than_their_column_are_refused() -> None:
    with pytest.raises(InvalidBuild, match="values = "):
        Placing(Sharding.categories("month", ("1", "2")), KeyType.INTEGER).shards(pa.array([1, 2]))


def test_an_expression_names_the_shard() -> None:
    assert Placing(Sharding.expression("id % 3", 3), KeyType.INTEGER).shards(pa.array([2, 0, 1])).to_pylist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("ids", "told"), [([0, 3], "it gave 3"), ([-1, 0], "it gave -1"), ([0, None], "it gave null"), ([0.5], "type double")]
)
def test_an_expression_that_names_no_shard_stops_the_build(ids: list[object], told: str) -> None:
    with pytest.raises(InvalidBuild, match=told):
        Placing(Sharding.expression("id % 3", 3), KeyType.INTEGER).shards(pa.array(ids))


@pytest.mark.parametrize("keys", [0, 1, 1000, 1001, 5000, 1_000_000])
def test_no_shard_gets_more_keys_than_it_may_have(keys: int) -> None:
    num_shards = num_shards_for(keys, max_keys_per_shard=1000)
    placed = Placing(Sharding.hash(num_shards), KeyType.INTEGER).shards(pa.array(range(keys), pa.int64()))
    counts = placed.value_counts().field("counts").to_pylist()
    assert max(counts, default=0) <= 1000


def test_more_shards_than_there_may_be_are_refused() -> None:
    with pytest.raises(InvalidBuild, match=r"would need .* shards of at most 100,000"):
        num_shards_for(10**9, max_keys_per_shard=100)
