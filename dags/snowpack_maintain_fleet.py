"""Maintain all tables of the catalog, every night, within a budget.

`plan` lists the catalog, reads the metadata of the tables that have changed, and decides by the policies which of them need
maintenance. The most useful ones for their cost come first, until the budget is used; the others are named in the report, and
come first the next night. Each `maintain` task works with one Spark session. `report` has the result in its XCom, whose `text` is
ready for a notifier.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from airflow_snowpack.operators import MaintainFleetOperator, PlanFleetOperator, ReportFleetOperator

with DAG(
    dag_id="snowpack_maintain_fleet",
    schedule="0 2 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=True,  # it maintains every table of the catalog that no policy excludes
    doc_md=__doc__,
    tags=["snowpack"],
    default_args={"retries": 2, "retry_delay": timedelta(seconds=30)},
):
    plan = PlanFleetOperator(task_id="plan", budget={"gb_hours": 200, "time": "4h"}, workers=4)
    maintain = MaintainFleetOperator.partial(task_id="maintain").expand(pass_id=plan.output)
    report = ReportFleetOperator(
        task_id="report",
        pass_id="{{ ti.xcom_pull(task_ids='plan', key='pass_id') }}",
        trigger_rule="all_done",
    )
    maintain >> report
