"""``airflow snowpack digest``: what maintenance did in the last 24 hours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.cli.context import ends_cleanly, open_context
from airflow_snowpack.cli.output import DATA, print_data
from airflow_snowpack.wire.digest import DigestShape

if TYPE_CHECKING:
    from argparse import Namespace


@ends_cleanly
def show(args: Namespace) -> None:
    """``digest``"""
    from airflow_snowpack.inventory import TableScores
    from airflow_snowpack.maintenance.digest import read_digest

    with open_context(args) as here:
        digest = read_digest(here.jobs, TableScores(here.jobs.store, here.inventory))
    if args.output in DATA:
        print_data(args.output, DigestShape.encode(digest))
    else:
        print(digest.text)
