"""``airflow snowpack builds``: the datasets, their runs and shards; verify, publish, roll back and clean up."""

from argparse import Namespace

from airflow_snowpack.builds.manager import BuildManager
from airflow_snowpack.builds.model import CleanupAction, FileCheck, Retention
from airflow_snowpack.builds.registry.model import PublishOutcome
from airflow_snowpack.cli.changes import confirm
from airflow_snowpack.cli.context import CommandContext, command
from airflow_snowpack.cli.errors import UsageProblem
from airflow_snowpack.cli.output import DATA, filled, is_for_people, note, print_data, print_one, print_page, print_rows
from airflow_snowpack.cli.values import read_period
from airflow_snowpack.exit_code import ExitCode
from airflow_snowpack.humanize import ago, number, plural, size, timestamp
from airflow_snowpack.wire.build import (
    CLEANUP,
    DATASETS,
    PROBLEMS,
    SHARDS,
    DatasetRunsShape,
    DatasetShape,
    PublishOutcomeShape,
    VerificationShape,
    build_runs,
    cleanup_body,
    run_body,
    run_status,
    seen_body,
)

PUBLICATIONS_SHOWN = 20


@command
def list_datasets(args: Namespace, here: CommandContext) -> None:
    page = here.builds(None).registry.datasets(limit=args.limit, after=args.cursor)
    print_page(args, DATASETS, page.items, page.next, here.now)


@command
def show(args: Namespace, here: CommandContext) -> None:
    manager = here.builds(args.storage_conn_id)
    if args.run is None:
        _show_dataset(args, here, manager)
    else:
        _show_run(args, here, manager)


def _show_dataset(args: Namespace, here: CommandContext, manager: BuildManager) -> None:
    registry = manager.registry
    known, now = registry.dataset(args.dataset), here.now
    page = registry.runs(args.dataset, limit=args.limit, before=args.cursor)
    if args.output in DATA:
        publications = registry.publications(args.dataset, limit=PUBLICATIONS_SHOWN)
        runs = [run_body(run, known.current_run) for run in page.items]
        print_data(args.output, DatasetRunsShape.encode(known, publications=publications, runs=runs, next=page.next))
        return
    locked = f"{known.locked_by}, until {timestamp(known.locked_until)}" if known.locked_until else known.locked_by
    fields = {
        "dataset": known.dataset,
        "location": known.url,
        "current run": known.current_run or "none",
        "since": ago(known.moved_at, now),
        "locked by": locked,
    }
    print_one(args.output, DatasetShape.encode(known), filled(fields))
    print()
    print_page(args, build_runs(known.current_run), page.items, page.next, now)


def _show_run(args: Namespace, here: CommandContext, manager: BuildManager) -> None:
    known, now = manager.registry.dataset(args.dataset), here.now
    try:
        first = int(args.cursor or -1)
    except ValueError:
        raise UsageProblem(f"--cursor {args.cursor[:60]!r} is not the number of a shard, such as 99.") from None
    found = manager.inspect(args.dataset, args.run, after=first, limit=args.limit)
    body, run = seen_body(found, known.current_run), found.run
    if args.output in DATA:
        print_data(args.output, body)
        return
    fields = {
        "run": run.run_id,
        "status": run_status(run, known.current_run),
        "data of": timestamp(run.as_of),
        "started": ago(run.started_at, now),
        "owner": run.owner,
        "shards": number(run.num_shards),
        "rows": None if run.rows is None else number(run.rows),
        "size": None if run.bytes is None else size(run.bytes),
        "manifest": run.manifest,
        "error": run.error,
        "problem": found.problem,
    }
    print_one(args.output, body, filled(fields))
    print()
    print_page(args, SHARDS, found.shards, body["next"], now, empty="No more shards.")


@command
def verify(args: Namespace, here: CommandContext) -> ExitCode | None:
    found, now = here.builds(args.storage_conn_id).verify(args.dataset, args.run), here.now
    if args.output in DATA:
        print_data(args.output, VerificationShape.encode(found))
    elif found.problems:
        print_rows(args.output, PROBLEMS.columns, found.problems, now)
        damaged = f"{len(found.problems)} of {plural(found.shards, 'shard')}"
        note(f"{found.run_id} of {found.dataset}: {damaged} are not what was written.")
    else:
        read = f"{plural(found.shards, 'shard')} with {plural(found.rows, 'row')}"
        print(f"{found.run_id} of {found.dataset}: {read} are what was written.")
    return None if found.sound else ExitCode.REFUSED


@command
def publish(args: Namespace, here: CommandContext) -> None:
    verify = FileCheck(args.verify)
    _print_outcome(args, here.builds(args.storage_conn_id).publish(args.dataset, args.run, actor=here.actor, verify=verify))


@command
def rollback(args: Namespace, here: CommandContext) -> None:
    manager = here.builds(args.storage_conn_id)
    current = manager.registry.dataset(args.dataset).current_run
    confirm(f"The current run of {args.dataset} is {current or 'none'}. Roll back to {args.to}?", yes=args.yes)
    _print_outcome(args, manager.rollback(args.dataset, args.to, actor=here.actor))


@command
def cleanup(args: Namespace, here: CommandContext) -> ExitCode | None:
    retention = Retention(args.keep_runs, read_period("--stale-attempt-age", args.stale_attempt_age))
    manager = here.builds(args.storage_conn_id)
    if not args.dry_run and not args.yes:
        planned = manager.cleanup(args.dataset, retention, actor=None)
        if not planned:
            _print_cleanup(args, here, planned)
            return None
        confirm(f"Delete {_total(planned)} of {args.dataset}? --dry-run lists them.", yes=False)
    actions = manager.cleanup(args.dataset, retention, actor=None if args.dry_run else here.actor)
    _print_cleanup(args, here, actions)
    return ExitCode.UNREACHABLE if any(action.error for action in actions) else None


def _print_outcome(args: Namespace, outcome: PublishOutcome) -> None:
    if not is_for_people(args.output):
        body = PublishOutcomeShape.encode(outcome)
        print_one(args.output, body, body)
        return
    print(f"{outcome.run_id} is the current run of {outcome.dataset} now." if outcome.moved else outcome.reason)
    if not outcome.recorded:
        note("The store did not answer; the next publication or cleanup records it.")


def _print_cleanup(args: Namespace, here: CommandContext, actions: list[CleanupAction]) -> None:
    if args.output in DATA:
        print_data(args.output, cleanup_body(args.dataset, actions, dry_run=args.dry_run))
        return
    print_rows(args.output, CLEANUP.columns, actions, here.now, empty="Nothing to delete.")
    if actions:
        note(f"{'Would delete' if args.dry_run else 'Deleted'} {_total(actions)}.")


def _total(actions: list[CleanupAction]) -> str:
    objects = plural(sum(action.objects or 0 for action in actions), "object")
    return f"{objects} of {size(sum(action.bytes or 0 for action in actions))}"
