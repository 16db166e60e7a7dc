"""Submit a maintenance request as a job.

    request = MaintenanceRequest.parse("demo.flights", ["rewrite_data_files"], catalog="lake", where="month = 3")
    job = submit(jobs, catalog, request, submitted_by="me")          # for a worker to find
    claim = submit_and_claim(jobs, catalog, request, worker_id)      # to run it oneself
    job = dry_run(jobs, catalog, request)                            # what it would do, from metadata

The invariant: nothing is written unless drain mode is off, every name and option is valid, and the catalog has the table. A
draining installation reports that first, so call :func:`refuse_if_draining` before a request is parsed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_snowpack.durations import format_duration
from airflow_snowpack.iceberg import load_table
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.iceberg.table_properties import owner_properties
from airflow_snowpack.inventory import stored_footprints
from airflow_snowpack.jobs import ActionResult, Claim, DrainModeOn, Job, JobAlreadyFinished, Jobs, JobStatus, check_priority
from airflow_snowpack.lineage.operation import TableAt
from airflow_snowpack.lineage.operations import OperationLog
from airflow_snowpack.maintenance.action import Action, in_order
from airflow_snowpack.maintenance.action_run import PlanningContext
from airflow_snowpack.maintenance.actions.remove_orphan_files import RemoveOrphanFiles
from airflow_snowpack.maintenance.condition import check_condition
from airflow_snowpack.maintenance.condition_tokens import UnusableCondition
from airflow_snowpack.maintenance.errors import InvalidOption, InvalidPredicate, PlanTakesNoOptions
from airflow_snowpack.maintenance.options import (
    as_given,
    option_names,
    parse_all_options,
    parse_options,
    refuse_newer,
    table_options,
    usable_actions,
)
from airflow_snowpack.maintenance.plan import plan_action, planned_results, reader_for
from airflow_snowpack.maintenance.table_defaults import options_for

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


AUTO = "auto"
"""Instead of actions: those that the table's plan selects, with the options of its policy."""


