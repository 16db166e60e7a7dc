"""What a build cannot be made of is refused where it is declared, by an error that names the parameter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from shard_writing import write_rows

from airflow_snowpack.builds.build_spec import BuildSpec
from airflow_snowpack.builds.errors import InvalidBuild, InvalidRowKey
from airflow_snowpack.builds.json_format import read_sharding
from airflow_snowpack.builds.model import KeyType, Retention, ShardFormat, Sharding, hash_shard
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.write.attempt import ShardPlan
from airflow_snowpack.builds.write.rows_source import RowsSource
from airflow_snowpack.builds.write.spark_source import SparkSource

HALF_A_PAIR = "\ud800"


@pytest.mark.parametrize("number", [True, 2.5, "3", None, 0, -1, 100_001])
def test_a_number_of_shards_that_is_none_is_refused(number: Any) -> None:
    for make in (Sharding.hash, lambda number: Sharding.expression("id % 3", number)):
        with pytest.raises(InvalidBuild, match=r"num_shards = .* is not usable: it must be an integer from 1 to 100,000"):
            make(number)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Sharding.categories("country", (HALF_A_PAIR,)), "values"),
        (lambda: Sharding.categories("country", (True,)), "values"),
        (lambda: Sharding.categories("country", (2.5,)), "values"),  # type: ignore[arg-type]
        (lambda: Sharding.categories("country", (None,)), "values"),  # type: ignore[arg-type]
        (lambda: Sharding.categories("country", (["de"],)), "values"),  # type: ignore[arg-type]
        (lambda: Sharding.categories("country", (2**63,)), "values"),
        (lambda: Sharding.categories(HALF_A_PAIR, ("de",)), "column"),
        (lambda: Sharding.expression(HALF_A_PAIR, 2), "expression"),
        (lambda: spec(key=HALF_A_PAIR), "key"),
        (lambda: spec(batch_size=2.5), "batch_size"),
        (lambda: spec(batch_size=True), "batch_size"),
        (lambda: spec(shard_retry=-1), "shard_retry"),
        (lambda: spec(shard_retry=0.5), "shard_retry"),
        (lambda: spec(processes=0), "processes"),
        (lambda: spec(rows_per_second=True), "rows_per_second"),
        (lambda: spec(rows_per_second=float("nan")), "rows_per_second"),
        (lambda: spec(rows_per_second="fast"), "rows_per_second"),
        (lambda: BuildSpec(dataset="flights", key="id", max_keys_per_shard=2.5), "max_keys_per_shard"),  # type: ignore[arg-type]
        (lambda: BuildSpec(dataset="flights", key="id", max_keys_per_shard=True), "max_keys_per_shard"),
        (lambda: Retention(keep_runs=2.5), "keep_runs"),  # type: ignore[arg-type]
        (lambda: RowsSource([], sources=({"sql": HALF_A_PAIR},)), "sources"),
        (lambda: RowsSource([], sources=({"day": float("nan")},)), "sources"),
        (lambda: RowsSource([], sources=({"day": object()},)), "sources"),
    ],
)
def test_what_no_build_can_be_made_of_names_its_parameter(make: Callable[[], object], field: str) -> None:
    with pytest.raises(InvalidBuild) as refused:
        make()
    assert refused.value.field == field


def spec(**declared: Any) -> BuildSpec:
    return BuildSpec(**{"dataset": "flights", "key": "id", "sharding": Sharding.hash(1)} | declared)


@pytest.mark.parametrize("key", [True, 2.5, HALF_A_PAIR, None, 2**63])
def test_what_is_no_key_has_no_shard(key: object) -> None:
    for kind in KeyType:
        with pytest.raises(InvalidRowKey):
            hash_shard(key, kind, 8)


@pytest.mark.parametrize("shard_format", list(ShardFormat))
@pytest.mark.parametrize(
    ("kind", "formats"),
    [
        (pa.struct([]), {"parquet"}),
        (pa.list_(pa.struct([])), {"parquet"}),
        (pa.month_day_nano_interval(), {"parquet", "sqlite"}),
        (pa.dense_union([pa.field("a", pa.int64())]), {"parquet", "sqlite"}),
        (pa.string_view(), {"parquet", "sqlite"}),
        (pa.run_end_encoded(pa.int32(), pa.int64()), {"parquet", "sqlite"}),
        (pa.uuid(), {"sqlite"}),
        (pa.decimal128(5, -2), {"parquet"}),
        (pa.struct([pa.field("a: b", pa.int64())]), {"sqlite"}),
        (pa.struct([pa.field("a: int64, b", pa.string())]), {"sqlite"}),
        (pa.struct([pa.field("a", pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)))]), set()),
        (pa.list_(pa.field("element", pa.list_(pa.int8(), 2), nullable=False)), set()),
        (pa.large_list(pa.map_(pa.string(), pa.dictionary(pa.int32(), pa.string()))), set()),
    ],
)
def test_a_type_that_no_shard_can_hold_is_refused_with_its_column(
    kind: pa.DataType, formats: set[str], shard_format: ShardFormat
) -> None:
    schema = pa.schema([("id", pa.int64()), ("odd", kind)])
    if shard_format.value not in formats:
        assert ShardPlan(schema, "id", shard_format).schema == schema
        return
    with pytest.raises(InvalidBuild, match=f"columns = 'odd' is not usable: a {shard_format.value} shard cannot hold its type"):
        ShardPlan(schema, "id", shard_format)


def test_a_column_whose_name_has_a_nul_is_refused() -> None:
    with pytest.raises(InvalidBuild, match="must not contain NUL"):
        ShardPlan(pa.schema([("id", pa.int64()), ("a\0b", pa.int64())]), "id")


def test_text_that_is_not_unicode_is_refused_before_a_shard_is_written(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    bad = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")])
    for rows, refused in (
        ([{"id": HALF_A_PAIR}], InvalidRowKey),
        ([{"id": "a", "name": HALF_A_PAIR}], InvalidBuild),
        ([{"id": "a", HALF_A_PAIR: 1}], InvalidBuild),
        (pa.table({"id": bad}), InvalidBuild),
        (pa.table({"id": ["a"], "name": bad}), InvalidBuild),
    ):
        with pytest.raises(refused):
            write_rows(rows, storage, "r1", Sharding.hash(1), "id", processes=1)
    assert list(storage.objects("")) == []


def test_half_a_surrogate_pair_in_a_manifest_is_damage() -> None:
    with pytest.raises(ValueError, match="which is not a key"):
        read_sharding({"kind": "categories", "column": "c", "num_shards": 1, "values": [HALF_A_PAIR]})
    with pytest.raises(ValueError, match="which is not Unicode text"):
        read_sharding({"kind": "expression", "sql": HALF_A_PAIR, "num_shards": 1})


def test_a_query_with_a_variable_is_refused_before_spark_sees_it() -> None:
    session: Any = None
    with pytest.raises(InvalidBuild, match=r"it has '\$\{', with which Spark names a setting or a variable of its process"):
        SparkSource.sql(session, "SELECT '${env:AIRFLOW_CONN_CRM}' AS id")
