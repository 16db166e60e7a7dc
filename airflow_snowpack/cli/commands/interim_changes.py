"""``airflow snowpack interim collect|sweep|adopt|drop``: what nobody needs goes, each time with an entry in the audit trail."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from airflow_snowpack.api.bodies import moment
from airflow_snowpack.api.interim_bodies import collected_body, interim_body, swept_body
from airflow_snowpack.cli.airflow_api import airflow_rest
from airflow_snowpack.cli.confirm import confirm
from airflow_snowpack.cli.errors import UsageProblem
from airflow_snowpack.cli.exit_code import ExitCode, code_of, common_code
from airflow_snowpack.cli.opened import opened
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import Column, print_data, print_rows, say
from airflow_snowpack.durations import parse_duration
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.humanize import ago

if TYPE_CHECKING:
    from argparse import Namespace
    from datetime import datetime

    from airflow_snowpack.cli.opened import Opened
    from airflow_snowpack.interim.collection.model import Collected, TableToDrop
    from airflow_snowpack.interim.collection.sweeper import SweepAction

PROGRAMS = ("json", "yaml")


@ends_cleanly
def collect(args: Namespace) -> ExitCode | None:
    """``interim collect``"""
    from airflow_snowpack.hooks.run_states import RestRunStates
    from airflow_snowpack.store.signs_of_life import Role

    with opened(args) as here, airflow_rest(args, here.settings, "who has finished") as rest:
        collector = here.collector(RestRunStates(rest))
        collected = collector.run(dry_run=args.dry_run, actor=here.actor)
        if not args.dry_run:
            here.report_role(Role.COLLECTOR, timedelta(minutes=10), "airflow snowpack interim collect")
        now = here.now
    _tell_collected(args, collected, now)
    return ExitCode.UNREACHABLE if collected.failed else None


@ends_cleanly
def sweep(args: Namespace) -> ExitCode | None:
    """``interim sweep``"""
    with opened(args) as here:
        older_than = _older_than(args, here)
        if args.dry_run or not args.yes:
            actions = _swept(here, older_than, dry_run=True)
            if args.dry_run or not actions:
                _tell_swept(args, actions, here.now)
                return None
            confirm(f"Drop {_counted(len(actions), 'table or folder', 'tables and folders')}? --dry-run tells which.", yes=False)
        actions = _swept(here, older_than, dry_run=False)
        now = here.now
    _tell_swept(args, actions, now)
    return ExitCode.UNREACHABLE if any(action.error for action in actions) else None


@ends_cleanly
def adopt(args: Namespace) -> ExitCode | None:
    """``interim adopt``"""
    from airflow_snowpack.interim.ownership import adopt as take_over
    from airflow_snowpack.interim.ownership import ownership_of

    with opened(args) as here:
        catalog, name, namespace = here.catalog_hook.catalog, here.settings.catalog_name, here.settings.interim_namespace
        store_id = here.interim.store.identity
        if (before := ownership_of(catalog, namespace, store_id)).is_foreign:
            confirm(
                f"Take the namespace {namespace} of the catalog {name} from the store {before.owner}? If that one lives on, its "
                "tasks fail from then on, and the sweeper here drops its tables.",
                yes=args.yes,
            )
        former = take_over(catalog, name, namespace, here.interim.store, here.actor)
    say(
        f"The namespace {namespace} of the catalog {name} is this store's ({store_id})"
        + (f", and was the store {former}'s. The sweeper drops what that one has left in it." if former else ".")
    )
    return None


@ends_cleanly
def drop(args: Namespace) -> ExitCode | None:
    """``interim drop``"""
    with opened(args) as here:
        tables = [here.interim.table(asked) for asked in args.interim_tables]
        names = ", ".join(str(table.table) for table in tables)
        change, question = here.interim.drop, f"Let go of {names}? The rows are gone for good then."
        if args.forget:
            change, question = here.interim.forget, f"Take {names} off the record? No collector tries to drop it again."
        confirm(question, yes=args.yes)
        dropped, codes = [], []
        for table in tables:
            try:
                dropped.append(change(table.table_id, actor=here.actor))
            except SnowpackError as problem:
                say(str(problem))
                codes.append(code_of(problem))
        now = here.now
    if args.output in PROGRAMS:
        print_data(args.output, [interim_body(table, now) for table in dropped])
    else:
        for table in dropped:
            left = f" Its files are at {table.location}." if table.location else ""
            print(f"{table.table} is forgotten.{left}" if args.forget else f"{table.table} goes with the collector's next pass.")
    return common_code(codes)


def _older_than(args: Namespace, here: Opened) -> timedelta:
    if args.older_than is None:
        return here.settings.interim_sweep_after
    try:
        period = parse_duration(args.older_than)
    except ValueError as error:
        raise UsageProblem(f"--older-than {error}.") from error
    if period.total_seconds() <= 0:
        raise UsageProblem(f"--older-than {args.older_than!r} must be longer than nothing, such as 1d.")
    return period


def _swept(here: Opened, older_than: timedelta, *, dry_run: bool) -> list[SweepAction]:
    from airflow_snowpack.interim.collection.sweeper import sweep as sweep_tables

    catalog, name = here.catalog_hook.catalog, here.settings.catalog_name
    return sweep_tables(here.interim, catalog, name, older_than=older_than, dry_run=dry_run, actor=here.actor)


def _tell_collected(args: Namespace, collected: Collected, now: datetime) -> None:
    if args.output in PROGRAMS:
        print_data(args.output, collected_body(collected, dry_run=args.dry_run))
        return
    print_rows(args.output, collected.dropped, DROPPED, empty="There was nothing to drop.")
    for each in collected.failed:
        say(f"{each.table.table} could not be dropped, and is tried again: {each.reason}")
    for missed in collected.missing:
        say(f"{missed.table.table} is on record no more, but was not dropped by this. {missed.reason}")
    done = "Would drop" if args.dry_run else "Dropped"
    said = f"{done} {_counted(len(collected.dropped), 'table')} of {_counted(collected.runs, 'DAG run')} that were due."
    again = f" The next is looked at {ago(collected.looks_again_at, now)}." if collected.looks_again_at else ""
    say(said + again)


def _tell_swept(args: Namespace, actions: list[SweepAction], now: datetime) -> None:
    if args.output in PROGRAMS:
        print_data(args.output, swept_body(actions, dry_run=args.dry_run))
        return
    print_rows(args.output, actions, _swept_columns(now), empty="There is nothing to sweep.")
    if actions:
        kept = sum(action.error is not None for action in actions)
        went = _counted(len(actions) - kept, "table or folder", "tables and folders")
        left = f"; {kept} could not be dropped." if kept else "."
        say(f"{'Would drop' if args.dry_run else 'Dropped'} {went} that no record has{left}")


def _counted(number: int, one: str, several: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


DROPPED: list[Column[TableToDrop]] = [
    Column("table", lambda table: table.table),
    Column("rows", lambda table: table.rows, lambda table: "" if table.rows is None else f"{table.rows:,}"),
    Column("made by", lambda table: table.producer),
]


def _swept_columns(now: datetime) -> list[Column[SweepAction]]:
    return [
        Column("kind", lambda action: action.kind.value),
        Column("name", lambda action: action.name),
        Column("last written", lambda action: moment(action.since), lambda action: ago(action.since, now)),
        Column("stands at", lambda action: action.location),
        Column("problem", lambda action: action.error),
    ]
