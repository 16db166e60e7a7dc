"""``airflow snowpack schedules``: which schedules there are, why one has not run, and changes to them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from airflow_snowpack.cli.changes import change_each, changing, confirm, deleting, discards
from airflow_snowpack.cli.commands.runs import print_started
from airflow_snowpack.cli.context import ends_cleanly, open_context
from airflow_snowpack.cli.errors import UnreadableFile
from airflow_snowpack.cli.output import DATA, filled, is_for_people, print_data, print_one, print_page, printable
from airflow_snowpack.humanize import ago
from airflow_snowpack.wire.listing import cut
from airflow_snowpack.wire.schedule import HISTORY, SCHEDULES, ExplanationShape, ScheduleShape, schedule_state

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable

    from airflow_snowpack.exit_code import ExitCode
    from airflow_snowpack.scheduling import Schedule, Schedules, StoredSchedule

STDIN = "-"
T = TypeVar("T")


@ends_cleanly
def list_schedules(args: Namespace) -> None:
    """``schedules list``"""
    from airflow_snowpack.scheduling import explain_all

    with open_context(args) as here:
        which = {"dag_id": args.dag, "enabled": args.enabled, "search": args.search, "after": args.after}
        shown, next_ = cut(here.schedules.list(**which, limit=args.limit + 1), args.limit, lambda stored: stored.name)
        explained = explain_all(here.schedules, shown)
        filters = (args.dag, args.enabled is not None, args.search)
        explanations = [explained[stored.name] for stored in shown]
        print_page(args, SCHEDULES, explanations, next_, here.now, option="--after", filters=filters)


@ends_cleanly
def show(args: Namespace) -> None:
    """``schedules show``"""
    import yaml

    with open_context(args) as here:
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


@ends_cleanly
def explain(args: Namespace) -> None:
    """``schedules explain``"""
    from airflow_snowpack.scheduling import explain as explain_schedule

    with open_context(args) as here:
        explanation = explain_schedule(here.schedules, args.schedule)
    if args.output in DATA:
        print_data(args.output, ExplanationShape.encode(explanation))
    else:
        print(printable(str(explanation)))


@ends_cleanly
def history(args: Namespace) -> None:
    """``schedules history``"""
    from airflow_snowpack.scheduling import ScheduleNotFound, read_history

    with open_context(args) as here:
        found = read_history(here.jobs.store, args.schedule, before=args.before, limit=args.limit + 1)
        if not found and args.before is None:
            raise ScheduleNotFound(args.schedule)
        shown, next_ = cut(found, args.limit, lambda entry: entry.id)
        print_page(args, HISTORY, shown, next_, here.now, option="--before")


@ends_cleanly
def create(args: Namespace) -> ExitCode | None:
    """``schedules create``"""
    return _change(args, _read(args.file), lambda schedules: schedules.create, _and_state("created"))


@ends_cleanly
def update(args: Namespace) -> ExitCode | None:
    """``schedules update``"""

    def update_of(schedules: Schedules) -> Callable[[Schedule], StoredSchedule]:
        return changing(schedules.update, yes=args.yes)

    return _change(args, _read(args.file), update_of, _and_state("changed"))


@ends_cleanly
def delete(args: Namespace) -> ExitCode | None:
    """``schedules delete``"""
    names = list(dict.fromkeys(args.schedules))
    if not args.yes:
        with open_context(args) as here:
            confirm(f"Delete {', '.join(names)}? {discards(names, here.schedules.waiting)}", yes=False)
    return _change(args, names, lambda schedules: deleting(schedules.get, schedules.delete), lambda _: "deleted")


@ends_cleanly
def suspend(args: Namespace) -> ExitCode | None:
    """``schedules suspend``"""
    return _change(args, dict.fromkeys(args.schedules), lambda schedules: schedules.suspend)


@ends_cleanly
def resume(args: Namespace) -> ExitCode | None:
    """``schedules resume``"""
    return _change(args, dict.fromkeys(args.schedules), lambda schedules: schedules.resume)


@ends_cleanly
def run(args: Namespace) -> None:
    """``schedules run``"""
    from airflow_snowpack.scheduling import run_now

    with open_context(args) as here:
        print_started(args, run_now(here.schedules, args.schedule))


def _read(file: str) -> list[Schedule]:
    """Return the schedules of a file, or of standard input.

    :raises UnreadableFile: there is no such file.
    :raises InvalidSchedule: it declares something that is not a schedule.
    """
    from airflow_snowpack.scheduling import parse_schedules

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
    change_of: Callable[[Schedules], Callable[[T], StoredSchedule]],
    done: Callable[[StoredSchedule], str] = schedule_state,
) -> ExitCode:
    with open_context(args) as here:
        return change_each(args, targets, change_of(here.schedules), done, ScheduleShape.encode)
