"""``airflow dags test`` of the example that maps and reduces, and what it leaves in XCom."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest
import sqlalchemy as sa

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.interim.map_reduce.layers import Layers
from tests.system.conftest import AirflowHome

if TYPE_CHECKING:
    from pyiceberg.table import Table

TABLE = TableName("lake", "demo", "flights")


def decoded(value: Any) -> Any:
    """The JSON in a column of JSON."""
    while isinstance(value, str):
        value = json.loads(value)
    return value


def xcoms(airflow_home: AirflowHome) -> dict[tuple[str, str], Any]:
    """What the tasks of the DAG have left, by task and key: as Airflow's own database has it, since no API server runs."""
    engine = sa.create_engine(airflow_home.environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"])
    query = sa.text(
        "SELECT task_id, key, CAST(value AS TEXT) FROM xcom "
        "WHERE dag_id = 'snowpack_map_reduce' AND key IN ('return_value', 'layers')"
    )
    try:
        with engine.connect() as connection:
            return {(task_id, key): decoded(value) for task_id, key, value in connection.execute(query)}
    finally:
        engine.dispose()


@pytest.mark.usefixtures("examples")
def test_dags_test_maps_and_reduces_the_flights(airflow_home: AirflowHome, load: Callable[[TableName], Table]) -> None:
    flights = load(TABLE).scan().to_arrow()
    arrived = flights.filter(pc.is_valid(flights["arr_delay"]))
    told = xcoms(airflow_home)
    report = told["report", "return_value"]
    assert report["flights"] == arrived.num_rows
    assert report["miles"] == pc.sum(arrived["distance"]).as_py()
    assert report["worst_delay"] == pc.max(arrived["arr_delay"]).as_py()
    assert report["late"] == pc.sum(pc.greater(arrived["arr_delay"], 60)).as_py()
    planned = Layers.plan(arrived.num_rows, 100, 8)
    assert [layer["rows_out"] for layer in told["total", "layers"]["layers"]] == [layer.rows_out for layer in planned.layers]
    assert told["legs", "return_value"]["snowpack"] == "table", "no rows go through Airflow"
