"""Maintain all tables of the catalog, every night, within a budget.

`plan` lists the catalog, reads the metadata of the tables that have changed, and decides by the policies which of them need
maintenance. The most useful ones for their cost come first, until the budget is used; the others are named in the report, and
come first the next night. Each `maintain` task works with one Spark session. `report` has the result in its XCom, whose `text` is
ready for a notifier.

The trigger form changes the budget of one run: for a first try, five tables in half an hour. An empty field sets no limit.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from airflow_snowpack.airflow_versions import without_backfills
from airflow_snowpack.operators import MaintainFleetOperator, PlanFleetOperator, ReportFleetOperator

with DAG(
    dag_id="snowpack_maintain_fleet",
    schedule="0 2 * * *",
    catchup=False,  # and no start_date: with one, unpausing the DAG would start the pass of the night before at once
    max_active_runs=1,
    **without_backfills(),  # one would repeat the pass of today for each day
    is_paused_upon_creation=True,  # it maintains every table of the catalog that no policy excludes
    doc_md=__doc__,
    tags=["snowpack"],
    default_args={"retries": 2, "retry_delay": timedelta(seconds=30)},
    params={
        "gb_hours": Param(
            200, type=["null", "number"], exclusiveMinimum=0, title="GB·h", description="Spark's memory times hours"
        ),
        "bytes": Param(None, type=["null", "string"], title="Bytes", description="Bytes rewritten, such as 500 GiB"),
        "tables": Param(None, type=["null", "integer"], minimum=1, title="Tables", description="Tables maintained"),
        "time": Param("4h", type=["null", "string"], title="Time", description="Since the start of the pass, such as 30m"),
        "workers": Param(4, type="integer", minimum=1, title="Workers", description="At most so many Spark sessions"),
    },
) as fleet:
    limits = "dict(gb_hours=params.gb_hours, bytes=params.bytes, tables=params.tables, time=params.time)"
    plan = PlanFleetOperator(task_id="plan", budget=f"{{{{ {limits} | tojson }}}}", workers="{{ params.workers }}")
    maintain = MaintainFleetOperator.partial(task_id="maintain").expand(pass_id=plan.output)
    report = ReportFleetOperator(
        task_id="report",
        pass_id="{{ ti.xcom_pull(task_ids='plan', key='pass_id') }}",
        trigger_rule="all_done",
    )
    maintain >> report
