"""``airflow snowpack interim``: the tables that tasks pass to each other; collect, sweep, adopt and drop."""

from argparse import Namespace
from datetime import datetime, timedelta

from airflow_snowpack.cli.changes import confirm, each
from airflow_snowpack.cli.context import CommandContext, airflow_rest, command
from airflow_snowpack.cli.errors import UsageProblem
from airflow_snowpack.cli.output import DATA, coloured, filled, note, print_data, print_one, print_page, print_rows
from airflow_snowpack.cli.values import read_period
from airflow_snowpack.exit_code import ExitCode
from airflow_snowpack.hooks.run_states import RestRunStates
from airflow_snowpack.humanize import ago, number, plural
from airflow_snowpack.interim.collection.model import Collected
from airflow_snowpack.interim.collection.sweeper import SweepAction, sweep as sweep_tables
from airflow_snowpack.interim.model import InterimTable, TableState
from airflow_snowpack.interim.ownership import adopt as take_over, ownership_of
from airflow_snowpack.store.signs_of_life import Role
from airflow_snowpack.wire.interim import (
    DROPPED,
    SWEPT,
    collected_body,
    interim_body,
    interim_state,
    interim_tables,
    worst_state,
)

COLLECTED_EVERY = timedelta(minutes=10)


@command
def list_interim(args: Namespace, here: CommandContext) -> None:
    state = None if args.state is None else TableState(args.state)
    page = here.installation.interim.page(dag_id=args.dag, run_id=args.run_id, state=state, limit=args.limit, after=args.cursor)
    filters = (args.dag, args.run_id, args.state)
    print_page(args, interim_tables(here.now), page.items, page.next, here.now, filters=filters)


@command
def show(args: Namespace, here: CommandContext) -> None:
    table, now = here.installation.interim.table(args.interim_table), here.now
    body = interim_body(table, now)
    fields: dict[str, object] = {
        "table": str(table.table),
        "id": table.table_id,
        "state": coloured(interim_state(table), worst_state(table)),
        "made by": f"{table.producer} (try {table.try_number})",
        "started": ago(table.created_at, now),
        "ready": ago(table.ready_at, now),
        "rows": None if table.rows is None else number(table.rows),
        "name": f"{table.name} ({table.scope.value})" if table.name and table.scope else None,
        "preserved": _preserved(table, now),
        "needed by": ", ".join(table.pins),
        "read by": plural(table.readers, "task") if table.readers else None,
        "outlook": body["outlook"],
        "next check": ago(table.check_at, now),
        "reason": "\n".join(body["because"]),
    }
    print_one(args.output, body, filled(fields))


def _preserved(table: InterimTable, now: datetime) -> str:
    if table.preservation.value == "NONE":
        return "no"
    return "until it is dropped by hand" if table.expires_at is None else f"until {ago(table.expires_at, now)}"


@command
def collect(args: Namespace, here: CommandContext) -> ExitCode | None:
    with airflow_rest(args, here.settings, "which tasks have finished") as rest:
        collector = here.collector(RestRunStates(rest))
        collected = collector.run(dry_run=args.dry_run, actor=here.actor)
        if not args.dry_run:
            here.report_role(Role.COLLECTOR, COLLECTED_EVERY, "airflow snowpack interim collect")
    _print_collected(args, collected, here.now)
    return ExitCode.UNREACHABLE if collected.failed else None


def _print_collected(args: Namespace, collected: Collected, now: datetime) -> None:
    if args.output in DATA:
        print_data(args.output, collected_body(collected, dry_run=args.dry_run))
        return
    print_rows(args.output, DROPPED.columns, collected.dropped, now, empty="Nothing to drop.")
    for failure in collected.failed:
        note(f"{failure.table.table} could not be dropped and will be retried: {failure.reason}")
    for missing in collected.missing:
        note(f"{missing.table.table} is no longer recorded, but this pass did not drop it. {missing.reason}")
    done = "Would drop" if args.dry_run else "Dropped"
    checked = f"{done} {plural(len(collected.dropped), 'table')} of {plural(collected.runs, 'DAG run')} that were due."
    again = f" The next DAG run is due {ago(collected.next_check_at, now)}." if collected.next_check_at else ""
    note(checked + again)


