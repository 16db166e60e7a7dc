"""``airflow snowpack events`` and ``pending``: the log of events, custom events, and pending runs."""

from argparse import Namespace

from airflow_snowpack.cli.context import CommandContext, command
from airflow_snowpack.cli.errors import UsageProblem
from airflow_snowpack.cli.output import print_page, print_result
from airflow_snowpack.cli.values import read_object
from airflow_snowpack.scheduling import EventLog, PendingQueue, PendingState, check_scheduler, send_event
from airflow_snowpack.wire.listing import cut
from airflow_snowpack.wire.schedule import EVENTS, PENDING, RecordedEventShape


@command
def list_events(args: Namespace, here: CommandContext) -> None:
    found = EventLog(here.jobs.store).latest(args.key, before=args.cursor, limit=args.limit + 1)
    shown, next_ = cut(found, args.limit, lambda recorded: recorded.id)
    print_page(args, EVENTS, shown, next_, here.now, filters=(args.key,))


@command
def send(args: Namespace, here: CommandContext) -> None:
    amounts, detail = _amounts(args.amount or []), read_object("--detail", args.detail, '{"batch": "2026-11-21"}')
    sent = send_event(here.jobs.store, here.actor, args.name, amounts, detail, source_id=args.source_id)
    text = f"{sent.recorded.event.key} is event {sent.recorded.id}" + (", which was sent before." if sent.again else ".")
    findings = check_scheduler(here.jobs.store)  # nothing counts the event before one is started
    print_result(args.output, "\n".join([text, *map(str, findings)]), RecordedEventShape.encode(sent.recorded))


@command
def list_pending(args: Namespace, here: CommandContext) -> None:
    states = [PendingState(state) for state in args.state or ()]
    page = PendingQueue(here.jobs.store).page(states=states, schedule=args.of_schedule, after=args.cursor, limit=args.limit)
    filters = (args.state, args.of_schedule)
    print_page(args, PENDING, page.items, page.next, here.now, filters=filters, empty="No runs are pending.")


def _amounts(given: list[str]) -> dict[str, int]:
    amounts = {}
    for each in given:
        name, _, number = each.partition("=")
        if not name or not (number.isascii() and number.isdecimal()):
            raise UsageProblem(f"--amount {each!r} is not a name with a whole number, such as records=900.")
        amounts[name] = int(number)
    return amounts
