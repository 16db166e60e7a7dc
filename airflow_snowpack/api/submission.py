"""Submissions: from a request for maintenance to its job.

    submission = Submitter(services, actor).submit("demo", "flights", body, key="5f3c…")

The invariant: nothing is stored unless drain mode is off, every name, action and option is valid, and the table exists. A
repeated request with the same key returns the same job, even when its table was deleted or the catalog does not answer.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_snowpack.api.parameters import parse_body
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.jobs import RequestKey, Submission
from airflow_snowpack.maintenance.submit import MaintenanceRequest, check_options, plan_request, refuse_if_draining
from airflow_snowpack.wire.job import SubmitBody

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_snowpack.api.services import Services
    from airflow_snowpack.iceberg import TableName
    from airflow_snowpack.jobs import ActionResult, Job
    from airflow_snowpack.store import Actor


class Submitter:
    """Submits the requests of one user."""

    def __init__(self, services: Services, actor: Actor) -> None:
        self._services = services
        self._actor = actor

    def submit(self, database: str, table: str, sent: bytes, *, key: str | None) -> Submission:
        """Submit maintenance of a table, or return the job of an earlier request with the same key.

        :param sent: the body of the request.
        :raises SnowpackError: the request is invalid or refused; nothing was written.
        """
        with self._drain_mode_first():
            name = self._services.inventory.table(database, table)
            body = parse_body(SubmitBody, sent)
            request = MaintenanceRequest.parse(
                name.dotted,
                body.actions,
                catalog=name.catalog,
                catalog_id=name.catalog_id,
                options=body.options,
                where=body.where,
                only_if_needed=body.only_if_needed,
                order=self._services.order,
            )
            before = None if key is None else self._submitted_before(request, key, body.dry_run)
            if before is None:
                self._require(name)
                if not body.dry_run:
                    self._check_options(request)
        if before is not None:
            refuse_if_draining(self._services.jobs)
            return Submission(before, again=True)
        results = self._plan(request) if body.dry_run else None
        return self._services.jobs.submit_once(
            name, request.actions, key=key, actor=self._actor, options=request.options, results=results
        )

    def rerun(self, job_id: str) -> Job:
        """Submit the request of a job again. The re-run of a dry run is a dry run.

        :raises JobNotFound, TableNotFound, WrongCatalog, DrainModeOn, TableLocked: nothing was written.
        """
        with self._drain_mode_first():
            job = self._services.jobs.get(job_id)
            self._require(job.table)
            request = MaintenanceRequest.again(job, order=self._services.order)
            if not job.dry_run:
                self._check_options(request)
        if not job.dry_run:
            return self._services.jobs.rerun(job_id, actor=self._actor)
        return self._services.jobs.record_dry_run(
            job.table, request.actions, self._plan(request), options=request.options, actor=self._actor
        )

    @contextmanager
    def _drain_mode_first(self) -> Iterator[None]:
        """Report drain mode in place of any other problem of the request.

        Drain mode is read only after a problem: the submission checks it in its own statement, which saves one.
        """
        try:
            yield
        except SnowpackError:
            refuse_if_draining(self._services.jobs)
            raise

    def _submitted_before(self, request: MaintenanceRequest, key: str, dry_run: bool) -> Job | None:
        before = RequestKey.of(self._actor, key, request.table, request.actions, request.options, dry_run=dry_run)
        return self._services.jobs.submitted_before(before)

    def _require(self, table: TableName) -> None:
        inventory = self._services.inventory
        if not inventory.has(table):
            self._services.ask_catalog(lambda: inventory.require(table))

    def _check_options(self, request: MaintenanceRequest) -> None:
        if request.depends_on_table:  # only then is the catalog needed, which may not answer
            self._services.ask_catalog(lambda: check_options(self._services.inventory.catalog, request))

    def _plan(self, request: MaintenanceRequest) -> list[ActionResult]:
        inventory, jobs = self._services.inventory, self._services.jobs
        return self._services.ask_catalog(lambda: plan_request(jobs, inventory.catalog(), request))
