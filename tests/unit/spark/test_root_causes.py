"""The message of a failure of Spark names its root cause, whatever it is wrapped in."""

from __future__ import annotations

import pytest

from airflow_snowpack.spark.work import translate


class Sent(Exception):
    """An error as a Spark Connect client has it: the text that the server sent, without objects of Java."""

    def __init__(self, message: str, trace: list[str]) -> None:
        super().__init__(message)
        self._message, self._stacktrace = message, "\n".join(trace)


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        ("java.io.IOException: No space left on device", "IOException: No space left on device"),
        ("java.lang.OutOfMemoryError", "OutOfMemoryError"),
        ("java.lang.NullPointerException", "NullPointerException"),
    ],
)
def test_the_root_cause_is_in_the_message_also_if_it_has_none_of_its_own(root: str, expected: str) -> None:
    trace = ["org.apache.spark.SparkException", "Caused by: java.io.UncheckedIOException: Failed to write", f"Caused by: {root}"]

    assert str(translate(Sent("Writing job aborted", trace))).endswith(f"; caused by {expected}")


def test_a_message_that_is_repeated_is_shown_once() -> None:
    trace = ["org.apache.spark.SparkException", "Caused by: java.io.IOException: disk full"]

    assert str(translate(Sent("Task failed: disk full", trace))) == "SparkException: Task failed: disk full"
