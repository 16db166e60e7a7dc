"""``airflow snowpack digest``: what maintenance did in the last 24 hours."""

from argparse import Namespace

from airflow_snowpack.cli.context import CommandContext, command
from airflow_snowpack.cli.output import DATA, print_data
from airflow_snowpack.inventory import TableScores
from airflow_snowpack.maintenance.digest import read_digest
from airflow_snowpack.wire.digest import DigestShape


@command
def show(args: Namespace, here: CommandContext) -> None:
    digest = read_digest(here.jobs, TableScores(here.jobs.store, here.inventory))
    if args.output in DATA:
        print_data(args.output, DigestShape.encode(digest))
    else:
        print(digest.text)
