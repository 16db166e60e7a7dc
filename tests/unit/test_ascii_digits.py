"""Numbers that people write have digits of ASCII: a digit of another script is a mistake, and databases and Spark refuse it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import pytest

from airflow_snowpack.durations import parse_duration
from airflow_snowpack.maintenance.policies.definitions import size, windows
from airflow_snowpack.operators.arguments import UnreadableArgument, read_number
from airflow_snowpack.sizes import parse_bytes

pytestmark = pytest.mark.one_database
THREE = "\N{FULLWIDTH DIGIT THREE}"


def read_port(text: str) -> int:
    from airflow_snowpack.cli.arguments import port  # loads Airflow

    return port(text)


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_duration, "3h"),
        (parse_duration, "P3D"),
        (parse_duration, "PT1.3S"),
        (parse_bytes, "3 GiB"),
        (size, "3"),
        (windows, "13:00-14:00"),
        (read_port, "3000"),
        (lambda text: read_number("tries", text), "3"),
    ],
)
def test_a_digit_of_another_script_is_refused(parse: Callable[[Any], Any], text: str) -> None:
    parse(text)
    with pytest.raises((ValueError, argparse.ArgumentTypeError, UnreadableArgument)):
        parse(text.replace("3", THREE))
