"""``airflow snowpack db prune``: delete what is old and not needed any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.cli.confirm import confirm
from airflow_snowpack.cli.job_filter import read_period
from airflow_snowpack.cli.opened import opened
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import Column, is_for_people, print_list, say
from airflow_snowpack.humanize import duration

if TYPE_CHECKING:
    from argparse import Namespace

    from airflow_snowpack.cli.exit_code import ExitCode

COLUMNS: tuple[Column[tuple[str, int]], ...] = (
    Column("table", lambda found: found[0]),
    Column("rows", lambda found: found[1], lambda found: f"{found[1]:,}"),
)


@ends_cleanly
def prune(args: Namespace) -> ExitCode | None:
    """``db prune``"""
    older_than = read_period("--older-than", args.older_than)
    if not args.dry_run:
        confirm(f"Delete the store's rows that are older than {duration(older_than)} and not needed any more?", yes=args.yes)
    with opened(args) as here:
        rows = here.installation.prune(older_than, here.actor, dry_run=args.dry_run)
    shape = "would_delete" if args.dry_run else "deleted"
    print_list(
        args.output, [*rows.items()], lambda found: {"table": found[0], shape: found[1]}, COLUMNS, empty="Nothing is that old."
    )
    if is_for_people(args.output):
        say(f"{rows.total():,} rows {'would be' if args.dry_run else 'were'} deleted.")
    return None
