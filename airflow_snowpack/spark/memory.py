"""How much memory a Spark session has, for the cost of what runs in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.spark.errors import SparkFailed
from airflow_snowpack.spark.work import spark_errors

if TYPE_CHECKING:
    from airflow_snowpack.spark.statements import Statements

UNITS = {"k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
SPARK_DEFAULT = "1g"


def session_gb(statements: Statements) -> float | None:
    """Return the memory of the driver and its executors in GB; ``None`` when the session does not report its settings.

    With dynamic allocation that is the memory of the most executors that the session may have, when it has a limit.
    """

    def read(name: str, default: str) -> str:
        return statements.setting(name) or default

    try:
        driver = _bytes(read("spark.driver.memory", SPARK_DEFAULT))
        if read("spark.master", "local").startswith("local"):
            return driver / 1e9
        fixed = read("spark.executor.instances", "1")
        executors = int(read("spark.dynamicAllocation.maxExecutors", fixed))
        return (driver + executors * _bytes(read("spark.executor.memory", SPARK_DEFAULT))) / 1e9
    except (SparkFailed, ValueError):
        return None
    except spark_errors():
        return None


def _bytes(text: str) -> int:
    """Read a size as Spark writes it, such as ``4g``; without a unit, it is in MiB."""
    number = text.strip().lower().removesuffix("b")
    unit = UNITS.get(number[-1:])
    return int(float(number[:-1]) * unit) if unit else int(number) * UNITS["m"]
