"""The room's names are there, and cost only those who use them."""

from __future__ import annotations

import subprocess
import sys

import airflow_snowpack.builds as room


def test_every_name_loads() -> None:
    assert all(getattr(room, name).__name__ == name for name in room.__all__)


def test_readers_and_the_tasks_of_spark_in_which_they_read_need_no_database() -> None:
    check = (
        "import sys, airflow_snowpack.builds.read.reader, airflow_snowpack.builds.read.spark_reader\n"
        "print([name for name in ('sqlalchemy', 'alembic', 'pyspark', 'airflow') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_a_spark_task_needs_neither_the_database_nor_spark() -> None:
    check = (
        "import sys, airflow_snowpack.builds.write.spark_source, airflow_snowpack.builds.write.shard_pool\n"
        "print([name for name in ('sqlalchemy', 'alembic', 'pyspark', 'airflow', 'fsspec') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout.strip() == "[]"