@command
def sweep(args: Namespace, here: CommandContext) -> ExitCode | None:
    older_than = _older_than(args, here)
    if args.dry_run or not args.yes:
        actions = _sweep(here, older_than, dry_run=True)
        if args.dry_run or not actions:
            _print_swept(args, actions, here.now)
            return None
        confirm(f"Drop {plural(len(actions), 'table or folder', 'tables and folders')}? --dry-run lists them.", yes=False)
    actions = _sweep(here, older_than, dry_run=False)
    _print_swept(args, actions, here.now)
    return ExitCode.UNREACHABLE if any(action.error for action in actions) else None


def _older_than(args: Namespace, here: CommandContext) -> timedelta:
    if args.older_than is None:
        return here.settings.interim_sweep_after
    period = read_period("--older-than", args.older_than)
    if period <= timedelta(0):
        raise UsageProblem(f"--older-than {args.older_than!r} must be longer than 0, such as 1d.")
    return period


def _sweep(here: CommandContext, older_than: timedelta, *, dry_run: bool) -> list[SweepAction]:
    catalog, name = here.catalog_hook.catalog, here.settings.catalog_name
    return sweep_tables(here.installation.interim, catalog, name, older_than=older_than, dry_run=dry_run, actor=here.actor)


def _print_swept(args: Namespace, actions: list[SweepAction], now: datetime) -> None:
    if args.output in DATA:
        print_data(args.output, {"dry_run": args.dry_run, "swept": [SWEPT.body(action) for action in actions]})
        return
    print_rows(args.output, SWEPT.columns, actions, now, empty="Nothing to sweep.")
    if actions:
        failed = sum(action.error is not None for action in actions)
        dropped = plural(len(actions) - failed, "table or folder", "tables and folders")
        left = f"; {failed} could not be dropped." if failed else "."
        note(f"{'Would drop' if args.dry_run else 'Dropped'} {dropped} that no record has{left}")


@command
def adopt(args: Namespace, here: CommandContext) -> None:
    catalog, name, namespace = here.catalog_hook.catalog, here.settings.catalog_name, here.settings.interim_namespace
    store_id = here.installation.interim.store.identity
    if (before := ownership_of(catalog, namespace, store_id)).is_foreign:
        confirm(
            f"Take over the namespace {namespace} of the catalog {name} from the store {before.owner}? If that store is "
            "still in use, its tasks fail from then on, and this store's sweeper drops its tables.",
            yes=args.yes,
        )
    former = take_over(catalog, name, namespace, here.installation.interim.store, here.actor)
    note(
        f"The namespace {namespace} of the catalog {name} belongs to this store ({store_id})"
        + (f". It belonged to the store {former}; the sweeper drops the tables of that store." if former else ".")
    )


@command
def drop(args: Namespace, here: CommandContext) -> ExitCode | None:
    registry = here.installation.interim
    tables = [registry.table(given) for given in args.interim_tables]
    names = ", ".join(str(table.table) for table in tables)
    change, question = registry.drop, f"Drop {names}? The rows cannot be restored."
    if args.forget:
        change, question = registry.forget, f"Remove {names} from the records? No collector drops them."
    confirm(question, yes=args.yes)
    dropped, code = each(tables, lambda table: change(table.table_id, actor=here.actor))
    now = here.now
    if args.output in DATA:
        print_data(args.output, [interim_body(table, now) for table in dropped])
        return code
    for table in dropped:
        left = f" Its files are at {table.location}." if table.location else ""
        forgotten = f"{table.table} was removed from the records.{left}"
        print(forgotten if args.forget else f"The collector drops {table.table} in its next pass.")
    return code
