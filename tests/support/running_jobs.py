"""Jobs that a test runs itself, action by action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs.model import Job, JobStatus
from airflow_snowpack.jobs.rows import job_parameters
from airflow_snowpack.maintenance import Action
from airflow_snowpack.store import Store
from airflow_snowpack.store.tables.jobs import jobs


def running_job(store: Store, table: TableName, options: Mapping[str, Mapping[str, Any]]) -> Job:
    """Return a job of all actions that an attempt runs, without a lock: a table may have several in one test."""
    now = store.clock()
    job = Job(uuid4().hex, table, tuple(Action), options, False, JobStatus.RUNNING, now, attempt=1, attempt_id=uuid4().hex)
    row = {name.removeprefix("j_"): value for name, value in job_parameters(job).items()}
    store.execute(sa.insert(jobs).values(row))
    return job
