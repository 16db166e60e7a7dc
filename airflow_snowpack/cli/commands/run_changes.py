"""``airflow snowpack runs register|upsert|enable|disable|unregister|run``: changes, each with its entry in the audit trail."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from airflow_snowpack.api.run_bodies import registered_run_body
from airflow_snowpack.api.schedule_bodies import pending_body
from airflow_snowpack.cli.commands.runs import state_of
from airflow_snowpack.cli.confirm import confirm
from airflow_snowpack.cli.errors import UsageProblem
from airflow_snowpack.cli.exit_code import code_of, common_code
from airflow_snowpack.cli.opened import opened
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import is_for_people, print_data, print_one
from airflow_snowpack.errors import SnowpackError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from airflow_snowpack.cli.exit_code import ExitCode
    from airflow_snowpack.cli.opened import Opened
    from airflow_snowpack.scheduling import RegisteredRun, StoredRun


@ends_cleanly
def register(args: Namespace) -> ExitCode | None:
    """``runs register``"""
    run = _said(args)
    with opened(args) as here:
        stored = here.registered_runs.register(run)
    _print_one(args, stored, "registered")
    return None


@ends_cleanly
def upsert(args: Namespace) -> ExitCode | None:
    """``runs upsert``"""
    run = _said(args)
    with opened(args) as here:
        stored, became = here.registered_runs.upsert(run)
    _print_one(args, stored, became.value)
    return None


@ends_cleanly
def enable(args: Namespace) -> ExitCode | None:
    """``runs enable``"""
    return _change(args, lambda here, name: here.registered_runs.enable(name), None)


@ends_cleanly
def disable(args: Namespace) -> ExitCode | None:
    """``runs disable``"""
    return _change(args, lambda here, name: here.registered_runs.disable(name), None)


@ends_cleanly
def unregister(args: Namespace) -> ExitCode | None:
    """``runs unregister``"""

    def remove(here: Opened, name: str) -> StoredRun:
        stored = here.registered_runs.get(name)
        here.registered_runs.unregister(name)
        return stored

    names = list(dict.fromkeys(args.runs))
    confirm(f"Unregister {', '.join(names)}? What is pending goes with {'them' if len(names) > 1 else 'it'}.", yes=args.yes)
    return _change(args, remove, "unregistered")


@ends_cleanly
def run(args: Namespace) -> ExitCode | None:
    """``runs run``"""
    from airflow_snowpack.scheduling import run_registered

    conf = _conf(args.conf)
    with opened(args) as here:
        job = run_registered(here.registered_runs, args.run, conf, args.preservation)
    if is_for_people(args.output):
        print(f"{job.dag_id} is going to run as {job.run_id}.")
    else:
        print_one(args.output, body := pending_body(job), body)
    return None


def _said(args: Namespace) -> RegisteredRun:
    """:raises InvalidRun: it cannot be used."""
    from airflow_snowpack.scheduling import RegisteredRun

    said = {name: getattr(args, name) for name in ("cron", "tz", "preservation", "enabled", "description")}
    return RegisteredRun(args.run, args.dag_id, _conf(args.conf), **said)


def _conf(text: str | None) -> dict[str, Any]:
    """:raises UsageProblem: it is no JSON object."""
    if text is None:
        return {}
    try:
        said = json.loads(text)
    except ValueError as error:
        raise UsageProblem(f"--conf {text[:80]!r} is no JSON: {error}.") from error
    if not isinstance(said, dict):
        raise UsageProblem(f"--conf {text[:80]!r} is no JSON object. Write it as in '{{\"days\": 7}}'.")
    return said


def _print_one(args: Namespace, stored: StoredRun, done: str) -> None:
    if args.output in ("json", "yaml"):
        print_data(args.output, registered_run_body(stored))
    elif is_for_people(args.output):
        print(f"{stored.name}  {done}, {state_of(stored)}")
    else:
        print(stored.name)


def _change(args: Namespace, change: Callable[[Opened, str], StoredRun], done: str | None) -> ExitCode:
    codes: list[ExitCode] = []
    changed: list[StoredRun] = []
    with opened(args) as here:
        for name in dict.fromkeys(args.runs):
            try:
                changed.append(change(here, name))
            except SnowpackError as problem:
                print(problem, file=sys.stderr)
                codes.append(code_of(problem))
                continue
            if is_for_people(args.output):
                print(f"{name}  {done or state_of(changed[-1])}")
    if args.output in ("json", "yaml"):
        print_data(args.output, [registered_run_body(stored) for stored in changed])
    elif not is_for_people(args.output):
        for stored in changed:
            print(stored.name)
    return common_code(codes)
