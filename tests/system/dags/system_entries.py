"""A DAG whose task runs a program in a process of its own, between two interim tables."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, task

from airflow_snowpack.operators import RunEntryOperator

if TYPE_CHECKING:
    import pyarrow as pa

# Its first try starts a process in a session of its own, leaves the ids of both, and writes nothing until it is killed.
SCORE = """
import json, os, subprocess, sys, time
source, target, folder, attempt = sys.argv[1:]
if attempt == "1":
    below = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True)
    with open(f"{folder}/pids.new", "w") as file:
        json.dump([os.getpid(), below.pid], file)
    os.rename(f"{folder}/pids.new", f"{folder}/pids.json")
    time.sleep(3600)
import pyarrow, pyarrow.parquet
rows = pyarrow.parquet.read_table(source)
pyarrow.parquet.write_table(rows.append_column("try", pyarrow.array([int(attempt)] * rows.num_rows)), target)
"""

with DAG("system_entry", schedule=None, params={"folder": ""}):

    @task.snowpack
    def numbers() -> pa.Table:
        import pyarrow as pa

        return pa.table({"n": [1, 2]})

    score = RunEntryOperator(
        task_id="score",
        runner="subprocess",
        command=[
            *(sys.executable, "-c", SCORE, "{inputs}/numbers", "{outputs}/scored.parquet"),
            *("{{ params.folder }}", "{{ ti.try_number }}"),
        ],
        inputs={"numbers": numbers()},
        outputs=["scored"],
        retries=1,
        retry_delay=timedelta(seconds=1),
    )

    @task.snowpack
    def check(scored: pa.Table) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = scored.to_pylist()
        return rows

    check(score.output)
