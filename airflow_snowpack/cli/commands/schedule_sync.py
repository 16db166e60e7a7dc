"""``airflow snowpack schedules sync``: bring the store in line with the files that declare schedules, as a step of deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.api import schedule_bodies as bodies
from airflow_snowpack.cli.commands.schedule_check import dags_of_airflow, find_problems
from airflow_snowpack.cli.commands.schedule_files import declared_in
from airflow_snowpack.cli.opened import opened
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import is_for_people, print_one, say
from airflow_snowpack.errors import SnowpackError

if TYPE_CHECKING:
    from argparse import Namespace

    from airflow_snowpack.cli.exit_code import ExitCode
    from airflow_snowpack.cli.opened import Opened
    from airflow_snowpack.scheduling import Finding, Schedule, SyncReport


@ends_cleanly
def sync(args: Namespace) -> ExitCode | None:
    """``schedules sync``"""
    from airflow_snowpack.scheduling import plan_sync
    from airflow_snowpack.scheduling import sync as bring_in_line

    with opened(args) as here:
        declared = declared_in(args.paths, here.settings)
        update = here.settings.update_schedules if args.update_schedules is None else args.update_schedules
        work = plan_sync if args.dry_run else bring_in_line
        _, gone = dags_of_airflow()
        report = work(here.schedules, declared, update=update, gone_dags=gone)
        findings = _warnings(args, here, declared, gone)
    for finding in findings:
        say(f"Warning: {finding}")
    if is_for_people(args.output):
        print(_told(report, dry_run=args.dry_run))
    else:
        body = bodies.sync_body(report)
        fields = {name: ",".join(names) for name, names in body.items()}
        print_one(args.output, body | {"problems": [bodies.finding_body(one) for one in findings]}, fields)
    return None


def _warnings(args: Namespace, here: Opened, declared: list[Schedule], gone: set[str]) -> list[Finding]:
    """What is wrong with the sources; that they cannot be checked does not fail the deployment, which is done."""
    try:
        return find_problems(args, here, declared, gone)
    except SnowpackError as problem:
        say(f"Warning: the sources of the schedules were not checked. {problem}")
        return []


def _told(report: SyncReport, *, dry_run: bool) -> str:
    would = "Would be " if dry_run else ""
    done = [
        f"{would}{said if dry_run else said.capitalize()}: {', '.join(names)}."
        for said, names in (("created", report.created), ("changed", report.updated), ("deleted", report.deleted))
        if names
    ]
    if report.left:
        done.append(f"Left as they are, though the files differ: {', '.join(report.left)}.")
    return "\n".join(done) or "The store and the files agree."
