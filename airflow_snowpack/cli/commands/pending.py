"""``airflow snowpack pending list``: what waits for its trigger, for its constraints, or to be started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.api import schedule_bodies as bodies
from airflow_snowpack.api.bodies import moment
from airflow_snowpack.cli.opened import opened
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import Column, none_of, print_data, print_rows, say
from airflow_snowpack.humanize import ago

if TYPE_CHECKING:
    from argparse import Namespace
    from datetime import datetime

    from airflow_snowpack.cli.exit_code import ExitCode
    from airflow_snowpack.scheduling import QueuedRun


@ends_cleanly
def list_pending(args: Namespace) -> ExitCode | None:
    """``pending list``"""
    from airflow_snowpack.scheduling import PendingQueue, PendingState

    with opened(args) as here:
        states = [PendingState(state) for state in args.state or ()]
        queue, now = PendingQueue(here.jobs.store), here.now
        page = queue.page(states=states, schedule=args.of_schedule, after=args.cursor, limit=args.limit)
    if args.output in ("json", "yaml"):
        waiting = [bodies.pending_body(each.run, each.problem) for each in page.items]
        print_data(args.output, {"pending": waiting, "next": page.next})
        return None
    filters = (args.state, args.of_schedule)
    empty = none_of("pending runs", filters=filters, after=args.cursor, empty="No runs are pending.")
    print_rows(args.output, page.items, _columns(now), empty=empty)
    if page.next is not None:
        say(f"There are more: --cursor {page.next} goes on.")
    return None


def _columns(now: datetime) -> list[Column[QueuedRun]]:
    return [
        Column("schedule", lambda each: each.run.schedule),
        Column("dag", lambda each: each.run.dag_id),
        Column("waits for", lambda each: each.run.state.value, lambda each: WORDS[each.run.state.value]),
        Column("because", _because),
        Column("since", lambda each: moment(each.run.created_at), lambda each: ago(each.run.created_at, now)),
        Column("next check", lambda each: moment(each.run.next_check_at), lambda each: ago(each.run.next_check_at, now)),
        Column("expires", lambda each: moment(each.run.expires_at), lambda each: ago(each.run.expires_at, now)),
    ]


WORDS = {"pending_trigger": "its trigger", "pending_constraint": "its constraints", "pending_launch": "its start"}


def _because(each: QueuedRun) -> str:
    unmet = [reason.text for reason in each.run.reasons if not reason.met]
    return "; ".join(unmet + ([each.problem] if each.problem else []))
