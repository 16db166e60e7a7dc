"""``airflow snowpack tables plan``: what tables need now, why, and what that takes."""

from __future__ import annotations

from argparse import Namespace
from datetime import datetime

from airflow_snowpack.cli.changes import each
from airflow_snowpack.cli.context import ends_cleanly, open_context
from airflow_snowpack.cli.output import DATA, print_data, print_rows
from airflow_snowpack.exit_code import ExitCode
from airflow_snowpack.maintenance.planning import TablePlan
from airflow_snowpack.wire.plan import DECISIONS, PLANS


@ends_cleanly
def plan(args: Namespace) -> ExitCode:
    """``tables plan``"""
    from airflow_snowpack.iceberg import load_table

    with open_context(args) as here:
        planner, catalog = here.planner, here.inventory.catalog()
        tables = [here.table(name) for name in dict.fromkeys(args.tables)]
        plans, code = each(tables, lambda table: planner.plan(load_table(catalog, table), table))
        now = here.now
    _print(args, plans, now)
    return code


def _print(args: Namespace, plans: list[TablePlan], now: datetime) -> None:
    if args.output in DATA:
        print_data(args.output, PLANS.page(plans, None))
        return
    for place, made in enumerate(plans):
        if args.output == "table":
            print("\n" * bool(place) + f"{made.table.dotted}: score {made.score} of 100")
        print_rows(args.output, DECISIONS.columns, made.decisions, now)
