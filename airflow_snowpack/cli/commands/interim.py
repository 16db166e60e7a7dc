"""``airflow snowpack interim list|show``: the tables that tasks hand to each other, and why each of them is still there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from airflow_snowpack.api.bodies import moment
from airflow_snowpack.api.interim_bodies import interim_body
from airflow_snowpack.cli.opened import opened
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import Column, none_of, print_data, print_one, print_rows, say
from airflow_snowpack.humanize import ago

if TYPE_CHECKING:
    from argparse import Namespace
    from datetime import datetime

    from airflow_snowpack.cli.exit_code import ExitCode
    from airflow_snowpack.interim.model import InterimTable

PROGRAMS = ("json", "yaml")
STYLES = {"writing": "cyan", "dropping": "magenta"}


@ends_cleanly
def list_interim(args: Namespace) -> ExitCode | None:
    """``interim list``"""
    from airflow_snowpack.interim.model import TableState

    with opened(args) as here:
        state = None if args.state is None else TableState(args.state)
        page = here.interim.page(dag_id=args.dag, run_id=args.run_id, state=state, limit=args.limit, after=args.cursor)
        now = here.now
    if args.output in PROGRAMS:
        print_data(args.output, {"tables": [interim_body(table, now) for table in page.items], "next": page.next})
        return None
    empty = none_of("interim tables", filters=(args.dag, args.run_id, args.state), after=args.cursor)
    print_rows(args.output, page.items, _columns(now), empty=empty)
    if page.next is not None:
        say(f"There are more: --cursor {page.next} goes on.")
    return None


@ends_cleanly
def show(args: Namespace) -> ExitCode | None:
    """``interim show``"""
    with opened(args) as here:
        table, now = here.interim.table(args.interim_table), here.now
    body = interim_body(table, now)
    fields: dict[str, object] = {
        "table": str(table.table),
        "id": table.table_id,
        "state": _state(table),
        "made by": f"{table.producer} (try {table.try_number})",
        "begun": ago(table.created_at, now),
        **({"handed on": ago(table.ready_at, now)} if table.ready_at else {}),
        **({"rows": f"{table.rows:,}"} if table.rows is not None else {}),
        **({"name": f"{table.name} ({table.scope.value})"} if table.name and table.scope else {}),
        "preserved": _preserved(table, now),
        **({"needed by": ", ".join(table.pins)} if table.pins else {}),
        **({"open in": f"{table.readers} readings"} if table.readers else {}),
        "outlook": body["outlook"],
        **({"looked at": ago(table.check_at, now)} if table.check_at else {}),
        "because": "\n".join(body["because"]),
    }
    print_one(args.output, body, fields)
    return None


def _columns(now: datetime) -> list[Column[InterimTable]]:
    return [
        Column("table", lambda table: table.table, lambda table: table.table.table),
        Column("state", lambda table: table.state.value, _state),
        Column("made by", lambda table: table.producer),
        Column("rows", lambda table: table.rows, lambda table: "" if table.rows is None else f"{table.rows:,}"),
        Column("begun", lambda table: moment(table.created_at), lambda table: ago(table.created_at, now)),
        Column("needed by", lambda table: ",".join(table.pins), _needed_by),
        Column("readers", lambda table: table.readers, lambda table: str(table.readers or "")),
        Column("preserved", lambda table: table.preservation.value, lambda table: _kept(table, now)),
        Column("outlook", lambda table: interim_body(table, now)["outlook"]),
    ]


def _state(table: InterimTable) -> Text:
    style = "bold red" if table.error else STYLES.get(table.state.value, "green")
    return Text(f"{table.state.value}{', failed' if table.error else ''}", style)


def _needed_by(table: InterimTable) -> str:
    """The tasks alone: whose DAG run it is stands beside it."""
    return ", ".join(pin.rpartition("/")[2] for pin in table.pins[:3]) + (" …" if len(table.pins) > 3 else "")


def _preserved(table: InterimTable, now: datetime) -> str:
    if table.preservation.value == "NONE":
        return "no"
    return "until somebody lets go of it" if table.expires_at is None else f"until {ago(table.expires_at, now)}"


def _kept(table: InterimTable, now: datetime) -> str:
    return "" if table.preservation.value == "NONE" else (ago(table.expires_at, now) or "yes")