@dataclass(frozen=True, slots=True)
class MaintenanceRequest:
    """A checked request to maintain a table. Make it with :meth:`parse`.

    :param actions: in the order in which they will run.
    :param options: by action, only what the caller gave, as JSON values.
    :param priority: pending jobs with a higher priority run first.
    :param plan: as JSON, the plan that made the request; ``actions`` that it skips do not run. ``None``: all run.
    """

    table: TableName
    actions: tuple[str, ...]
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    priority: int = 0
    plan: Mapping[str, Any] | None = None

    @classmethod
    def parse(
        cls,
        table: str,
        actions: Iterable[str],
        *,
        catalog: str,
        catalog_id: str = "",
        options: Mapping[str, Mapping[str, Any]] | None = None,
        where: str | None = None,
        only_if_needed: bool = True,
        priority: int = 0,
        order: Sequence[str] = (),
        iceberg: str | None = None,
    ) -> MaintenanceRequest:
        """Check names, actions, options and the priority.

        :param table: ``database.table``.
        :param catalog: the installation's name of the catalog; ``catalog_id`` identifies it.
        :param options: by action; those of actions that are not requested are checked and dropped.
        :param where: a Spark predicate for each action that can be narrowed, unless its options have one.
        :param only_if_needed: ``False`` runs each action on Spark even if metadata shows that it has nothing to do; its options
            override it.
        :param priority: from -1000 to 1000.
        :param order: the installation's order of actions.
        :param iceberg: the version that Spark runs with; ``None``: unknown here.
        :param actions: ``auto`` alone leaves them to a plan, see :attr:`is_auto`.
        :raises PlanTakesNoOptions: the request combines ``auto`` with options.
        :raises InvalidTableName: a name is malformed.
        :raises UnknownAction, NoActions: see :func:`~airflow_snowpack.maintenance.action.in_order`.
        :raises InvalidOption: an option is unknown or unusable, or ``where`` narrows none of the actions.
        :raises InvalidPriority: the priority is out of range.
        """
        name = TableName.parse(table, catalog=catalog, catalog_id=catalog_id)
        if (asked := tuple(actions)) == (AUTO,):
            _check_beside_auto(options=options, where=where, only_if_needed=not only_if_needed)
            return cls(name, asked, priority=check_priority(priority))
        asked = in_order(asked, order)
        given = {action: dict((options or {})[action]) for action in parse_all_options(options or {})}
        for action in _narrowed(asked, where):
            given.setdefault(action, {}).setdefault("where", where)
        if not only_if_needed:
            for action in asked:
                given.setdefault(action, {}).setdefault("only_if_needed", False)
        parsed = parse_all_options(given)
        if iceberg is not None:
            refuse_newer(parsed.values(), iceberg)
        written = {action: as_given(action, given[action]) for action in asked if action in given}
        options = {action: values for action, values in written.items() if values}
        return cls(name, asked, options, check_priority(priority))

    @property
    def is_auto(self) -> bool:
        """Whether a plan has yet to choose the actions, see :meth:`.planning.Planner.planned`."""
        return self.actions == (AUTO,)

    @property
    def rest(self) -> dict[str, Any]:
        """Return the remaining arguments of a submit, after table and actions."""
        assert not self.is_auto, "a plan has chosen the actions"
        return {"options": self.options, "priority": self.priority, "plan": self.plan}

    @property
    def depends_on_table(self) -> bool:
        """Whether an option, such as ``where``, can only be checked against the table."""
        return any(not table_options(action).isdisjoint(given) for action, given in self.options.items())

    @property
    def orphan_age(self) -> timedelta | None:
        """The age from which files are removed as orphans; ``None``: the request removes none."""
        options = parse_options(Action.REMOVE_ORPHAN_FILES, self.options.get(Action.REMOVE_ORPHAN_FILES, {}))
        assert isinstance(options, RemoveOrphanFiles)
        lists = Action.REMOVE_ORPHAN_FILES in self.actions and not options.removal_id and not options.restore
        return options.older_than if lists else None

    def without_orphans_below(self, age: timedelta) -> MaintenanceRequest:
        """Return the request with at least this age for orphan files."""
        if self.orphan_age is None or age <= self.orphan_age:
            return self
        action = Action.REMOVE_ORPHAN_FILES.value
        older = {**self.options.get(action, {}), "older_than": format_duration(age)}
        return replace(self, options={**self.options, action: older})

    @classmethod
    def again(cls, job: Job, *, order: Sequence[str] = ()) -> MaintenanceRequest:
        """Return the request that a job was made from, checked against the current rules."""
        name = job.table
        return cls.parse(
            name.dotted,
            job.actions,
            catalog=name.catalog,
            catalog_id=name.catalog_id,
            options=job.options,
            priority=job.priority,
            order=order,
        ).by_plan(job.plan)

    def by_plan(self, plan: Mapping[str, Any] | None) -> MaintenanceRequest:
        return replace(self, plan=plan)


def refuse_if_draining(jobs: Jobs, *, owner: str | None = None) -> None:
    """Refuse a submission in drain mode. Call it before the arguments are checked: a retry can fix only this refusal.

    :param owner: an active job of this owner may continue in drain mode.
    :raises DrainModeOn: new submissions are refused for now.
    """
    state = jobs.drain()
    if state.on and (owner is None or jobs.find_owned(owner) is None):
        raise DrainModeOn(state)


def submit(
    jobs: Jobs,
    catalog: Catalog,
    request: MaintenanceRequest,
    *,
    submitted_by: str | None = None,
    owner: str | None = None,
    awaited: bool = False,
) -> Job:
    """Lock the table and queue a job.

    :param awaited: the owner is a task that waits for the job's end.
    :raises DrainModeOn: submissions are refused for now.
    :raises TableNotFound, CatalogUnreachable: from the catalog.
    :raises InvalidPredicate: ``where`` cannot be evaluated.
    :raises TableLocked: another job or process has locked the table.
    """
    table_uuid = _admit(jobs, catalog, request)
    asked: dict[str, Any] = {"submitted_by": submitted_by, "owner": owner, "awaited": awaited, "table_uuid": table_uuid}
    return jobs.submit(request.table, request.actions, **request.rest, **asked)


