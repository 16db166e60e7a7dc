"""Submits what users request by the REST API, the pages and the command line.

    submitter = Submitter(jobs, inventory, actor, order, planner)
    submitter.submit(MaintenanceRequest.parse("demo.flights", ["auto"], catalog="lake"), key="…")
    submitter.rerun(job_id)

The invariant: nothing is stored unless drain mode is off, the options fit the table, and the table exists. A repeated request
with the same key returns the same job, even when its table was deleted or the catalog does not answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import call
from typing import Any, Protocol, TypeVar

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.iceberg import TableName, load_table
from airflow_snowpack.inventory import Inventory
from airflow_snowpack.jobs import ActionResult, Job, Jobs, RequestKey, Submission
from airflow_snowpack.maintenance.planning import Planner
from airflow_snowpack.maintenance.submit import MaintenanceRequest, check_options, plan_request, refuse_if_draining
from airflow_snowpack.store import Actor

T = TypeVar("T")


class AskCatalog(Protocol):
    """Returns the result of a read from the catalog, and may stop waiting for it."""

    def __call__(self, question: Callable[[], T], /) -> T: ...


@contextmanager
def drain_mode_first(jobs: Jobs) -> Iterator[None]:
    """Report drain mode in place of any other problem of a request.

    Drain mode is read only after a problem: the submission checks it in its own statement, which saves one.
    """
    try:
        yield
    except SnowpackError:
        refuse_if_draining(jobs)
        raise


@dataclass(frozen=True, slots=True)
class Submitter:
    """Submits the requests of one user.

    :param order: the installation's order of actions.
    :param planner: returns the planner of tables, for requests whose actions are ``auto``.
    :param iceberg: the version that Spark runs with; ``None``: unknown here.
    """

    jobs: Jobs
    inventory: Inventory
    actor: Actor
    order: Sequence[str]
    planner: Callable[[], Planner]
    ask_catalog: AskCatalog = call
    iceberg: str | None = None

    def submit(self, request: MaintenanceRequest, *, key: str | None = None, dry_run: bool = False) -> Submission:
        """Submit a request, or return the job of an earlier request with the same key.

        :raises SnowpackError: the request is invalid or refused; nothing was written.
        """
        jobs, table_uuid = self.jobs, None
        wanted = (request.table, request.actions, request.options, request.priority)
        with drain_mode_first(jobs):
            asked = None if key is None else RequestKey.of(self.actor, key, *wanted, dry_run=dry_run, planned=request.is_auto)
            before = jobs.submitted_before(asked) if asked else None
            if before is None:
                table_uuid = self._require(request.table)
                if request.is_auto:
                    request = self._planned(request)
                if not dry_run:
                    table_uuid = self._check_options(request) or table_uuid
        if before is not None:
            refuse_if_draining(jobs)
            return Submission(before, again=True)
        results = self._preview(request) if dry_run else None
        rest: dict[str, Any] = {**request.rest, "results": results, "table_uuid": table_uuid}
        return jobs.submit_once(request.table, request.actions, key=key, actor=self.actor, **rest)

    def rerun(self, job_id: str) -> Job:
        """Submit the request of a job again. The re-run of a dry run is a dry run.

        :raises JobNotFound, TableNotFound, WrongCatalog, DrainModeOn, TableLocked: nothing was written.
        """
        with drain_mode_first(self.jobs):
            job = self.jobs.get(job_id)
            found = self._require(job.table)
            request = MaintenanceRequest.again(job, order=self.order)
            table_uuid = None if job.dry_run else self._check_options(request) or found
        if not job.dry_run:
            return self.jobs.rerun(job_id, actor=self.actor, table_uuid=table_uuid)
        results = self._preview(request)
        return self.jobs.record_dry_run(job.table, request.actions, results, **request.rest, actor=self.actor)

    def _require(self, table: TableName) -> str | None:
        return None if self.inventory.has(table) else self.ask_catalog(lambda: self.inventory.require(table))

    def _check_options(self, request: MaintenanceRequest) -> str | None:
        if not request.depends_on_table:  # only otherwise is the catalog needed, which may not answer
            return None
        return self.ask_catalog(lambda: check_options(self.inventory.catalog(), request))

    def _planned(self, request: MaintenanceRequest) -> MaintenanceRequest:
        planner = self.planner()
        return self.ask_catalog(lambda: planner.planned(request, load_table(self.inventory.catalog(), request.table)))

    def _preview(self, request: MaintenanceRequest) -> list[ActionResult]:
        return self.ask_catalog(lambda: plan_request(self.jobs, self.inventory.catalog(), request))
