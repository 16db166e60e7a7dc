"""The cursors of lists: what a page returns continues the list, anything else is refused."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from airflow_snowpack.store import InvalidCursor, Keyset
from airflow_snowpack.store.dialect import UtcDateTime

runs = sa.Table(
    "runs",
    sa.MetaData(),
    sa.Column("as_of", UtcDateTime),
    sa.Column("sequence", sa.Integer),
    sa.Column("number", sa.BigInteger),
    sa.Column("name", sa.Text),
)
ORDER = Keyset(*runs.c)
PLACE = (datetime(2026, 11, 21, 22, tzinfo=UTC), 7, 2**40, "flights")


def encoded(values: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


def test_a_cursor_holds_the_place_of_a_row() -> None:
    assert ORDER.place_of(ORDER.cursor(*PLACE)) == PLACE


@pytest.mark.parametrize(
    "values",
    [
        ["2026-11-21T22:00:00+00:00", 2**31, 7, "flights"],
        ["2026-11-21T22:00:00+00:00", 7, 2**63, "flights"],
        ["2026-11-21T22:00:00+00:00", True, 7, "flights"],
        ["2026-11-21T22:00:00+00:00", 7.0, 7, "flights"],
        ["2026-11-21T22:00:00+00:00", 7, 7, "fli\x00ghts"],
        ["2026-11-21T22:00:00", 7, 7, "flights"],
        ["2026-11-21T22:00:00+00:00", 7, 7],
        {"as_of": 1, "sequence": 2, "number": 3, "name": 4},
    ],
)
def test_values_that_no_row_has_are_no_cursor(values: Any) -> None:
    with pytest.raises(InvalidCursor, match="not one that a list returned"):
        ORDER.place_of(encoded(values))


def test_a_page_has_a_cursor_when_there_is_another_row() -> None:
    names, rows = Keyset(runs.c.name), [SimpleNamespace(name=name) for name in "abc"]

    first = names.page(rows, 2, lambda row: row.name)
    assert (first.items, first.next) == (("a", "b"), names.cursor("b"))
    assert names.page(rows[2:], 2, lambda row: row.name).next is None