def submit_once(jobs: Jobs, catalog: Catalog, request: MaintenanceRequest, *, owner: str, submitted_by: str | None = None) -> Job:
    """Return the owner's active job on this table, or submit one. A submit whose response was lost can thus be repeated."""
    own = jobs.find_owned(owner)
    if own is not None and own.table == request.table:
        return own
    return submit(jobs, catalog, request, submitted_by=submitted_by, owner=owner)


def submit_own(jobs: Jobs, catalog: Catalog, request: MaintenanceRequest, *, owner: str, submitted_by: str | None = None) -> Job:
    """Return the owner's active queued job if it has this request or an earlier plan; otherwise submit a new one.

    A running job keeps its priority. Any other active job of the owner is cancelled first: its request is out of date, or its
    process is gone.

    :raises DrainModeOn: a new job is needed; nothing was cancelled.
    :raises TableLocked: for example while the worker of the cancelled job stops.
    """
    own = jobs.find_owned(owner)
    if own is not None:
        ranked = own.priority == request.priority or own.status is JobStatus.RUNNING
        if not own.inline and ranked and _is_same(own, request):
            return own
        refuse_if_draining(jobs)
        with suppress(JobAlreadyFinished):  # it has ended since it was read
            jobs.cancel(own.job_id, by=owner)
    return submit(jobs, catalog, request, submitted_by=submitted_by, owner=owner, awaited=True)


def completed_own(jobs: Jobs, catalog: Catalog, request: MaintenanceRequest, *, owner: str) -> Job | None:
    """Return the owner's last job if it completed this request and the table has not changed since; otherwise ``None``.

    The retry of a task that was killed after its work was done thus does not repeat the work.

    :raises TableNotFound, CatalogUnreachable: from the catalog.
    """
    job = jobs.last_owned(owner)
    if job is None or job.status is not JobStatus.COMPLETED or job.dry_run or not _is_same(job, request):
        return None
    last = OperationLog(jobs.store).last_written([str(job.table)]).get(str(job.table))
    if last is None or last.job_id != job.job_id:
        return None  # a job that changed nothing is cheap to repeat
    current = load_table(catalog, job.table).metadata.current_snapshot_id
    left = [output.snapshot_id for output in last.outputs if isinstance(output, TableAt)]
    return job if left == [current] else None


def _is_same(job: Job, request: MaintenanceRequest) -> bool:
    """Return whether a job has this request, or an earlier plan for the same table."""
    planned = job.plan is not None and request.plan is not None and job.table == request.table
    return planned or (job.table, job.actions, job.options) == (request.table, request.actions, request.options)


def submit_and_claim(
    jobs: Jobs,
    catalog: Catalog,
    request: MaintenanceRequest,
    worker_id: str,
    *,
    submitted_by: str | None = None,
    owner: str | None = None,
) -> Claim:
    """Submit a job and claim it in one transaction. Raises the errors of :func:`submit`."""
    table_uuid = _admit(jobs, catalog, request)
    asked: dict[str, Any] = {"submitted_by": submitted_by, "owner": owner, "table_uuid": table_uuid}
    return jobs.submit_and_claim(request.table, request.actions, worker_id, **request.rest, **asked)


def claim_own(
    jobs: Jobs,
    catalog: Catalog,
    request: MaintenanceRequest,
    worker_id: str,
    *,
    owner: str,
    submitted_by: str | None = None,
) -> Claim:
    """Take over the owner's active job, even from a process that is still alive; otherwise submit and claim a new one.

    An active job on the same table continues with the new request; one on another table is cancelled.

    :raises DrainModeOn: a new job is needed, or a pending one would start; nothing was changed.
    """
    own = jobs.find_owned(owner)
    if own is not None and (own.table != request.table or own.status is JobStatus.PENDING):
        refuse_if_draining(jobs)
    with suppress(JobAlreadyFinished):  # it has ended since it was read
        if own is not None and own.table == request.table:
            if request.depends_on_table:
                check_options(catalog, request)
            work: dict[str, Any] = {"actions": request.actions, "options": request.options, "plan": request.plan}
            return jobs.take_over(own.job_id, worker_id, owner=owner, **work)
        if own is not None:
            jobs.cancel(own.job_id, by=owner)
    return submit_and_claim(jobs, catalog, request, worker_id, submitted_by=submitted_by, owner=owner)


