"""``airflow snowpack jobs submit``: ask for maintenance of one table.

The order is the specification's: drain mode, names and options, the table, the lock. A dry run is answered at once from the
table's metadata; anything else waits for a worker, and ``--wait`` watches it to its end.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from airflow_snowpack.cli.commands.jobs import print_job, result_columns
from airflow_snowpack.cli.commands.watch import read_periods, watch_job
from airflow_snowpack.cli.errors import UsageProblem
from airflow_snowpack.cli.job_id import short_id
from airflow_snowpack.cli.opened import opened
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import is_for_people, print_rows

if TYPE_CHECKING:
    from argparse import Namespace

    from airflow_snowpack.cli.exit_code import ExitCode
    from airflow_snowpack.cli.opened import Opened
    from airflow_snowpack.jobs import Submission, TableLocked
    from airflow_snowpack.maintenance.submit import MaintenanceRequest


@ends_cleanly
def submit(args: Namespace) -> ExitCode | None:
    """``jobs submit``"""
    from airflow_snowpack.jobs import TableLocked

    read_periods(args)  # what is wrong with them must not come to light when the job is there
    with opened(args) as here:
        request = _read_request(args, here)
        try:
            asked = _ask(args, here, request)
        except TableLocked as refused:
            _name_the_way_out(here, refused)
            raise
        watched = args.wait and not asked.job.dry_run
        if is_for_people(args.output):
            _tell(asked, watched=watched)
        if watched:
            return watch_job(args, here, asked.job)
        print_job(args.output, asked.job)
    return None


def _name_the_way_out(here: Opened, refused: TableLocked) -> None:
    """Here the way out is a command."""
    from airflow_snowpack.jobs import JobNotFound

    lock = refused.lock
    try:
        holder = short_id(here.jobs.get(lock.holder).job_id)
    except JobNotFound:
        refused.add_note(f"If its holder is gone: airflow snowpack locks release {lock.table.dotted}")
    else:
        refused.add_note(f"See what it does: airflow snowpack jobs show {holder}")


def _read_request(args: Namespace, here: Opened) -> MaintenanceRequest:
    from airflow_snowpack.maintenance.submit import ALL_ACTIONS, MaintenanceRequest, refuse_if_draining

    refuse_if_draining(here.jobs)
    return MaintenanceRequest.parse(
        args.table,
        args.action or ALL_ACTIONS,
        catalog=here.settings.catalog_name,
        catalog_id=here.inventory.catalog_id,
        options=_read_options(args.options),
        where=args.where,
        only_if_needed=args.only_if_needed,
        order=here.settings.action_order,
    )


def _ask(args: Namespace, here: Opened, request: MaintenanceRequest) -> Submission:
    from airflow_snowpack.jobs import RequestKey, Submission
    from airflow_snowpack.maintenance.submit import check_options, plan_request

    key, results, wanted = args.idempotency_key, None, (request.table, request.actions)
    if key is not None:
        known = RequestKey.of(here.actor, key, *wanted, request.options, dry_run=args.dry_run)
        if (before := here.jobs.submitted_before(known)) is not None:
            return Submission(before, again=True)
    if args.dry_run:
        results = plan_request(here.jobs, here.inventory.catalog(), request)
    else:
        here.inventory.require(request.table)
        check_options(here.inventory.catalog, request)
    return here.jobs.submit_once(*wanted, key=key, actor=here.actor, options=request.options, results=results)


def _read_options(text: str | None) -> dict[str, Any]:
    """:raises UsageProblem: not a JSON object of objects."""
    if text is None:
        return {}
    try:
        options = json.loads(text)
    except ValueError as problem:
        raise UsageProblem(f"--options is not JSON: {problem}. {EXAMPLE}") from problem
    if not isinstance(options, dict) or not all(isinstance(said, dict) for said in options.values()):
        raise UsageProblem(f"--options must be a JSON object with an object for each action. {EXAMPLE}")
    return options


EXAMPLE = """Give, for example, --options '{"expire_snapshots": {"retain_last": 10}}'."""


def _tell(asked: Submission, *, watched: bool) -> None:
    job = asked.job
    if asked.again:
        print("The same request came before, with this key; this is the job that it became.")
    if job.dry_run:
        print(f"Nothing was changed. On {job.table.dotted} each action would do this:")
        print_rows(
            "table", job.results, [column for column in result_columns() if column.heading in ("action", "message")], empty=""
        )
        return
    print(f"Job {short_id(job.job_id)} is {job.status} for {job.table.dotted}: {', '.join(job.actions)}.")
    if not watched:
        print(f"Watch it with: airflow snowpack jobs watch {short_id(job.job_id)}")
