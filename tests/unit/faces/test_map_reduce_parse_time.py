"""What the operators that map and reduce refuse while Airflow parses a DAG file."""

from __future__ import annotations

import pytest

from airflow_snowpack import operators


def test_invalid_arguments_are_refused_in_the_dag_file() -> None:
    with pytest.raises(ValueError, match="is not callable"):
        operators.MapRowsOperator(task_id="map", python_callable="times", table="db.t")
    with pytest.raises(Exception, match="fan_in = 1 is not usable"):
        operators.ReduceRowsOperator(task_id="reduce", python_callable=sum, table="db.t", fan_in=1)
