"""Delete the orphan files of a table after a person has approved the list.

Trigger it in the UI, or:

    airflow dags trigger snowpack_remove_orphans -c '{"table": "demo.flights"}'

The task `plan` lists the files and deletes nothing. The task `approve` waits for a response under **Required Actions**; the whole
list is on the page **Removals**. The task `delete` deletes exactly the listed files, and leaves out those that are needed then.
After *Reject*, it records the rejection and is skipped.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import DAG, Param

from airflow_snowpack.operators import PlanRemovalOperator, RunRemovalOperator

BODY = """
{% set planned = ti.xcom_pull(task_ids="plan") %}
Removal `{{ planned.removal_id }}` of `{{ planned.table }}`. The first files:

{% for path in planned.sample %}- `{{ path }}`
{% endfor %}
"""

with DAG(
    dag_id="snowpack_remove_orphans",
    schedule=None,
    catchup=False,
    doc_md=__doc__,
    tags=["snowpack"],
    default_args={"retries": 1, "retry_delay": timedelta(seconds=30)},
    params={
        "table": Param(
            "demo.flights",
            type="string",
            pattern=r"^[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)+$",
            title="Table",
            description="database.table, as the catalog has it",
        ),
    },
):
    plan = PlanRemovalOperator(task_id="plan", table="{{ params.table }}", if_locked="wait")
    # An ApprovalOperator would skip `delete` after a rejection, which would then not be recorded.
    approve = HITLOperator(
        task_id="approve",
        options=["Approve", "Reject"],
        subject="Delete {{ ti.xcom_pull(task_ids='plan')['summary'] }}?",
        body=BODY,
        response_timeout=timedelta(days=2),
        params={"comment": Param(None, type=["null", "string"], title="Comment")},  # "" would make it required
    )
    delete = RunRemovalOperator(task_id="delete", removal_id=plan.output["removal_id"], decision=approve.output, if_locked="wait")
    plan >> approve >> delete
