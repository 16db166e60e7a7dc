"""``airflow snowpack schedules``: which schedules there are, why one has not run, and changes to them."""

import sys
from argparse import Namespace
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import yaml

from airflow_snowpack.cli.changes import change_each, changing, confirm, deleting, discards
from airflow_snowpack.cli.commands.runs import print_started
from airflow_snowpack.cli.context import CommandContext, command
from airflow_snowpack.cli.errors import UnreadableFile
from airflow_snowpack.cli.output import DATA, filled, is_for_people, print_data, print_one, print_page, printable
from airflow_snowpack.exit_code import ExitCode
from airflow_snowpack.humanize import ago
from airflow_snowpack.scheduling import (
    Schedule,
    ScheduleNotFound,
    StoredSchedule,
    explain as explain_schedule,
    explain_all,
    parse_schedules,
    read_history,
    run_now,
)
from airflow_snowpack.wire.listing import cut
from airflow_snowpack.wire.schedule import HISTORY, SCHEDULES, ExplanationShape, ScheduleShape, schedule_state

STDIN = "-"
T = TypeVar("T")


@command
def list_schedules(args: Namespace, here: CommandContext) -> None:
    which = {"dag_id": args.dag, "enabled": args.enabled, "search": args.search, "after": args.cursor}
    shown, next_ = cut(here.schedules.list(**which, limit=args.limit + 1), args.limit, lambda stored: stored.name)
    explained = explain_all(here.schedules, shown)
    filters = (args.dag, args.enabled is not None, args.search)
    explanations = [explained[stored.name] for stored in shown]
    print_page(args, SCHEDULES, explanations, next_, here.now, filters=filters)


@command
def show(args: Namespace, here: CommandContext) -> None:
    stored, now = here.schedules.get(args.schedule), here.now
    body = ScheduleShape.encode(stored)
    if not is_for_people(args.output):
        print_one(args.output, body, body)
        return
    fields = {
        "schedule": stored.name,
        "state": schedule_state(stored),
        "declared by": stored.origin.value,
        "created": ago(stored.created_at, now),
        "changed": f"{ago(stored.changed_at, now)}" + (f" by {stored.changed_by}" if stored.changed_by else ""),
        "cannot be read": stored.problem,
    }
    print_one(args.output, body, filled(fields))
    print()
    print(printable(yaml.safe_dump(body["definition"], sort_keys=False, allow_unicode=True)), end="")


@command
def explain(args: Namespace, here: CommandContext) -> None:
    explanation = explain_schedule(here.schedules, args.schedule)
    if args.output in DATA:
        print_data(args.output, ExplanationShape.encode(explanation))
    else:
        print(printable(str(explanation)))


@command
def history(args: Namespace, here: CommandContext) -> None:
    found = read_history(here.jobs.store, args.schedule, before=args.cursor, limit=args.limit + 1)
    if not found and args.cursor is None:
        raise ScheduleNotFound(args.schedule)
    shown, next_ = cut(found, args.limit, lambda entry: entry.id)
    print_page(args, HISTORY, shown, next_, here.now)


@command
def create(args: Namespace, here: CommandContext) -> ExitCode | None:
    return _change(args, _read(args.file), here.schedules.create, _and_state("created"))


@command
def update(args: Namespace, here: CommandContext) -> ExitCode | None:
    return _change(args, _read(args.file), changing(here.schedules.update, yes=args.yes), _and_state("changed"))


@command
def delete(args: Namespace, here: CommandContext) -> ExitCode | None:
    names, schedules = list(dict.fromkeys(args.schedules)), here.schedules
    if not args.yes:
        confirm(f"Delete {', '.join(names)}? {discards(names, schedules.waiting)}", yes=False)
    return _change(args, names, deleting(schedules.get, schedules.delete), lambda _: "deleted")


@command
def suspend(args: Namespace, here: CommandContext) -> ExitCode | None:
    return _change(args, dict.fromkeys(args.schedules), here.schedules.suspend)


@command
def resume(args: Namespace, here: CommandContext) -> ExitCode | None:
    return _change(args, dict.fromkeys(args.schedules), here.schedules.resume)


@command
def run(args: Namespace, here: CommandContext) -> None:
    print_started(args, run_now(here.schedules, args.schedule))


def _read(file: str) -> list[Schedule]:
    """Return the schedules of a file, or of standard input."""
    name = "standard input" if file == STDIN else Path(file).name
    try:
        text = sys.stdin.read() if file == STDIN else Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UnreadableFile(file, error) from error
    return parse_schedules(text, name, one_alone=True)


def _and_state(done: str) -> Callable[[StoredSchedule], str]:
    return lambda stored: f"{done}, {schedule_state(stored)}"


def _change(
    args: Namespace,
    targets: Iterable[T],
    change: Callable[[T], StoredSchedule],
    done: Callable[[StoredSchedule], str] = schedule_state,
) -> ExitCode:
    return change_each(args, targets, change, done, ScheduleShape.encode)
