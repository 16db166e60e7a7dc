"""``airflow snowpack schedules create|update|delete|suspend|resume|run``: changes, each with its entry in the audit trail.

Several schedules are several changes: one that is refused does not keep the others from being made.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from airflow_snowpack.api import schedule_bodies as bodies
from airflow_snowpack.cli.commands.schedules import state_of
from airflow_snowpack.cli.confirm import confirm
from airflow_snowpack.cli.errors import UnreadableFile
from airflow_snowpack.cli.exit_code import code_of, common_code
from airflow_snowpack.cli.opened import opened
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import is_for_people, print_data, print_one
from airflow_snowpack.errors import SnowpackError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable

    from airflow_snowpack.cli.exit_code import ExitCode
    from airflow_snowpack.cli.opened import Opened
    from airflow_snowpack.scheduling import Schedule, StoredSchedule

STDIN = "-"
Wanted = TypeVar("Wanted")


@ends_cleanly
def create(args: Namespace) -> ExitCode | None:
    """``schedules create``"""
    declared = _read(args.file)
    return _change(args, declared, lambda here, schedule: here.schedules.create(schedule), "created")


@ends_cleanly
def update(args: Namespace) -> ExitCode | None:
    """``schedules update``"""
    declared = _read(args.file)
    return _change(args, declared, lambda here, schedule: here.schedules.update(schedule), "changed")


@ends_cleanly
def delete(args: Namespace) -> ExitCode | None:
    """``schedules delete``"""

    def remove(here: Opened, name: str) -> StoredSchedule:
        stored = here.schedules.get(name)
        here.schedules.delete(name)
        return stored

    names = list(dict.fromkeys(args.schedules))
    confirm(f"Delete {', '.join(names)}? What is pending goes with {'them' if len(names) > 1 else 'it'}.", yes=args.yes)
    return _change(args, names, remove, "deleted")


@ends_cleanly
def suspend(args: Namespace) -> ExitCode | None:
    """``schedules suspend``"""
    return _change(args, dict.fromkeys(args.schedules), lambda here, name: here.schedules.suspend(name), None)


@ends_cleanly
def resume(args: Namespace) -> ExitCode | None:
    """``schedules resume``"""
    return _change(args, dict.fromkeys(args.schedules), lambda here, name: here.schedules.resume(name), None)


@ends_cleanly
def run(args: Namespace) -> ExitCode | None:
    """``schedules run``"""
    from airflow_snowpack.scheduling import run_now

    with opened(args) as here:
        job = run_now(here.schedules, args.schedule)
    if is_for_people(args.output):
        print(f"{job.dag_id} is going to run as {job.run_id}.")
    else:
        print_one(args.output, body := bodies.pending_body(job), body)
    return None


def _read(file: str) -> list[Schedule]:
    """The schedules of a file, or of standard input.

    :raises UnreadableFile: there is no such file.
    :raises InvalidSchedule: it declares something that is no schedule.
    """
    from airflow_snowpack.scheduling import parse_schedules

    name = "standard input" if file == STDIN else Path(file).name
    try:
        text = sys.stdin.read() if file == STDIN else Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UnreadableFile(file, error) from error
    return parse_schedules(text, name, one_alone=True)


def _change(
    args: Namespace, wanted: Iterable[Wanted], change: Callable[[Opened, Wanted], StoredSchedule], done: str | None
) -> ExitCode:
    codes: list[ExitCode] = []
    changed: list[StoredSchedule] = []
    with opened(args) as here:
        for each in wanted:
            try:
                changed.append(change(here, each))
            except SnowpackError as problem:
                print(problem, file=sys.stderr)
                codes.append(code_of(problem))
                continue
            if is_for_people(args.output):
                print(f"{changed[-1].name}  {_told(changed[-1], done)}")
    if args.output in ("json", "yaml"):
        print_data(args.output, [bodies.schedule_body(stored) for stored in changed])
    elif not is_for_people(args.output):
        for stored in changed:
            print(stored.name)
    return common_code(codes)


def _told(stored: StoredSchedule, done: str | None) -> str:
    if done is None:
        return state_of(stored.enabled)
    return done if done == "deleted" else f"{done}, {state_of(stored.enabled)}"