def dry_run(jobs: Jobs, catalog: Catalog, request: MaintenanceRequest, *, submitted_by: str | None = None) -> Job:
    """Record what each action would do as a completed job, from the table's metadata, without a lock or a JVM.

    :raises DrainModeOn, TableNotFound, CatalogUnreachable, InvalidPredicate: see :func:`submit`.
    """
    refuse_if_draining(jobs)
    results = plan_request(jobs, catalog, request)
    return jobs.record_dry_run(request.table, request.actions, results, **request.rest, submitted_by=submitted_by)


def plan_request(jobs: Jobs, catalog: Catalog, request: MaintenanceRequest) -> list[ActionResult]:
    """Return what each action would do, from the table's metadata; nothing is written to the table.

    :param jobs: has the clock for ages, and the stored locations of the files of the catalog's tables.
    :raises TableNotFound, CatalogUnreachable: from the catalog.
    :raises InvalidPredicate: ``where`` cannot be evaluated.
    """
    if request.plan is not None:
        return planned_results(request.plan)
    table = _checked(catalog, request)
    properties = owner_properties(table)
    options = {action: options_for(action, request.options.get(action, {}), properties) for action in request.actions}
    footprints = stored_footprints(jobs.store, request.table)
    planning = PlanningContext(reader_for(table, options.values()), catalog, jobs.store.clock(), footprints)
    return [plan_action(each, planning) for each in options.values()]


def _admit(jobs: Jobs, catalog: Catalog, request: MaintenanceRequest) -> str:
    """Check the request against the table, and return the table's uuid."""
    refuse_if_draining(jobs)
    return check_options(catalog, request)


def check_options(catalog: Catalog, request: MaintenanceRequest) -> str:
    """Check the options of a request against its table, and return the table's uuid.

    :raises InvalidPredicate: ``where`` cannot be evaluated. A retry would fail again.
    :raises InvalidOption: the table does not allow another option.
    :raises TableNotFound, CatalogUnreachable: from the catalog.
    """
    return str(_checked(catalog, request).metadata.table_uuid)


def _checked(catalog: Catalog, request: MaintenanceRequest) -> Table:
    table = load_table(catalog, request.table)
    check_against(table, request.table.dotted, request.options)
    return table


def _check_beside_auto(**given: object) -> None:
    for name, value in given.items():
        if value:
            raise PlanTakesNoOptions(name)


def _narrowed(asked: Sequence[str], where: str | None) -> tuple[str, ...]:
    if not where:
        return ()
    narrowed = tuple(action for action in asked if "where" in option_names(action))
    if not narrowed:
        able = [action for action in usable_actions() if "where" in option_names(action)]
        problem = f"narrows only {' and '.join(able)}, and neither is requested"
        raise InvalidOption(asked[0], "where", problem, option_names(asked[0]))
    return narrowed


def check_against(table: Table, name: str, options: Mapping[str, Mapping[str, Any]]) -> None:
    """Check the options of each action against the table.

    :param name: ``database.table``, for the message.
    :raises InvalidPredicate: ``where`` cannot be evaluated.
    :raises InvalidOption: the table does not allow another option.
    """
    for action, parsed in parse_all_options(options).items():
        where = getattr(parsed, "where", None)
        if where is not None:
            try:
                check_condition(where, table.schema(), table.catalog.name)
            except UnusableCondition as problem:
                raise InvalidPredicate(action, name, where, str(problem)) from problem
        parsed.check_table(table, name)
