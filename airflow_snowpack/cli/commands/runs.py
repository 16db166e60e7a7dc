"""``airflow snowpack runs``: the registered runs."""

from argparse import Namespace
from collections.abc import Callable

import yaml

from airflow_snowpack.cli.changes import change_each, changing, confirm, deleting, discards
from airflow_snowpack.cli.context import CommandContext, command
from airflow_snowpack.cli.output import DATA, is_for_people, print_data, print_one, print_page, print_result, printable
from airflow_snowpack.cli.values import read_object
from airflow_snowpack.exit_code import ExitCode
from airflow_snowpack.humanize import ago
from airflow_snowpack.scheduling import PendingRun, RegisteredRun, StoredRun, read_runs, run_registered
from airflow_snowpack.wire.listing import cut
from airflow_snowpack.wire.run import RUNS, RegisteredRunShape, run_state
from airflow_snowpack.wire.schedule import PendingShape

LAUNCHES_SHOWN = 10
CONF_EXAMPLE = '{"days": 7}'


@command
def list_runs(args: Namespace, here: CommandContext) -> None:
    which = {"dag_id": args.dag, "enabled": args.enabled, "search": args.search, "after": args.cursor}
    shown, next_ = cut(here.registered_runs.list(**which, limit=args.limit + 1), args.limit, lambda stored: stored.name)
    filters = (args.dag, args.enabled is not None, args.search)
    print_page(args, RUNS, shown, next_, here.now, filters=filters)


@command
def show(args: Namespace, here: CommandContext) -> None:
    stored, now = here.registered_runs.get(args.run), here.now
    launched = read_runs(here.jobs.store, stored.name, limit=LAUNCHES_SHOWN)
    body = RegisteredRunShape.encode(stored)
    if not is_for_people(args.output):
        print_one(args.output, body, body)
        return
    fields = {
        "registered run": stored.name,
        "state": run_state(stored),
        "created": ago(stored.created_at, now),
        "changed": f"{ago(stored.updated_at, now)}" + (f" by {stored.updated_by}" if stored.updated_by else ""),
        "next run": ago(stored.next_run_at, now) or "by hand only",
    }
    print_one(args.output, body, fields)
    for run in launched:
        print(printable(f"  {run.run_id}  {run.state or ('running' if run.launched_at else 'starting')}"))
    print()
    print(printable(yaml.safe_dump(body["definition"], sort_keys=False, allow_unicode=True)), end="")


@command
def register(args: Namespace, here: CommandContext) -> None:
    run = _declared(args)
    _print_run(args, here.registered_runs.register(run), "registered")


@command
def upsert(args: Namespace, here: CommandContext) -> None:
    run = _declared(args)
    stored, became = changing(here.registered_runs.upsert, yes=args.yes)(run)
    _print_run(args, stored, became.value)


@command
def enable(args: Namespace, here: CommandContext) -> ExitCode | None:
    return _change(args, here.registered_runs.enable, run_state)


@command
def disable(args: Namespace, here: CommandContext) -> ExitCode | None:
    return _change(args, here.registered_runs.disable, run_state)


@command
def unregister(args: Namespace, here: CommandContext) -> ExitCode | None:
    names, runs = list(dict.fromkeys(args.runs)), here.registered_runs
    if not args.yes:
        confirm(f"Unregister {', '.join(names)}? {discards(names, here.schedules.waiting)}", yes=False)
    return _change(args, deleting(runs.get, runs.unregister), lambda _: "unregistered")


@command
def run(args: Namespace, here: CommandContext) -> None:
    conf = read_object("--conf", args.conf, CONF_EXAMPLE)
    print_started(args, run_registered(here.registered_runs, args.run, conf, args.preservation))


def print_started(args: Namespace, pending: PendingRun) -> None:
    print_result(args.output, f"{pending.dag_id} starts as {pending.run_id}.", PendingShape.encode(pending))


def _declared(args: Namespace) -> RegisteredRun:
    values = {name: getattr(args, name) for name in ("cron", "tz", "preservation", "enabled", "description")}
    return RegisteredRun(args.run, args.dag_id, read_object("--conf", args.conf, CONF_EXAMPLE), **values)


def _print_run(args: Namespace, stored: StoredRun, done: str) -> None:
    if args.output in DATA:
        print_data(args.output, RegisteredRunShape.encode(stored))
    elif is_for_people(args.output):
        print(f"{stored.name}  {done}, {run_state(stored)}")
    else:
        print(stored.name)


def _change(args: Namespace, change: Callable[[str], StoredRun], done: Callable[[StoredRun], str]) -> ExitCode:
    return change_each(args, dict.fromkeys(args.runs), change, done, RegisteredRunShape.encode)
