"""Maintain one Iceberg table on demand, from Airflow's trigger form.

Trigger it in the UI, or:

    airflow dags trigger snowpack_maintain_table -c '{"table": "demo.flights", "actions": ["rewrite_data_files"]}'

The XCom of the task has the result of each action and the numbers of the table before and after. You can schedule another DAG on
the asset ``iceberg://lake/demo/flights``.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from airflow_snowpack.maintenance import Action
from airflow_snowpack.operators import MaintainTableOperator

ACTIONS = [action.value for action in Action]
CHOICES = [*ACTIONS, "auto"]

with DAG(
    dag_id="snowpack_maintain_table",
    schedule=None,
    catchup=False,
    doc_md=__doc__,
    tags=["snowpack"],
    render_template_as_native_obj=True,
    default_args={"retries": 1, "retry_delay": timedelta(seconds=30)},
    params={
        "table": Param(
            "demo.flights",
            type="string",
            pattern=r"^[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)+$",
            title="Table",
            description="database.table, as the catalog has it",
        ),
        "actions": Param(
            ACTIONS,
            type="array",
            items={"type": "string", "enum": CHOICES},
            examples=CHOICES,
            minItems=1,
            uniqueItems=True,
            title="Actions",
            description="They run in the installation's order, not in the order chosen here. Auto alone: what the plan runs",
            values_display={name: name.replace("_", " ").capitalize() for name in CHOICES},
        ),
        "options": Param(
            {},
            type="object",
            title="Options",
            description='Per action, such as {"expire_snapshots": {"retain_last": 10}}',
        ),
        "where": Param(
            None,
            type=["null", "string"],
            title="Only where",
            description="A predicate that limits the rewrites, such as flight_date >= DATE '2013-07-01'",
        ),
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description="Report what each action would do, without a lock and without Spark",
        ),
        "execution": Param(
            None,
            type=["null", "string"],
            enum=[None, "inline", "queued"],
            title="Execution",
            description="In the task, or in a worker while the task waits; by default as the installation is configured",
        ),
    },
):
    MaintainTableOperator(
        task_id="maintain",
        table="{{ params.table }}",
        actions="{{ params.actions }}",
        options="{{ params.options }}",
        where="{{ params.where }}",
        dry_run="{{ params.dry_run }}",
        execution="{{ params.execution }}",
        if_locked="wait",  # other examples maintain the same table
    )
