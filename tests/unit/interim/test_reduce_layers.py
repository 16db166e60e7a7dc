"""The layers of a reduction are counted in whole numbers."""

from __future__ import annotations

import json
from functools import reduce

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from airflow_snowpack.interim.map_reduce.errors import InvalidReduction, WrongRows
from airflow_snowpack.interim.map_reduce.functions import ShippedFunction
from airflow_snowpack.interim.map_reduce.layers import Layer, Layers, groups_of
from airflow_snowpack.interim.map_reduce.reduction import INDEX, LayerTask, groups


def layer_task(rows_in: int, fan_in: int) -> LayerTask:
    layer = Layer(0, rows_in, 1, groups_of(rows_in, fan_in))
    return LayerTask(ShippedFunction("sums", b""), layer, fan_in, pa.schema([("v", pa.int64())]))


def batches(*numbers: int, size: int = 4) -> list[pa.RecordBatch]:
    """Rows with these numbers, the value of each being ten times its number."""
    parts = [numbers[begin : begin + size] for begin in range(0, len(numbers), size)]
    return [pa.RecordBatch.from_pydict({"v": [number * 10 for number in part], INDEX: part}) for part in parts]


def test_a_thousand_rows_by_ten_take_three_layers() -> None:
    layers = Layers.plan(1000, 10, 8)
    assert str(layers) == "1000 → 100 → 10 → 1"
    assert layers.layers == (Layer(0, 1000, 8, 100), Layer(1, 100, 8, 10), Layer(2, 10, 1, 1))
    assert str(layers.layers[0]) == "layer 0: 1000 rows in, 8 partitions, 100 rows out"


@pytest.mark.parametrize(
    ("rows", "fan_in", "told"),
    [(1, 2, "1"), (2, 2, "2 → 1"), (3, 2, "3 → 2 → 1"), (10, 10, "10 → 1"), (11, 10, "11 → 2 → 1"), (7, 1000, "7 → 1")],
)
def test_what_is_left_over_is_a_group_too(rows: int, fan_in: int, told: str) -> None:
    assert str(Layers.plan(rows, fan_in, 8)) == told


def test_a_power_of_the_fan_in_has_exactly_its_exponent_of_layers() -> None:
    """A logarithm in floating point says 4 for 5**3."""
    for fan_in in (2, 3, 5, 10, 1000):
        for exponent in range(1, 13):
            rows = fan_in**exponent
            assert len(Layers.plan(rows, fan_in, 1).layers) == exponent
            assert len(Layers.plan(rows + 1, fan_in, 1).layers) == exponent + 1


@given(st.integers(1, 10**24), st.integers(2, 10**6), st.integers(1, 500))
def test_each_layer_begins_with_what_the_one_before_gave_and_the_last_gives_one_row(rows: int, fan_in: int, most: int) -> None:
    layers = Layers.plan(rows, fan_in, most).layers
    assert reduce(lambda given, layer: layer.rows_out if layer.rows_in == given else -1, layers, rows) == 1
    assert all(0 <= layer.rows_out * fan_in - layer.rows_in < fan_in for layer in layers)
    assert all(1 <= layer.partitions <= min(most, layer.rows_out) for layer in layers)


def test_nothing_cannot_be_reduced() -> None:
    with pytest.raises(TypeError, match=r"^reduce\(\) of empty sequence with no initial value$"):
        Layers.plan(0, 2, 8)


@pytest.mark.parametrize("fan_in", [1, 0, -3, True, 2.5, "10", None])
def test_a_fan_in_that_makes_nothing_fewer_is_refused(fan_in: int) -> None:
    with pytest.raises(InvalidReduction, match=r"^fan_in = .* is not usable: .* pass a whole number from 2\.$"):
        Layers.plan(10, fan_in, 8)


@pytest.mark.parametrize("partitions", [0, -1, False, 1.5])
def test_a_layer_without_tasks_is_refused(partitions: int) -> None:
    with pytest.raises(InvalidReduction, match=r"partitions = .* is not usable"):
        Layers.plan(10, 2, partitions)


def test_layers_are_reported_as_json() -> None:
    first, last = {"layer": 0, "rows_in": 10, "partitions": 2, "rows_out": 2}, {"layer": 1, "rows_in": 2, "partitions": 1}
    report = {"rows": 10, "fan_in": 7, "layers": [first, last | {"rows_out": 1}]}
    assert json.loads(json.dumps(Layers.plan(10, 7, 3).to_json())) == report


def test_a_task_makes_whole_groups_of_the_rows_of_its_partition() -> None:
    found = list(groups(layer_task(11, 3), batches(3, 4, 5, 9, 10)))
    assert [(group.number, [row["v"] for row in group.rows]) for group in found] == [(1, [30, 40, 50]), (3, [90, 100])]
    assert all(INDEX not in row for group in found for row in group.rows)
    assert list(groups(layer_task(11, 3), iter([]))) == []


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        ((3, 5), "layer 0, rows 3 to 5 should have row 4 next, and has row 5"),
        ((3, 3, 4, 5), "should have row 4 next, and has row 3"),
        ((4, 5), "should have row 3 next, and has row 4"),
        ((3, 4), "should have 3 rows, and has 2"),
        ((9, 10, 12), "row 12|rows 12 to"),
    ],
)
def test_a_task_that_meets_other_rows_than_were_counted_fails(numbers: tuple[int, ...], told: str) -> None:
    with pytest.raises(WrongRows, match=told):
        list(groups(layer_task(11, 3), batches(*numbers)))
