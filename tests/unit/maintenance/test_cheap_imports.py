"""What a DAG file imports stays cheap."""

from __future__ import annotations

import sys

import pytest
from bounded import output_of

HEAVY = {"pyspark", "py4j", "pyiceberg", "pyarrow", "sqlalchemy", "pandas"}


@pytest.mark.parametrize(
    "statement",
    [
        "import airflow_snowpack.spark",
        "from airflow_snowpack.spark import SparkConfig, SparkUnavailable, SparkWork, local_session",
        "from airflow_snowpack.maintenance import Action, UnknownAction, in_order, parse_all_options",
    ],
)
def test_a_dag_file_does_not_pay_for_spark_catalog_or_store(statement: str) -> None:
    script = f"{statement}\nimport sys\nprint(*({HEAVY!r} & sys.modules.keys()))"
    done = output_of(sys.executable, "-c", script)
    assert done.split() == []
