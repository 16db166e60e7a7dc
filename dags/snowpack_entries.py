"""Run a function and a program in processes of their own: flights in, delays by airline and the worst of them out.

The function is the body of its task. The program is any command; here it is Python, which every worker has. Both receive interim
tables as files and return new ones. Containers and pods work in the same way, with `runner="docker"` or `runner="kubernetes"` and
an image:

    airflow dags test snowpack_entries -f "$PWD/dags/snowpack_entries.py" -c '{"days": 14}'

The flights are those of the demo (`airflow-snowpack[demo]`).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Param, task

from airflow_snowpack.operators import RunEntryOperator

if TYPE_CHECKING:
    import pyarrow as pa

WORST = """
import os
import sys
import pyarrow.parquet

source, target = sys.argv[1:]
airlines = pyarrow.parquet.read_table(source).sort_by([("arr_delay_mean", "descending")])
print(f"{airlines.num_rows} airlines, the worst {os.environ['LIMIT']} of them are returned")
pyarrow.parquet.write_table(airlines.slice(0, int(os.environ["LIMIT"])), target)
"""

with DAG(
    dag_id="snowpack_entries",
    schedule=None,
    doc_md=__doc__,
    tags=["snowpack"],
    is_paused_upon_creation=True,
    params={
        "days": Param(7, type="integer", minimum=1, maximum=365, title="Days", description="How many days of flights"),
        "limit": Param(3, type="integer", minimum=1, maximum=16, title="Limit", description="How many airlines are returned"),
    },
):

    @task.snowpack
    def ingest(params: dict[str, Any]) -> pa.Table:
        """Read the first days of 2013 from a file, in the task's own process."""
        from examples.demo.flights import read_flights

        return read_flights(params["days"])

    @task.snowpack(runner="subprocess")
    def by_airline(flights: pa.Table) -> pa.Table:
        """Compute the mean delay of each airline. Import inside of the function what it uses."""
        import logging

        logging.getLogger("by_airline").info("%s flights", flights.num_rows)
        return flights.group_by("carrier").aggregate([("arr_delay", "mean")])

    airlines = by_airline(ingest())

    worst = RunEntryOperator(
        task_id="worst",
        runner="subprocess",
        command=[sys.executable, "-c", WORST, "{inputs}/airlines", "{outputs}/worst.parquet"],
        command_env={"LIMIT": "{{ params.limit }}"},
        inputs={"airlines": airlines},
        outputs=["worst"],
    )

    @task.snowpack
    def report(airlines: pa.Table) -> list[dict[str, Any]]:
        """Return the rows, which are few, as an ordinary XCom."""
        rows = airlines.to_pylist()
        for airline in rows:
            print(airline)
        return rows

    report(worst.output)
