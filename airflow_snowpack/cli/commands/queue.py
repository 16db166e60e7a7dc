"""``airflow snowpack queue``, ``workers``, ``sweep``, ``locks``, ``drain`` and ``audit``: operations on the queue of jobs."""

from argparse import Namespace
from contextlib import ExitStack
from datetime import datetime, timedelta

from airflow_snowpack.cli.changes import confirm
from airflow_snowpack.cli.context import CommandContext, command
from airflow_snowpack.cli.errors import NothingDone, UsageProblem
from airflow_snowpack.cli.output import is_for_people, print_list, print_one, print_page, print_result
from airflow_snowpack.cli.values import HEXADECIMAL, ID_LENGTH, SHORTEST_ID
from airflow_snowpack.exit_code import ExitCode
from airflow_snowpack.hooks.api_client import AirflowRest
from airflow_snowpack.hooks.ended_tasks import sweep as sweep_all
from airflow_snowpack.hooks.run_states import RestRunStates
from airflow_snowpack.humanize import ago, duration, plural, short_id
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.iceberg.errors import catalog_label
from airflow_snowpack.jobs import DrainState, SweepReport, TableLock, list_workers
from airflow_snowpack.runners import Exchanges
from airflow_snowpack.store import AuditTrail
from airflow_snowpack.store.signs_of_life import Role
from airflow_snowpack.wire.listing import cut
from airflow_snowpack.wire.operations import (
    AUDIT,
    LOCKS,
    SAMPLES,
    WORKERS,
    DrainShape,
    QueueShape,
    ReleaseShape,
    SweepShape,
    locked_by_job,
)
from airflow_snowpack.wire.shape import seconds_since


@command
def show(args: Namespace, here: CommandContext) -> None:
    if args.history is not None:
        samples = here.jobs.queue_over_time(timedelta(hours=args.history), args.history)
        print_list(args.output, SAMPLES, samples, here.now)
        return
    state, now = here.jobs.queue(), here.now
    body = QueueShape.encode(state, oldest_seconds=seconds_since(state.oldest, now))
    oldest = f", the oldest for {duration(now - state.oldest)}" if state.oldest is not None else ""
    waiting = f"{state.held}{oldest}, until drain mode is switched off" if state.held else f"{state.depth}{oldest}"
    fields = {"waiting": waiting, "running": state.running, "waiting for a back-off": state.delayed}
    print_one(args.output, body, fields if is_for_people(args.output) else body)


@command
def workers(args: Namespace, here: CommandContext) -> None:
    print_list(args.output, WORKERS, list_workers(here.jobs.store), here.now, empty="No worker has run.")


@command
def sweep(args: Namespace, here: CommandContext) -> ExitCode | None:
    with ExitStack() as connections:
        states = None
        if (conn_id := here.settings.airflow_conn_id) is not None:
            states = RestRunStates(connections.enter_context(AirflowRest.from_connection(conn_id)))
        report = sweep_all(here.installation, states, here.actor)
        here.report_role(Role.SWEEPER, timedelta(minutes=5), "airflow snowpack sweep")
        folders = Exchanges(here.settings.runner_folder).sweep()
    left = f"\nRemoved {plural(len(folders), 'exchange folder')} of killed tasks." if folders else ""
    body = SweepShape.encode(report)
    fields = {name: value if isinstance(value, bool) else ",".join(value) for name, value in body.items()}
    print_result(args.output, _swept(report) + left, body, fields)
    return ExitCode.TRY_LATER if report.paused else None


def _swept(report: SweepReport) -> str:
    if report.paused:
        return "Drain mode is on: nothing is swept."
    changes = (
        ("Requeued", [short_id(job_id) for job_id in report.requeued]),
        ("Failed", [short_id(job_id) for job_id in report.failed]),
        ("Cancelled, because their tasks have ended", [short_id(job_id) for job_id in report.cancelled]),
        ("Unlocked", report.unlocked),
    )
    return "\n".join(f"{change}: {', '.join(what)}." for change, what in changes if what) or "Nothing to sweep."


@command
def list_locks(args: Namespace, here: CommandContext) -> None:
    print_list(args.output, LOCKS, here.jobs.locks.list(), here.now, empty="No table is locked.")


