"""What a task sends to the function of an entry arrives equal, with its type, or is refused by name."""

from __future__ import annotations

import enum
import json
import threading
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

from airflow_snowpack.runners.values import TAG, NotSerializable, decode, encode


def sent(value: Any) -> Any:
    def unknown(tag: str, found: dict[str, Any]) -> Any:
        raise AssertionError(tag)

    return decode(json.loads(json.dumps(encode(value, lambda value, path: None))), unknown)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        2**80,
        -1.5,
        0.1 + 0.2,
        float("inf"),
        "",
        "Grüße\n\0 \ud800",
        [1, [None, {"a": []}]],
        {"a": {"b": 1}},
        {1: "a", (2, "b"): None, None: 0},
        {TAG: "tuple", "items": []},
        {"nested": {TAG: {TAG: 1}}},
        (1, ("a",)),
        (),
        b"\0\xff",
        Decimal("1.100"),
        date(2026, 11, 23),
        time(23, 59, 59, 999999),
        timedelta(days=-1, microseconds=1),
        datetime.fromisoformat("2026-11-23T01:02:03.000004"),
        datetime(2026, 11, 23, tzinfo=UTC),
        datetime(2026, 11, 23, tzinfo=timezone(timedelta(hours=5, minutes=30))),
        {"snowpack": "table", "table_id": "a"},
    ],
)
def test_a_value_arrives_equal_and_of_the_same_type(value: Any) -> None:
    arrived = sent(value)
    assert (arrived, type(arrived)) == (value, type(value))


def test_not_a_number_arrives() -> None:
    assert sent(float("nan")) != sent(float("nan"))


@pytest.mark.parametrize("fold", [0, 1])
def test_a_moment_keeps_its_time_zone_also_in_the_hour_that_comes_twice(fold: int) -> None:
    value = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=fold)
    arrived = sent(value)
    assert (arrived.tzinfo, arrived.utcoffset(), arrived.fold) == (value.tzinfo, value.utcoffset(), fold)


def test_a_moment_of_airflow_arrives_as_a_moment_of_python() -> None:
    import pendulum

    assert repr(sent(pendulum.datetime(2026, 11, 23))) == "datetime.datetime(2026, 11, 23, 0, 0, tzinfo=datetime.timezone.utc)"
    assert sent(pendulum.datetime(2026, 11, 23, tz="Asia/Tokyo")).tzinfo == ZoneInfo("Asia/Tokyo")
    assert sent(pendulum.datetime(2026, 11, 23, tz=pendulum.FixedTimezone(7200))).utcoffset() == timedelta(hours=2)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.int64(7), 7),
        (np.float32(0.5), 0.5),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (enum.IntEnum("Size", {"ONE": 1}).ONE, 1),  # type: ignore[attr-defined]
        (enum.StrEnum("Color", {"RED": "red"}).RED, "red"),  # type: ignore[attr-defined]
        (pd.Timestamp("2026-11-23", tz="UTC"), datetime(2026, 11, 23, tzinfo=UTC)),
    ],
)
def test_a_scalar_of_a_library_arrives_as_its_plain_value(value: Any, plain: Any) -> None:
    arrived = sent(value)
    assert (arrived, type(arrived)) == (plain, type(plain))


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (threading.Lock(), "_thread.lock"),
        ({1}, "set"),
        (object(), "object"),
        (print, "builtin_function_or_method"),
        (1j, "complex"),
        (np.array([7]), "numpy.ndarray"),
        (np.datetime64("2026-11-23T00:00:00.000000001"), "numpy.datetime64"),
        (np.longdouble(1), "numpy.longdouble"),
        (pd.Series([1]), "Series"),
        (pd.NaT, "NaTType"),
        (pd.Timestamp(1), "with nanoseconds"),
        (time(1, tzinfo=UTC), "datetime.time"),
        (iter([]), "list_iterator"),
    ],
)
def test_what_cannot_be_sent_is_refused_with_its_place_and_its_type(value: Any, name: str) -> None:
    with pytest.raises(NotSerializable) as refused:
        sent({"scores": [1, (value,)]})
    assert refused.value.path == "['scores'][1][0]"
    assert name in refused.value.problem


def test_a_value_that_contains_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(NotSerializable, match="contains itself"):
        sent(value)
