"""``airflow snowpack events list|send``: what happened, and what happened elsewhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from airflow_snowpack.api import schedule_bodies as bodies
from airflow_snowpack.api.bodies import moment
from airflow_snowpack.cli.errors import UsageProblem
from airflow_snowpack.cli.opened import opened
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import Column, is_for_people, none_of, print_data, print_one, print_rows, say
from airflow_snowpack.humanize import ago

if TYPE_CHECKING:
    from argparse import Namespace
    from datetime import datetime

    from airflow_snowpack.cli.exit_code import ExitCode
    from airflow_snowpack.scheduling import RecordedEvent


@ends_cleanly
def list_events(args: Namespace) -> ExitCode | None:
    """``events list``"""
    from airflow_snowpack.scheduling import EventLog

    with opened(args) as here:
        found = EventLog(here.jobs.store).latest(args.key, before=args.before, limit=args.limit + 1)
        now = here.now
    shown = found[: args.limit]
    before = shown[-1].id if len(found) > args.limit else None
    if args.output in ("json", "yaml"):
        print_data(args.output, {"events": [bodies.event_body(each) for each in shown], "next": before})
        return None
    print_rows(args.output, shown, _columns(now), empty=none_of("events", filters=(args.key,), after=args.before))
    if before is not None:
        say(f"There are more: --before {before} goes on.")
    return None


@ends_cleanly
def send(args: Namespace) -> ExitCode | None:
    """``events send``"""
    from airflow_snowpack.scheduling import send_event

    amounts, detail = _amounts(args.amount or []), _detail(args.detail)
    with opened(args) as here:
        sent = send_event(here.jobs.store, here.actor, args.name, amounts, detail, source_id=args.source_id)
    if is_for_people(args.output):
        print(f"{sent.recorded.event.key} is event {sent.recorded.id}" + (", and was before." if sent.again else "."))
    else:
        print_one(args.output, body := bodies.event_body(sent.recorded), body)
    return None


def _amounts(given: list[str]) -> dict[str, int]:
    """``["records=900"]`` as a mapping.

    :raises UsageProblem: one of them is no name with a whole number.
    """
    amounts = {}
    for each in given:
        name, _, number = each.partition("=")
        if not name or not (number.isascii() and number.isdecimal()):
            raise UsageProblem(f"--amount {each!r} is not usable: give a name and a whole number, such as records=900.")
        amounts[name] = int(number)
    return amounts


def _detail(given: str | None) -> dict[str, Any]:
    """:raises UsageProblem: it is no JSON object."""
    try:
        detail = json.loads(given) if given is not None else {}
    except ValueError as error:
        raise UsageProblem(f"--detail is not usable: it is no JSON ({error}).") from error
    if not isinstance(detail, dict):
        raise UsageProblem('--detail is not usable: give a JSON object, such as {"batch": "2026-11-21"}.')
    return detail


def _columns(now: datetime) -> list[Column[RecordedEvent]]:
    return [
        Column("event", lambda each: each.id),
        Column("when", lambda each: moment(each.event.at), lambda each: ago(each.event.at, now)),
        Column("key", lambda each: each.event.key),
        Column("brought", lambda each: ", ".join(f"{name}={amount}" for name, amount in each.event.amounts.items())),
        Column("source id", lambda each: each.event.source_id),
    ]
