"""``airflow snowpack schedules check``: whether the tables and DAGs that declared schedules need are there, as a step of CI."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

from airflow_snowpack.api import schedule_bodies as bodies
from airflow_snowpack.cli.commands.schedule_files import declared_in
from airflow_snowpack.cli.exit_code import ExitCode
from airflow_snowpack.cli.opened import opened
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import Column, is_for_people, log_to_stderr, print_data, print_rows, say

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Collection

    from airflow_snowpack.cli.opened import Opened
    from airflow_snowpack.scheduling import Finding, Schedule


@ends_cleanly
def check(args: Namespace) -> ExitCode | None:
    """``schedules check``"""
    from airflow_snowpack.maintenance.action_run import counted
    from airflow_snowpack.scheduling import named_dags

    log_to_stderr()
    with opened(args) as here:
        declared = declared_in(args.paths, here.settings)
        known, _ = dags_of_airflow()
        unknown = named_dags(declared) - known
        findings = find_problems(args, here, declared, unknown - _dags_of_files() if unknown else ())
    if args.output in ("json", "yaml"):
        print_data(args.output, {"problems": [bodies.finding_body(one) for one in findings]})
    elif is_for_people(args.output):
        fine = f"Nothing is wrong with the sources of {counted(len(declared), 'schedule')}."
        print("\n".join(str(finding) for finding in findings) or fine)
    else:
        columns = [Column[Any]("schedule", lambda one: one.schedule), Column[Any]("problem", lambda one: one.problem)]
        print_rows(args.output, findings, columns, empty="")
    return ExitCode.REFUSED if findings else None


def find_problems(args: Namespace, here: Opened, declared: list[Schedule], missing_dags: Collection[str]) -> list[Finding]:
    """What is wrong with the sources of these schedules, and with the scheduler.

    :raises CatalogUnreachable: the catalog does not answer, or cannot be used.
    """
    from functools import cache, partial

    from airflow_snowpack.hooks.iceberg_catalog import reach_catalog
    from airflow_snowpack.scheduling import check_scheduler, check_sources

    store = here.schedules.store
    load = cache(partial(reach_catalog, args.catalog_conn_id))
    name, now = here.settings.catalog_name, store.clock()
    found = check_sources(declared, catalog_name=name, load_catalog=load, missing_dags=missing_dags, now=now)
    return found + check_scheduler(store)


def dags_of_airflow() -> tuple[set[str], set[str]]:
    """The DAGs that Airflow's database has, and those that it knows to be gone; none when it does not answer.

    A DAG whose file does not parse is there: its author will fix it.
    """
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import select
    from sqlalchemy.exc import SQLAlchemyError

    try:
        with create_session() as session:
            rows = session.execute(select(DagModel.dag_id, DagModel.is_stale, DagModel.has_import_errors)).all()
    except SQLAlchemyError:
        say("Airflow's database does not tell which DAGs there are, so no schedule goes with its DAG.")
        return set(), set()
    gone = {row.dag_id for row in rows if row.is_stale and not row.has_import_errors}
    return {row.dag_id for row in rows} - gone, gone


def _dags_of_files() -> set[str]:
    """The DAGs that the files of the DAGs folder declare: in CI, Airflow's database has not seen the new ones yet."""
    from airflow.dag_processing.dagbag import DagBag

    from airflow_snowpack.hooks.scheduling import dags_folder

    with redirect_stdout(sys.stderr):  # what DAG files print is not the output of this command
        return set(DagBag(dag_folder=dags_folder()).dags)
