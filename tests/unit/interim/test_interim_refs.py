"""Refs: plain JSON and back, found and replaced wherever they are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given, strategies as st

from airflow_snowpack.interim.errors import InterimTableGone, InvalidInterimRef
from airflow_snowpack.interim.names import Producer
from airflow_snowpack.interim.refs import TableRef, ViewRef, find_refs, is_ref, read_ref, replace_refs

REF = TableRef("5f0c", "lake.snowpack_interim.flights_clean_5f0c", 2**62, 1_000_000, Producer("flights", "manual__1", "clean", 3))
BARE = TableRef("6a1b", "lake.snowpack_interim.flights_ingest_6a1b", None, None, Producer("flights", "manual__1", "ingest"))

texts = st.text(min_size=1).filter(str.strip).filter(lambda text: "${" not in text)
views = st.builds(
    ViewRef,
    of=st.sampled_from([REF, BARE]),
    condition=st.none() | texts,
    columns=st.none() | st.lists(texts, min_size=1).map(tuple),
    order=st.lists(texts).map(tuple),
    rows=st.none() | st.integers(min_value=0, max_value=2**63),
)


@given(st.sampled_from([REF, BARE]) | views)
def test_what_is_read_is_what_was_written(ref: TableRef | ViewRef) -> None:
    assert read_ref(json.loads(json.dumps(ref.to_json()))) == ref
    assert read_ref(ref) is ref


def test_a_view_filters_orders_limits_and_selects() -> None:
    view = REF.where("distance > 500").where("a OR b").select("origin", "distance").order_by("distance desc").limit(20).limit(10)

    assert (view.of, view.condition) == (REF, "(distance > 500\n) AND (a OR b\n)")
    assert (view.columns, view.order, view.rows) == (("origin", "distance"), ("distance desc",), 10)
    assert view.producer == REF.producer


@pytest.mark.parametrize(
    "say",
    [
        lambda: REF.limit(5).where("a"),
        lambda: REF.limit(5).order_by("a"),
        lambda: REF.limit(-1),
        lambda: REF.where("  "),
        lambda: REF.select(),
        lambda: REF.select("a").select("b"),
    ],
)
def test_a_view_without_a_clear_meaning_is_refused(say: Any) -> None:
    with pytest.raises(InvalidInterimRef, match="not a valid reference"):
        say()


class Pair(NamedTuple):
    left: Any
    right: Any


class Lazy(Sequence[Any]):
    """As Airflow hands on what a mapped task returned."""

    def __init__(self, *items: Any) -> None:
        self._items = items

    def __getitem__(self, index: Any) -> Any:
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)


def test_refs_are_found_however_deep_they_are() -> None:
    value = {"a": [REF.to_json(), 7, "text", b"bytes"], "b": (REF.limit(1), {"c": Lazy(BARE.to_json())}), "d": None}

    assert find_refs(value) == [REF, REF.limit(1), BARE]
    assert find_refs("text") == find_refs(None) == []


def test_refs_are_replaced_and_everything_else_stays() -> None:
    value = {"a": [REF.to_json(), 7], "b": Pair(REF.limit(1), "x"), "c": Lazy(BARE), "d": ("y", BARE)}

    replaced = replace_refs(value, lambda ref: ref.of.table_id)

    assert replaced == {"a": ["5f0c", 7], "b": Pair("5f0c", "x"), "c": ["6a1b"], "d": ("y", "6a1b")}
    assert isinstance(replaced["b"], Pair)


@pytest.mark.parametrize("field", ["table_id", "table", "producer"])
def test_a_damaged_reference_is_refused_and_not_treated_as_data(field: str) -> None:
    damaged = REF.to_json() | {field: 7}

    assert is_ref(damaged)
    with pytest.raises(InvalidInterimRef, match=f"its '{field}' is 7"):
        find_refs([damaged])
    with pytest.raises(InvalidInterimRef, match="is 'table' or 'view'"):
        read_ref({"snowpack": "other"})
    with pytest.raises(InvalidInterimRef, match="list of texts"):
        read_ref(REF.select("a").to_json() | {"columns": [1]})


def test_the_error_for_a_dropped_table_names_the_task_to_clear() -> None:
    message = str(InterimTableGone(REF.table, REF.producer))

    for told in ("'clean'", "map index 3", "'manual__1'", "'flights'", "Clear its producer too"):
        assert told in message


@pytest.mark.parametrize("sql", ["note = '${env:HOME}'", "${system:user.home} desc"])
def test_a_view_whose_sql_has_a_variable_is_refused_also_from_an_xcom(sql: str) -> None:
    for made in (
        lambda: REF.where(sql),
        lambda: REF.order_by(sql),
        lambda: read_ref({**REF.limit(1).to_json(), "where": sql}),
        lambda: read_ref({**REF.limit(1).to_json(), "order_by": ["a", sql]}),
    ):
        with pytest.raises(InvalidInterimRef, match=r"the SQL has '\$\{', with which Spark names"):
            made()
