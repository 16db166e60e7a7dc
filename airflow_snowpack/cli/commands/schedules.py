"""``airflow snowpack schedules list|show|explain|history``: which schedules there are, and why one has not run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.api import schedule_bodies as bodies
from airflow_snowpack.api.bodies import moment
from airflow_snowpack.cli.opened import opened
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import Column, is_for_people, none_of, print_data, print_one, print_rows, printable, say
from airflow_snowpack.humanize import ago

if TYPE_CHECKING:
    from argparse import Namespace
    from datetime import datetime

    from airflow_snowpack.cli.exit_code import ExitCode
    from airflow_snowpack.scheduling import Explanation, ScheduleEntry


@ends_cleanly
def list_schedules(args: Namespace) -> ExitCode | None:
    """``schedules list``"""
    from airflow_snowpack.scheduling import explain_all

    with opened(args) as here:
        schedules, now = here.schedules, here.now
        which = {"dag_id": args.dag, "enabled": args.enabled, "search": args.search, "after": args.after}
        found = schedules.list(**which, limit=args.limit + 1)
        shown = found[: args.limit]
        told = explain_all(schedules, shown)
    after = shown[-1].name if len(found) > args.limit else None
    if args.output in ("json", "yaml"):
        print_data(args.output, {"schedules": [bodies.schedule_body(one) for one in shown], "next": after})
        return None
    empty = none_of("schedules", filters=(args.dag, args.enabled is not None, args.search), after=args.after)
    print_rows(args.output, [told[one.name] for one in shown], _columns(now), empty=empty)
    if after is not None:
        say(f"There are more: --after {after} goes on.")
    return None


@ends_cleanly
def show(args: Namespace) -> ExitCode | None:
    """``schedules show``"""
    import yaml

    with opened(args) as here:
        stored, now = here.schedules.get(args.schedule), here.now
    body = bodies.schedule_body(stored)
    if not is_for_people(args.output):
        print_one(args.output, body, body)
        return None
    changed = f"{ago(stored.changed_at, now)}" + (f" by {stored.changed_by}" if stored.changed_by else "")
    fields = {
        "schedule": stored.name,
        "state": state_of(stored.enabled),
        "kept by": stored.origin.value,
        "created": ago(stored.created_at, now),
        "changed": changed,
        **({"cannot be read": stored.problem} if stored.problem else {}),
    }
    print_one(args.output, body, fields)
    print()
    print(printable(yaml.safe_dump(body["definition"], sort_keys=False, allow_unicode=True)), end="")
    return None


@ends_cleanly
def explain(args: Namespace) -> ExitCode | None:
    """``schedules explain``"""
    from airflow_snowpack.scheduling import explain as explained

    with opened(args) as here:
        told = explained(here.schedules, args.schedule)
    if args.output in ("json", "yaml"):
        print_data(args.output, bodies.explanation_body(told))
    else:
        print(printable(str(told)))
    return None


@ends_cleanly
def history(args: Namespace) -> ExitCode | None:
    """``schedules history``"""
    from airflow_snowpack.scheduling import ScheduleNotFound, read_history

    with opened(args) as here:
        found = read_history(here.jobs.store, args.schedule, before=args.before, limit=args.limit + 1)
        now = here.now
    if not found and args.before is None:
        raise ScheduleNotFound(args.schedule)
    shown = found[: args.limit]
    before = shown[-1].id if len(found) > args.limit else None
    if args.output in ("json", "yaml"):
        print_data(args.output, {"entries": [bodies.entry_body(line) for line in shown], "next": before})
        return None
    print_rows(args.output, shown, _history_columns(now), empty=none_of("entries", after=args.before))
    if before is not None:
        say(f"There are more: --before {before} goes on.")
    return None


def state_of(enabled: bool) -> str:
    """How people call it."""
    return "enabled" if enabled else "suspended"


def _columns(now: datetime) -> list[Column[Explanation]]:
    return [
        Column("schedule", lambda told: told.stored.name),
        Column("dag", lambda told: told.stored.dag_id),
        Column("state", lambda told: state_of(told.stored.enabled) + (", not readable" if told.stored.problem else "")),
        Column("trigger", lambda told: told.trigger.text if told.stored.enabled else None),
        Column("waits because", _blocked),
        Column("next check", lambda told: moment(_next_check(told)), lambda told: ago(_next_check(told), now)),
        Column("last launch", lambda told: moment(_last_launch(told)), lambda told: ago(_last_launch(told), now)),
    ]


def _blocked(told: Explanation) -> str | None:
    said = [reason.text for reason in told.blocked_by] + [why for why in (told.trigger.problem, told.problem) if why]
    return "; ".join(said) or None


def _next_check(told: Explanation) -> datetime | None:
    waiting = told.pending.next_check_at if told.pending is not None else None
    return waiting or told.next_tick


def _last_launch(told: Explanation) -> datetime | None:
    return next((job.ended_at for job in told.ended if job.state.value == "launched"), None)


def _history_columns(now: datetime) -> list[Column[ScheduleEntry]]:
    return [
        Column("when", lambda line: moment(line.at), lambda line: ago(line.at, now)),
        Column("what", lambda line: line.what, lambda line: line.what.replace("_", " ")),
        Column("pending job", lambda line: line.pending_id, lambda line: (line.pending_id or "")[:12]),
        Column("detail", lambda line: ", ".join(f"{name}={value}" for name, value in line.detail.items() if value is not None)),
    ]
