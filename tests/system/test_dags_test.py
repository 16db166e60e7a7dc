"""``airflow dags test`` of the example DAGs, with nothing of Airflow running: a scheduler would take their runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import sqlalchemy as sa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField

from airflow_snowpack.jobs import JobStatus
from airflow_snowpack.scheduling import GateState
from airflow_snowpack.store.schedule_tables import gated_runs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyiceberg.table import Table

    from airflow_snowpack.iceberg import TableName
    from airflow_snowpack.jobs import Jobs
    from tests.system.conftest import AirflowHome


def table_of_parts(new_table: Callable[..., TableName]) -> TableName:
    part = PartitionSpec(PartitionField(source_id=1, field_id=1000, transform=IdentityTransform(), name="part"))
    rows = [pa.table({"part": pa.array([number] * 10)}) for number in range(5)]
    return new_table(rows, schema=Schema(NestedField(1, "part", LongType())), partition_spec=part)


def test_dags_test_maintains_a_table(
    airflow_home: AirflowHome, jobs: Jobs, new_table: Callable[..., TableName], load: Callable[[TableName], Table]
) -> None:
    table = new_table([pa.table({"id": pa.array(range(100))})] * 6)
    conf = {"table": table.dotted, "actions": ["rewrite_data_files", "rewrite_manifests"]}
    file = airflow_home.dags / "snowpack_maintain_table.py"
    airflow_home.run("dags", "test", "snowpack_maintain_table", "--dagfile-path", str(file), "--conf", json.dumps(conf))

    (job,) = jobs.list(table=table)
    assert job.status is JobStatus.COMPLETED
    assert [result.action for result in job.results] == conf["actions"]
    assert len(load(table).inspect.files()) == 1
    assert load(table).scan().to_arrow().num_rows == 600


def test_dags_test_of_the_examples_about_schedules_ends_as_their_pages_say(
    airflow_home: AirflowHome, jobs: Jobs, new_table: Callable[..., TableName], load: Callable[[TableName], Table], tmp_path: Path
) -> None:
    """Five partitions have arrived, the night is long, a schedule's conf names the table, and no event has come.

    And with nothing configured, the DAG that ``test_anywhere.py`` runs on a cluster hands its table on.
    """

    def test(dag_id: str, file: str, conf: dict[str, str]) -> list[str]:
        return ["dags", "test", dag_id, "--dagfile-path", str(airflow_home.dags / file), "--conf", json.dumps(conf)]

    arrived, gentle, scheduled = (table_of_parts(new_table) for _ in range(3))
    airflow_home.run_all(
        test("snowpack_maintain_on_arrival", "snowpack_maintain_on_arrival.py", {"table": arrived.dotted}),
        test(
            "snowpack_maintain_gently", "snowpack_maintain_gently.py", {"table": gentle.dotted, "from": "00:00", "until": "23:59"}
        ),
        test("snowpack_maintain_scheduled", "snowpack_schedules.py", {"table": scheduled.dotted}),
        test("snowpack_new_flights", "snowpack_new_flights.py", {}),
        test("system_anywhere", "system_anywhere.py", {"tell": str(tmp_path / "told.json")}),
    )

    for table in (arrived, gentle, scheduled):
        (job,) = jobs.list(table=table)
        assert job.status is JobStatus.COMPLETED
    passed = sa.select(gated_runs.c.state, gated_runs.c.ended_at).where(gated_runs.c.dag_id == "snowpack_maintain_gently")
    (gate,) = jobs.store.read(lambda conn: conn.execute(passed).all())
    assert gate.state == GateState.PASSED
    assert gate.ended_at is not None, "its place is free again"
    told = json.loads((tmp_path / "told.json").read_text())
    assert told == {"sums": [166_833, 166_167, 166_500], "master": "local[2]", "session": "pyspark.sql.session"}
