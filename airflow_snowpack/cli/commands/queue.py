"""``airflow snowpack queue`` and ``sweep``: how much work waits, and taking back what a dead worker left."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from airflow_snowpack.api import bodies
from airflow_snowpack.cli.exit_code import ExitCode
from airflow_snowpack.cli.job_id import short_id
from airflow_snowpack.cli.opened import opened
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import is_for_people, print_one
from airflow_snowpack.humanize import duration

if TYPE_CHECKING:
    from argparse import Namespace

    from airflow_snowpack.jobs import SweepReport


@ends_cleanly
def show(args: Namespace) -> ExitCode | None:
    """``queue``"""
    with opened(args) as here:
        state, now = here.jobs.queue(), here.now
    body = bodies.queue_body(state, now)
    if not is_for_people(args.output):
        print_one(args.output, body, body)
        return None
    oldest = f", the oldest for {duration(now - state.oldest)}" if state.oldest is not None else ""
    fields = {"waiting": f"{state.depth}{oldest}", "running": state.running, "waiting out a back-off": state.delayed}
    print_one(args.output, body, fields)
    return None


@ends_cleanly
def sweep(args: Namespace) -> ExitCode | None:
    """``sweep``"""
    from airflow_snowpack.store.signs_of_life import Role

    with opened(args) as here:
        report = here.jobs.sweep(actor=here.actor)
        here.report_role(Role.SWEEPER, timedelta(minutes=5), "airflow snowpack sweep")
    if is_for_people(args.output):
        print(_told(report))
    else:
        body = bodies.sweep_body(report)
        print_one(
            args.output, body, {name: value if isinstance(value, bool) else ",".join(value) for name, value in body.items()}
        )
    return ExitCode.TRY_LATER if report.paused else None


def _told(report: SweepReport) -> str:
    if report.paused:
        return "Drain mode is on: nothing is swept."
    done = [
        f"{said}: {', '.join(what)}."
        for said, what in (
            ("Back in the queue", [short_id(job_id) for job_id in report.requeued]),
            ("Failed for good", [short_id(job_id) for job_id in report.failed]),
            ("Unlocked", report.unlocked),
        )
        if what
    ]
    return "\n".join(done) or "There was nothing to sweep."
