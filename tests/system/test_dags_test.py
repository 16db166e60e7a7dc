"""``airflow dags test``, with nothing of Airflow running: a scheduler would take its run. Its name puts it first in line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa

from airflow_snowpack.jobs import JobStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table

    from airflow_snowpack.iceberg import TableName
    from airflow_snowpack.jobs import Jobs
    from tests.system.conftest import AirflowHome


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
