"""The buttons of a task instance that lead to the page of its job or build.

Airflow writes the links of an operator only when its task ends normally. Writing the link as soon as the job exists gives one to
running and killed tasks too.

    class MyOperator(BaseOperator):
        operator_extra_links = (MaintenanceJobLink(),)

        def execute(self, context):
            show_job(self, context, job.job_id)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import BaseOperatorLink

from airflow_snowpack.redaction import public_address

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context
    from airflow.sdk.types import TaskInstanceKey

log = logging.getLogger(__name__)

SHOWN = "_snowpack_job_id"
SHOWN_BUILD = "_snowpack_build"


class MaintenanceJobLink(BaseOperatorLink):
    """A link from a task instance to the page of its maintenance job."""

    name = "Snowpack job"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the URL of the operator's job; empty if it has none, for example when it was skipped."""
        job_id = getattr(operator, SHOWN, None)
        return job_path(job_id) if job_id else ""


class BuildRunLink(BaseOperatorLink):
    """A link from a task instance to the page of its build run."""

    name = "Snowpack build"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the URL of the operator's run; empty if it has none."""
        shown = getattr(operator, SHOWN_BUILD, None)
        return build_path(*shown) if shown else ""


def show_job(operator: BaseOperator, context: Context, job_id: str) -> None:
    """Write the link of a task instance, mapped or not. The job continues if Airflow's API server does not answer."""
    if getattr(operator, SHOWN, None) == job_id:
        return
    setattr(operator, SHOWN, job_id)
    _write(context, MaintenanceJobLink(), job_path(job_id))


def show_build(operator: BaseOperator, context: Context, dataset: str, run_id: str | None = None) -> None:
    """Write the link to a build's run, or to its dataset."""
    if getattr(operator, SHOWN_BUILD, None) == (dataset, run_id):
        return
    setattr(operator, SHOWN_BUILD, (dataset, run_id))
    _write(context, BuildRunLink(), build_path(dataset, run_id))


def _write(context: Context, link: BaseOperatorLink, path: str) -> None:
    try:
        context["ti"].xcom_push(key=link.xcom_key, value=path)
    except Exception:
        log.warning("The link to %s could not be written", path, exc_info=True)


def job_path(job_id: str) -> str:
    """Return the path of a job's page below the path of ``[api] base_url``; it works on every host name of Airflow."""
    return f"{_pages()}/jobs/{quote(job_id, safe='')}"


def build_path(dataset: str, run_id: str | None = None) -> str:
    """Return the path of the page of a dataset, or of one of its runs."""
    run = f"/runs/{quote(run_id, safe='')}" if run_id else ""
    return f"{_pages()}/builds/{quote(dataset, safe='')}{run}"


def pages_url() -> str:
    """Return the address of Snowpack in Airflow, by ``[api] base_url``, for messages."""
    return f"{public_address(conf.get('api', 'base_url', fallback='')).rstrip('/')}/snowpack"


def _pages() -> str:
    return f"{urlsplit(pages_url()).path}/ui"
