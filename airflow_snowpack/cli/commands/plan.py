"""``airflow snowpack tables plan``: what tables need now, why, and what that takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.cli.context import ends_cleanly, open_context
from airflow_snowpack.cli.output import DATA, print_data, print_rows
from airflow_snowpack.wire.plan import DECISIONS, PLANS

if TYPE_CHECKING:
    from argparse import Namespace

    from airflow_snowpack.exit_code import ExitCode


@ends_cleanly
def plan(args: Namespace) -> ExitCode | None:
    """``tables plan``"""
    from airflow_snowpack.iceberg import load_table

    with open_context(args) as here:
        planner, catalog = here.planner, here.inventory.catalog()
        tables = [here.table(name) for name in dict.fromkeys(args.tables)]
        plans = [planner.plan(load_table(catalog, table), table) for table in tables]
        now = here.now
    if args.output in DATA:
        print_data(args.output, PLANS.page(plans, None))
        return None
    for place, each in enumerate(plans):
        if args.output == "table":
            print("\n" * bool(place) + f"{each.table.dotted}: score {each.score} of 100")
        print_rows(args.output, DECISIONS.columns, each.decisions, now)
    return None
