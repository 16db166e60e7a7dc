"""``airflow snowpack jobs submit``: submit maintenance of one table.

The checks come in this order: drain mode, names and options, the table, the lock. A dry run is answered at once from the table's
metadata; any other job waits for a worker, and ``--wait`` watches it until it ends.
"""

from argparse import Namespace
from datetime import datetime
from typing import Any

from airflow_snowpack.cli.commands.jobs import print_job
from airflow_snowpack.cli.commands.watch import read_periods, watch_job
from airflow_snowpack.cli.context import CommandContext, command
from airflow_snowpack.cli.errors import UsageProblem
from airflow_snowpack.cli.output import is_for_people, print_rows
from airflow_snowpack.cli.values import read_object
from airflow_snowpack.connections.spark import known_iceberg
from airflow_snowpack.exit_code import ExitCode
from airflow_snowpack.humanize import short_id
from airflow_snowpack.jobs import JobNotFound, Submission, TableLocked
from airflow_snowpack.maintenance import DEFAULT_ORDER
from airflow_snowpack.maintenance.submit import MaintenanceRequest, refuse_if_draining
from airflow_snowpack.wire.job import RESULTS

EXAMPLE = '{"expire_snapshots": {"retain_last": 10}}'


@command
def submit(args: Namespace, here: CommandContext) -> ExitCode | None:
    read_periods(args)  # before the job is submitted
    request = _read_request(args, here)
    try:
        submission = here.submitter.submit(request, key=args.idempotency_key, dry_run=args.dry_run)
    except TableLocked as refused:
        _add_way_out(here, refused)
        raise
    watched = args.wait and not submission.job.dry_run
    if is_for_people(args.output):
        _print_submission(submission, here.now, watched=watched)
    if watched:
        return watch_job(args, here, submission.job)
    print_job(args.output, submission.job)
    return None


def _add_way_out(here: CommandContext, refused: TableLocked) -> None:
    lock = refused.lock
    try:
        holder = short_id(here.jobs.get(lock.holder).job_id)
    except JobNotFound:
        refused.add_note(f"If the holder no longer exists: airflow snowpack locks release {lock.table.dotted}")
    else:
        refused.add_note(f"Show that job: airflow snowpack jobs show {holder}")


def _read_request(args: Namespace, here: CommandContext) -> MaintenanceRequest:
    refuse_if_draining(here.jobs)
    return MaintenanceRequest.parse(
        args.table,
        args.action or DEFAULT_ORDER,
        catalog=here.settings.catalog_name,
        catalog_id=here.inventory.catalog_id,
        options=_read_options(args.options),
        where=args.where,
        only_if_needed=args.only_if_needed,
        priority=args.priority,
        order=here.settings.action_order,
        iceberg=known_iceberg(here.settings),
    )


def _read_options(text: str | None) -> dict[str, Any]:
    options = read_object("--options", text, EXAMPLE)
    if not all(isinstance(values, dict) for values in options.values()):
        raise UsageProblem(f"--options needs an object for each action, such as '{EXAMPLE}'.")
    return options


def _print_submission(submission: Submission, now: datetime, *, watched: bool) -> None:
    job = submission.job
    if submission.again:
        print("An earlier request with this key submitted this job.")
    if job.dry_run:
        print(f"Dry run of {job.table.dotted}; nothing was changed:")
        columns = [column for column in RESULTS.columns if column.heading in ("action", "message")]
        print_rows("table", columns, job.results, now)
        return
    print(f"Job {short_id(job.job_id)} is {job.status} for {job.table.dotted}: {', '.join(job.actions)}.")
    if not watched:
        print(f"Watch it with: airflow snowpack jobs watch {short_id(job.job_id)}")
