"""The button at a task instance that leads to its job's page.

Airflow asks an operator for its links only when the task has ended by itself. A task that was killed, or still runs, has none: so
the link is written as soon as the job is known, and then once more by Airflow at the end.

    class MyOperator(BaseOperator):
        operator_extra_links = (MaintenanceJobLink(),)

        def execute(self, context):
            show_job(self, context, job.job_id)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context
    from airflow.sdk.types import TaskInstanceKey

log = logging.getLogger(__name__)

SHOWN = "_snowpack_job_id"


class MaintenanceJobLink(BaseOperatorLink):
    """From a task instance to the page of its maintenance job."""

    name = "Snowpack job"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The address of the job that the operator has shown; empty when it has none, as one that was skipped."""
        job_id = getattr(operator, SHOWN, None)
        return job_path(job_id) if job_id else ""


def show_job(operator: BaseOperator, context: Context, job_id: str) -> None:
    """Write the link of a task instance, of a mapped one too. When Airflow's API server is away the job goes on without it."""
    if getattr(operator, SHOWN, None) == job_id:
        return
    setattr(operator, SHOWN, job_id)
    try:
        context["ti"].xcom_push(key=MaintenanceJobLink().xcom_key, value=job_path(job_id))
    except Exception:
        log.warning("The link to the job %s could not be written", job_id, exc_info=True)


def job_path(job_id: str) -> str:
    """Where the page of a job is: below the path of ``[api] base_url``, on whatever host people see Airflow."""
    base = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")
    return f"{base}/snowpack/ui/jobs/{quote(job_id, safe='')}"
