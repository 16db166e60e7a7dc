"""``airflow snowpack removals``: lists of files and snapshots; list, show, approve, reject, run and restore them."""

from argparse import Namespace
from collections.abc import Callable
from datetime import datetime

from airflow_snowpack.cli.changes import confirm
from airflow_snowpack.cli.commands.jobs import print_job
from airflow_snowpack.cli.commands.watch import read_periods, watch_job
from airflow_snowpack.cli.context import CommandContext, command
from airflow_snowpack.cli.errors import UsageProblem
from airflow_snowpack.cli.output import DATA, coloured, filled, is_for_people, print_data, print_one, print_page
from airflow_snowpack.cli.values import find
from airflow_snowpack.exit_code import ExitCode
from airflow_snowpack.humanize import SHORT_ID, ago, number, plural, short_id, size
from airflow_snowpack.maintenance.removals.model import Removal, RemovalState
from airflow_snowpack.maintenance.removals.request import request_of, restore_request, restore_table_request
from airflow_snowpack.maintenance.submit import MaintenanceRequest, refuse_if_draining
from airflow_snowpack.wire.listing import cut
from airflow_snowpack.wire.removal import ITEMS, REMOVALS, RemovalShape


@command
def list_removals(args: Namespace, here: CommandContext) -> None:
    table = None if args.table is None else here.table(args.table)
    state = None if args.state is None else RemovalState(args.state)
    page = here.installation.removals.list(limit=args.limit, cursor=args.cursor, table=table, state=state)
    print_page(args, REMOVALS, page.items, page.next, here.now, filters=(args.table, args.state))


@command
def show(args: Namespace, here: CommandContext) -> None:
    removal = _find(here, args)
    if args.items:
        start = args.cursor or 0
        found = here.installation.removals.some_items(removal.removal_id, start=start, limit=args.limit + 1)
        print_page(args, ITEMS, *cut(found, args.limit, lambda _: start + args.limit), here.now)
        return
    print_one(args.output, RemovalShape.encode(removal), filled(_fields(removal, here.now)))


@command
def approve(args: Namespace, here: CommandContext) -> None:
    _decide(args, here, "Approve", here.installation.removals.approve)


@command
def reject(args: Namespace, here: CommandContext) -> None:
    _decide(args, here, "Reject", here.installation.removals.reject)


def _find(here: CommandContext, args: Namespace) -> Removal:
    removals = here.installation.removals
    return find(removals.get, removals.ids_beginning, args.removal, "a removal id")


def _decide(args: Namespace, here: CommandContext, verb: str, change: Callable[..., Removal]) -> None:
    removal = _find(here, args)
    confirm(f"{verb} the removal of {removal.summary}?", yes=args.yes)
    decided = change(removal.removal_id, actor=here.actor, comment=args.comment)
    if args.output in DATA:
        print_data(args.output, RemovalShape.encode(decided))
        return
    people = is_for_people(args.output)
    print(f"The removal of {decided.summary} is {decided.state.value}." if people else decided.removal_id)
    if people and verb == "Approve":
        print(f"Run it with: airflow snowpack removals run {decided.removal_id[:SHORT_ID]}")


@command
def run(args: Namespace, here: CommandContext) -> ExitCode | None:
    read_periods(args)  # before the job is submitted
    removal = _find(here, args)
    refuse_if_draining(here.jobs)
    request = request_of(removal)
    confirm(f"{'Delete' if removal.quarantine is None else 'Move to quarantine:'} {removal.summary}?", yes=args.yes)
    does = "deletes" if removal.quarantine is None else "moves to quarantine:"
    return _submit(args, here, request, f"{does} {removal.summary}")


@command
def restore(args: Namespace, here: CommandContext) -> ExitCode | None:
    read_periods(args)  # before the job is submitted
    if (args.removal is None) == (args.table is None):
        raise UsageProblem("Name a removal, or a table with --table, and not both.")
    refuse_if_draining(here.jobs)
    files = args.file or ()
    if args.table is not None:
        request = restore_table_request(here.installation.removals, here.table(args.table), files)
        of = args.table
    else:
        removal = _find(here, args)
        request, of = restore_request(removal, files), f"{removal.table.dotted}, removal {short_id(removal.removal_id)}"
    what = plural(len(files), "file") if files else "all files in quarantine"
    confirm(f"Restore {what} of {of}?", yes=args.yes)
    return _submit(args, here, request, f"restores {what} of {of}")


def _submit(args: Namespace, here: CommandContext, request: MaintenanceRequest, does: str) -> ExitCode | None:
    job = here.jobs.submit(request.table, request.actions, options=request.options, actor=here.actor)
    if is_for_people(args.output):
        print(f"Job {short_id(job.job_id)} {does}.")
    if args.wait:
        return watch_job(args, here, job)
    print_job(args.output, job)
    return None


def _fields(removal: Removal, now: datetime) -> dict[str, object]:
    return {
        "removal": removal.removal_id,
        "table": removal.table.dotted,
        "kind": removal.kind.value,
        "state": coloured(removal.state, removal.state),
        "items": number(removal.item_count),
        "size": None if removal.bytes is None else size(removal.bytes),
        "planned": ago(removal.planned_at, now),
        "planned by": removal.planned_by_job,
        "requested by": removal.requested_by,
        "expires": None if removal.state.is_terminal or removal.quarantined_until else ago(removal.expires_at, now),
        "decided": None if removal.decided_at is None else ago(removal.decided_at, now),
        "decided by": removal.decided_by,
        "comment": removal.comment,
        "job": removal.job_id,
        "deleted": number(removal.deleted_count) if removal.job_id else None,
        "already gone": number(removal.gone_count) if removal.gone_count else None,
        "left out": number(removal.left_out_count) if removal.left_out_count else None,
        "in quarantine": number(removal.quarantined_count) if removal.quarantined_until else None,
        "deleted for good": _end_of_quarantine(removal, now),
        "restored": number(removal.restored_count) if removal.restored_count else None,
        "error": removal.error,
    }


def _end_of_quarantine(removal: Removal, now: datetime) -> str | None:
    until = removal.quarantined_until
    if until is None:
        return None
    return ago(until, now) if until > now else "by the next job of the table"
