"""``airflow snowpack tables plan``: what tables need now, why, and what that takes."""

from argparse import Namespace

from airflow_snowpack.cli.changes import each
from airflow_snowpack.cli.context import CommandContext, command
from airflow_snowpack.cli.output import DATA, print_data, print_rows
from airflow_snowpack.exit_code import ExitCode
from airflow_snowpack.iceberg import load_table
from airflow_snowpack.wire.plan import DECISIONS, PLANS


@command
def plan(args: Namespace, here: CommandContext) -> ExitCode:
    planner, catalog = here.planner, here.inventory.catalog()
    tables = [here.table(name) for name in dict.fromkeys(args.tables)]
    plans, code = each(tables, lambda table: planner.plan(load_table(catalog, table), table))
    if args.output in DATA:
        print_data(args.output, PLANS.page(plans, None))
        return code
    for place, made in enumerate(plans):
        if args.output == "table":
            print("\n" * bool(place) + f"{made.table.dotted}: score {made.score} of 100")
        print_rows(args.output, DECISIONS.columns, made.decisions, here.now)
    return code
