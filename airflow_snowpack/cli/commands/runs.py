"""``airflow snowpack runs list|show``: which runs are registered, and how they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.api.bodies import moment
from airflow_snowpack.api.run_bodies import registered_run_body
from airflow_snowpack.cli.opened import opened
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import Column, is_for_people, none_of, print_data, print_one, print_rows, printable, say
from airflow_snowpack.humanize import ago

if TYPE_CHECKING:
    from argparse import Namespace
    from datetime import datetime

    from airflow_snowpack.cli.exit_code import ExitCode
    from airflow_snowpack.scheduling import StoredRun

RUNS_SHOWN = 10


@ends_cleanly
def list_runs(args: Namespace) -> ExitCode | None:
    """``runs list``"""
    with opened(args) as here:
        which = {"dag_id": args.dag, "enabled": args.enabled, "search": args.search, "after": args.after}
        found, now = here.registered_runs.list(**which, limit=args.limit + 1), here.now
    shown = found[: args.limit]
    after = shown[-1].name if len(found) > args.limit else None
    if args.output in ("json", "yaml"):
        print_data(args.output, {"runs": [registered_run_body(one) for one in shown], "next": after})
        return None
    empty = none_of("registered runs", filters=(args.dag, args.enabled is not None, args.search), after=args.after)
    print_rows(args.output, shown, _columns(now), empty=empty)
    if after is not None:
        say(f"There are more: --after {after} goes on.")
    return None


@ends_cleanly
def show(args: Namespace) -> ExitCode | None:
    """``runs show``"""
    import yaml

    from airflow_snowpack.scheduling import read_runs

    with opened(args) as here:
        stored, now = here.registered_runs.get(args.run), here.now
        launched = read_runs(here.jobs.store, stored.name, limit=RUNS_SHOWN)
    body = registered_run_body(stored)
    if not is_for_people(args.output):
        print_one(args.output, body, body)
        return None
    fields = {
        "registered run": stored.name,
        "state": state_of(stored),
        "created": ago(stored.created_at, now),
        "changed": f"{ago(stored.updated_at, now)}" + (f" by {stored.updated_by}" if stored.updated_by else ""),
        "next run": ago(stored.next_run_at, now) or "by hand only",
    }
    print_one(args.output, body, fields)
    for run in launched:
        print(printable(f"  {run.run_id}  {run.state or ('running' if run.launched_at else 'starting')}"))
    print()
    print(printable(yaml.safe_dump(body["definition"], sort_keys=False, allow_unicode=True)), end="")
    return None


def state_of(stored: StoredRun) -> str:
    """How people call it."""
    return "enabled" if stored.enabled else "disabled"


def _columns(now: datetime) -> list[Column[StoredRun]]:
    return [
        Column("run", lambda one: one.name),
        Column("dag", lambda one: one.dag_id),
        Column("state", state_of),
        Column("cron", lambda one: one.cron, lambda one: "" if one.cron is None else f"{one.cron} ({one.tz})"),
        Column("tz", lambda one: one.tz, lambda _: ""),
        Column("preservation", lambda one: one.preservation),
        Column("next run", lambda one: moment(one.next_run_at), lambda one: ago(one.next_run_at, now)),
    ]