@command
def release(args: Namespace, here: CommandContext) -> None:
    table = here.catalog_hook.table_name(args.table)
    lock = _find_lock(here, table, args.holder)
    if lock is None:
        _print_release(args, None, f"{table.dotted} is not locked.")
        return
    if args.yes and args.holder is None:
        raise UsageProblem(f"{table.dotted} is locked by {lock.holder}. With --yes, name the holder: --holder {lock.holder}")
    since, until = ago(lock.acquired_at, here.now), ago(lock.expires_at, here.now)
    confirm(f"{table.dotted} was locked by {lock.holder} {since}; the lock expires {until}. Release it?", yes=args.yes)
    released = here.jobs.break_lock(lock.table, lock.holder, actor=here.actor, force=args.force)
    gone = f"{lock.holder} has released {table.dotted} in the meantime; nothing was changed."
    _print_release(args, released, f"{table.dotted} is unlocked." if released else gone)


def _find_lock(here: CommandContext, table: TableName, holder: str | None) -> TableLock | None:
    """Return the lock of the table with this name, in any catalog."""
    named = [lock for lock in here.jobs.locks.list() if lock.table.dotted == table.dotted]
    matching = [lock for lock in named if holder is None or _is_holder(holder, lock)]
    if holder is not None and named and not matching:
        raise NothingDone(f"{table.dotted} is locked by {named[0].holder}, not by {holder!r}. Nothing was released.")
    if len(matching) > 1:
        holders = ", ".join(f"{lock.holder} in {catalog_label(lock.table.catalog, lock.table.catalog_id)}" for lock in matching)
        raise UsageProblem(f"{table.dotted} is locked in several catalogs: by {holders}. Name the holder of one: --holder …")
    return matching[0] if matching else None


def _is_holder(given: str, lock: TableLock) -> bool:
    """Return whether the text is the holder's name, or the beginning of its job id."""
    return lock.holder == given or (locked_by_job(lock) and len(given) >= SHORTEST_ID and lock.holder.startswith(given.lower()))


def _print_release(args: Namespace, released: TableLock | None, text: str) -> None:
    body = ReleaseShape.encode(None, released=released is not None, lock=released)
    print_result(args.output, text, body, {"released": str(released is not None).lower()})


@command
def drain_on(args: Namespace, here: CommandContext) -> None:
    _print_drain(args.output, here.jobs.set_drain(True, reason=args.reason, actor=here.actor), here.now)


@command
def drain_off(args: Namespace, here: CommandContext) -> None:
    _print_drain(args.output, here.jobs.set_drain(False, actor=here.actor), here.now)


@command
def drain_status(args: Namespace, here: CommandContext) -> None:
    _print_drain(args.output, here.jobs.drain(), here.now)


def _print_drain(output: str, state: DrainState, now: datetime) -> None:
    since = f", {ago(state.since, now)}" if state.since else ""
    by = f" by {state.by}" if state.by else ""
    reason = f" ({state.reason})" if state.reason else ""
    effect = "New maintenance is refused, and no job is claimed or swept." if state.on else "Maintenance is accepted."
    text = f"Drain mode is {'on' if state.on else 'off'}{since}{by}{reason}. {effect}"
    print_result(output, text, DrainShape.encode(state))


@command
def audit(args: Namespace, here: CommandContext) -> None:
    trail = AuditTrail(here.jobs.store)
    if args.subject is None:
        entries = trail.latest(limit=args.limit + 1, before=args.cursor)
    else:
        oldest_first = trail.of(_subject(args.subject, here))
        entries = [entry for entry in oldest_first[::-1] if args.cursor is None or entry.id < args.cursor]
    shown, next_ = cut(entries, args.limit, lambda entry: entry.id)
    print_page(args, AUDIT, shown, next_, here.now, filters=(args.subject,))


def _subject(given: str, here: CommandContext) -> str:
    """Return the subject of a table without its catalog, or of a job by its short id (a deleted one by its whole id only)."""
    if "." in given:
        return given if given.startswith(f"{here.settings.catalog_name}.") else f"{here.settings.catalog_name}.{given}"
    if HEXADECIMAL.fullmatch(given) and len(given) < ID_LENGTH:
        return here.job(given).job_id
    return given
