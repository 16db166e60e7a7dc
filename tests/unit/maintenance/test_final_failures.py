"""Which failures of Spark would come again, so that a task is not retried."""

from __future__ import annotations

import pytest

from airflow_snowpack.maintenance.commits import is_refused, remedy_of
from airflow_snowpack.spark import SparkFailed
from airflow_snowpack.spark.errors import JavaCause

PY4J = JavaCause("java.lang.RuntimeException", "failed")


@pytest.mark.parametrize(
    ("class_name", "what_to_do"),
    [
        ("java.lang.StackOverflowError", "Simplify its predicate"),
        ("java.lang.OutOfMemoryError", r"Raise \[snowpack\] spark_driver_memory"),
    ],
)
def test_exhausting_the_drivers_stack_or_memory_is_final_and_says_what_to_do(class_name: str, what_to_do: str) -> None:
    failure = SparkFailed("failed", (PY4J, JavaCause(class_name, "")))
    assert is_refused(failure)
    with pytest.raises(RuntimeError, match=what_to_do):
        raise RuntimeError(remedy_of(failure))


@pytest.mark.parametrize(
    "message",
    [
        "[CAST_INVALID_INPUT] The value 'x' of the type \"STRING\" cannot be cast. SQLSTATE: 22018",
        "ArithmeticException: long overflow",  # timestamp_millis(9223372036854775807)
        "IllegalArgumentException: Invalid number of buckets: 0 (must be > 0)",
        "IllegalArgumentException: Invalid truncate width: 0 (must be > 0)",
    ],
)
def test_a_value_that_spark_cannot_use_in_a_predicate_is_final(message: str) -> None:
    assert is_refused(SparkFailed(message))


@pytest.mark.parametrize(
    ("message", "what"), [("", "Spark's stack"), ("Java heap space", "Spark's driver has too little memory")]
)
def test_exhausting_a_spark_connect_server_is_final_although_it_sends_no_class(message: str, what: str) -> None:
    sent = f'<_MultiThreadedRendezvous of RPC that terminated with:\n\tstatus = StatusCode.UNKNOWN\n\tdetails = "{message}"\n>'
    failure = SparkFailed(f"SparkConnectGrpcException: {sent}")
    assert is_refused(failure)
    assert str(remedy_of(failure)).startswith(what)


def test_other_failures_are_retried() -> None:
    assert not is_refused(SparkFailed("Job aborted due to stage failure: java.lang.OutOfMemoryError", (PY4J,)))
    assert remedy_of(SparkFailed("failed", (PY4J,))) is None
    assert not is_refused(SparkFailed('status = StatusCode.UNKNOWN\n\tdetails = "the channel was closed"'))
