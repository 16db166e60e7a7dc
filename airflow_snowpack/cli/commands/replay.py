"""``airflow snowpack policies replay``: what a policy would have done on the commits that the tables really had."""

from argparse import Namespace
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow_snowpack.cli.commands.assess import ANSWER_WITHIN, named_tables
from airflow_snowpack.cli.errors import UsageProblem
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import DATA, note, print_data, print_rows
from airflow_snowpack.cli.progress import ProgressLine
from airflow_snowpack.cli.values import read_period
from airflow_snowpack.exit_code import ExitCode
from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
from airflow_snowpack.hooks.store import SnowpackHook
from airflow_snowpack.humanize import duration, plural, timestamp
from airflow_snowpack.iceberg.listing import LeftOut
from airflow_snowpack.maintenance.policies import Policies
from airflow_snowpack.maintenance.replay.model import Replay
from airflow_snowpack.maintenance.replay.simulation import replay_tables
from airflow_snowpack.wire.replay import OUTCOMES, REPLAYED, ReplayShape, over_time

INSTALLED = "installed policies"


@ends_cleanly
def replay(args: Namespace) -> ExitCode | None:
    hook, until, every = IcebergCatalogHook(args.catalog_conn_id), datetime.now(UTC), read_period("--every", args.every)
    if every <= timedelta(0):
        raise UsageProblem("--every must be longer than 0 s.")
    policies = _policies(args)
    catalog = hook.config.load(limit=ANSWER_WITHIN)
    left_out: list[LeftOut] = []
    tables = named_tables(hook.config, catalog, args, left_out)
    with ProgressLine("tables", len(tables)) as line:
        found = replay_tables(
            catalog,
            tables,
            policies,
            since=until - timedelta(days=args.days),
            until=until,
            every=every,
            progress=line.advance,
        )
    found = replace(found, problems={**{each.name: each.reason for each in left_out}, **found.problems})
    _report(args, found, every)
    return None if found.tables or not tables else ExitCode.REFUSED


def _policies(args: Namespace) -> dict[str, Policies]:
    """Return the policies that are compared, by what they are called: the current one first."""

    def load(file: str | None) -> tuple[str, Policies]:
        return (str(file), Policies.load(Path(file))) if file else (INSTALLED, SnowpackHook().policies())

    changed = load(args.policies)
    return dict([load(args.against), changed] if args.against else [changed])


def _report(args: Namespace, found: Replay, every: timedelta) -> None:
    if args.html:
        from airflow_snowpack.cli.reports import replay_page, write

        write(Path(args.html), replay_page(found, every))
    if args.output in DATA:
        print_data(args.output, ReplayShape.encode(found))
    elif found.tables:
        print_rows(args.output, (*OUTCOMES.columns, over_time(found.all)), found.all, found.until)
        print()
        largest = sorted(found.tables, key=lambda table: -max(each.bytes_rewritten for each in table.outcomes))
        print_rows(args.output, REPLAYED.columns, largest[: args.limit], found.until)
    note(_summary(found, every))
    for table, reason in found.problems.items():
        note(f"{table} was not replayed: {reason}")
    if args.html:
        note(f"The report is in {args.html}.")


def _summary(found: Replay, every: timedelta) -> str:
    commits = sum(table.commits for table in found.tables)
    what = f"Replayed {plural(commits, 'commit')} of {plural(len(found.tables), 'table')}"
    when = f"from {timestamp(found.since)} on, with {plural(found.passes, 'pass', 'passes')}, one every {duration(every)}"
    left = [table.abandoned for table in found.tables if table.abandoned]
    late = sum(table.since > found.since and not table.abandoned for table in found.tables)
    begin = f" {plural(late, 'table')} had no older snapshot and began later." if late else ""
    others = f"{plural(sum(left), 'commit')} of {plural(len(left), 'table')}"
    rest = f" {others} cannot be replayed: a rollback or a replacement of the table left them behind." if left else ""
    return f"{what} {when}.{begin}{rest}"
