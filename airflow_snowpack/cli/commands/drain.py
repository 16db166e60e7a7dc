"""``airflow snowpack drain on|off|status``: refuse new maintenance for a while, as before the store is moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.api import bodies
from airflow_snowpack.cli.opened import opened
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import is_for_people, print_one
from airflow_snowpack.humanize import ago

if TYPE_CHECKING:
    from argparse import Namespace
    from datetime import datetime

    from airflow_snowpack.cli.exit_code import ExitCode
    from airflow_snowpack.jobs import DrainState


@ends_cleanly
def switch_on(args: Namespace) -> ExitCode | None:
    """``drain on``"""
    with opened(args) as here:
        _print(args.output, here.jobs.set_drain(True, reason=args.reason, actor=here.actor), here.now)
    return None


@ends_cleanly
def switch_off(args: Namespace) -> ExitCode | None:
    """``drain off``"""
    with opened(args) as here:
        _print(args.output, here.jobs.set_drain(False, actor=here.actor), here.now)
    return None


@ends_cleanly
def show(args: Namespace) -> ExitCode | None:
    """``drain status``"""
    with opened(args) as here:
        _print(args.output, here.jobs.drain(), here.now)
    return None


def _print(output: str, state: DrainState, now: datetime) -> None:
    body = bodies.drain_body(state)
    if not is_for_people(output):
        print_one(output, body, body)
        return
    since = f", {ago(state.since, now)}" if state.since else ""
    by = f" by {state.by}" if state.by else ""
    reason = f" ({state.reason})" if state.reason else ""
    effect = "New maintenance is refused and nothing is swept." if state.on else "Maintenance is accepted."
    print(f"Drain mode is {'on' if state.on else 'off'}{since}{by}{reason}. {effect}")
