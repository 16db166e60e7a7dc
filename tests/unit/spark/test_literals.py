"""What a value cannot do in the text of a statement."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, strategies as st

from airflow_snowpack.spark.literals import literal, with_constants, with_literals


@given(st.text())
def test_a_string_stays_one_literal_without_quotes_backslashes_or_dollar_signs_of_its_own(text: str) -> None:
    written = literal(text)
    assert re.fullmatch(r"'(?:[A-Za-z0-9 _./,=<>()-]|\\u[0-9a-f]{4}|\\U[0-9a-f]{8})*'", written)
    codes = re.sub(r"\\[uU]([0-9a-f]{8}|[0-9a-f]{4})", lambda match: chr(int(match[1], 16)), written[1:-1])
    assert codes == text


def test_markers_are_replaced_but_not_what_looks_like_one_in_comments_names_and_strings() -> None:
    sql = "/* \"job\": :a */ CALL `:a`.x(table => :a, options => map(':a', :b), at => :at)"
    at = datetime(2026, 5, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert with_literals(sql, {"a": ":b", "b": 7, "at": at}) == (
        "/* \"job\": :a */ CALL `:a`.x(table => '\\u003ab', options => map(':a', 7), "
        "at => TIMESTAMP_LTZ '2026-05-01 00:00:00+00:00')"
    )


def test_booleans_and_numbers_are_sparks() -> None:
    assert [literal(value) for value in (True, False, -3, 2**40, 0.1)] == ["true", "false", "-3", "1099511627776", "0.1D"]


@pytest.mark.parametrize("value", [None, b"x", datetime.now(UTC).replace(tzinfo=None), ["a"]])
def test_another_type_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="cannot be an argument"):
        literal(value)


def test_a_call_of_spark_3_has_constants_in_the_place_of_markers_and_casts() -> None:
    sql = (
        "CALL lake.x(table => :table, retain_last => :last, snapshot_ids => array(CAST(:id_0 AS BIGINT), CAST(:id_1 AS BIGINT)))"
    )
    given = {"table": "db.t", "last": 2, "id_0": 7, "id_1": 2**62}
    assert with_constants(sql, given) == f"CALL lake.x(table => 'db.t', retain_last => 2, snapshot_ids => array(7L, {2**62}L))"
