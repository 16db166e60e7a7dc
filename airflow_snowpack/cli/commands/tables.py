"""``airflow snowpack tables list|show|refresh``: which tables there are, how they are, and what comes next for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from airflow_snowpack.api import bodies
from airflow_snowpack.cli.commands.jobs import job_columns
from airflow_snowpack.cli.exit_code import ExitCode
from airflow_snowpack.cli.job_id import short_id
from airflow_snowpack.cli.opened import opened
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import Column, is_for_people, none_of, print_data, print_one, print_rows, say, status_text
from airflow_snowpack.humanize import ago, duration, size

if TYPE_CHECKING:
    from argparse import Namespace
    from datetime import datetime

    from airflow_snowpack.cli.opened import Opened
    from airflow_snowpack.iceberg import PartitionHealth, TableHealth, TableName
    from airflow_snowpack.inventory import InventoryState
    from airflow_snowpack.jobs import Job, TableExplanation

LAST_JOBS = 5
LEFT_OUT_SHOWN = 5
WORST_PARTITIONS = 10


@ends_cleanly
def list_tables(args: Namespace) -> ExitCode | None:
    """``tables list``"""
    from airflow_snowpack.jobs import explain_tables

    with opened(args) as here:
        state = here.inventory.state()
        if state.refreshed_at is None:
            state = here.inventory.refresh()
        names = here.inventory.tables(database=args.database, search=args.search, after=args.after, limit=args.limit + 1)
        shown, now = names[: args.limit], here.now
        found = [*explain_tables(here.jobs, shown).values()]
    after = shown[-1].dotted if len(names) > args.limit else None
    if args.output in ("json", "yaml"):
        tables = [bodies.table_body(each) for each in found]
        print_data(args.output, {"tables": tables, **bodies.inventory_body(state, now), "next": after})
        return None
    filters = (args.database, args.search)
    empty = none_of("tables", filters=filters, after=args.after, empty="The catalog has no tables.")
    print_rows(args.output, found, table_columns(now), empty=empty)
    say(_age(state, now))
    if after is not None:
        say(f"There are more: --after {after} goes on.")
    return None


@ends_cleanly
def refresh(args: Namespace) -> ExitCode | None:
    """``tables refresh``"""
    with opened(args) as here:
        state, now = here.inventory.refresh(), here.now
    if is_for_people(args.output):
        print(f"The catalog has {state.tables} table{'' if state.tables == 1 else 's'}.")
    else:
        print_one(args.output, body := {"tables": state.tables, **bodies.inventory_body(state, now)}, body)
    return None


@ends_cleanly
def show(args: Namespace) -> ExitCode | None:
    """``tables show``"""
    from airflow_snowpack.jobs import JobFilter, explain_tables

    with opened(args) as here:
        table = here.table(args.table)
        health, problem = _health(here, table)
        explained = explain_tables(here.jobs, [table])[table]
        last = here.jobs.page(JobFilter(table=table), limit=LAST_JOBS).items
        now = here.now
    if args.output in ("json", "yaml"):
        body = None if health is None else bodies.health_body(health)
        print_data(args.output, {**bodies.table_body(explained), "health": body, "problem": problem})
    else:
        _print_table(args.output, explained, health, last, now)
    if problem is None:
        return None
    say(problem)
    return ExitCode.UNREACHABLE


def table_columns(now: datetime) -> list[Column[TableExplanation]]:
    """A table in a list."""
    return [
        Column("table", lambda each: each.table.dotted),
        Column(
            "last job", lambda each: None if each.last is None else each.last.status.value, lambda each: _last(each.last, now)
        ),
        Column("locked by", lambda each: None if each.lock is None else each.lock.holder, _holder),
        Column("next step", lambda each: str(each.next_step)),
    ]


def _health(here: Opened, table: TableName) -> tuple[TableHealth | None, str | None]:
    """The numbers; without them, why: what the store knows can be told all the same.

    :raises TableNotFound: the catalog answers, and has no such table.
    """
    from airflow_snowpack.iceberg import CatalogUnreachable, TableUnreadable, load_table, read_health

    try:
        return read_health(load_table(here.inventory.catalog(), table), now=here.now), None
    except (CatalogUnreachable, TableUnreadable) as problem:
        return None, str(problem)


def _print_table(
    output: str, explained: TableExplanation, health: TableHealth | None, last: tuple[Job, ...], now: datetime
) -> None:
    lock = explained.lock
    fields: dict[str, object] = {
        "table": explained.table.dotted,
        "next step": str(explained.next_step),
        "locked by": None if lock is None else f"{lock.holder}, {ago(lock.acquired_at, now)}",
    }
    print_one(output, {}, {**{name: value for name, value in fields.items() if value}, **_health_fields(health)})
    if output != "table":
        return
    worst = [] if health is None else [each for each in health.partitions if each.label][:WORST_PARTITIONS]
    if worst:
        print()
        print_rows(output, worst, PARTITION_COLUMNS, empty="")
    if last:
        print()
        print_rows(output, last, [column for column in job_columns(now) if column.heading != "table"], empty="")


def _health_fields(health: TableHealth | None) -> dict[str, object]:
    if health is None:
        return {}
    numbers, oldest = health.numbers, health.oldest_snapshot_age
    deletes = f"{health.position_delete_files} with positions, {health.equality_delete_files} with equalities"
    return {
        "rows": f"{numbers.records:,}",
        "data files": f"{numbers.data_files:,}, {size(health.data_bytes)}",
        "small files": f"{health.small_files:,} ({health.small_files_ratio:.0%}), {size(health.small_files_bytes)}",
        "delete files": f"{numbers.delete_files:,}" + (f" ({deletes})" if numbers.delete_files else ""),
        "manifests": f"{numbers.manifests:,}, {size(health.manifests_bytes)}",
        "snapshots": f"{numbers.snapshots:,}" + (f", the oldest {duration(oldest)} old" if oldest is not None else ""),
        "location": health.location,
    }


PARTITION_COLUMNS: list[Column[PartitionHealth]] = [
    Column("partition", lambda each: each.label),
    Column("data files", lambda each: each.data_files),
    Column("small files", lambda each: each.small_files),
    Column("delete files", lambda each: each.delete_files),
    Column("bytes", lambda each: each.bytes, lambda each: size(each.bytes)),
]


def _last(job: Job | None, now: datetime) -> Text:
    if job is None:
        return Text("never", "dim")
    return status_text(job.status.value).append(f" {ago(job.completed_at or job.started_at or job.submitted_at, now)}")


def _holder(explained: TableExplanation) -> str:
    lock, last = explained.lock, explained.last
    if lock is None:
        return ""
    return f"job {short_id(lock.holder)}" if last is not None and lock.holder == last.job_id else lock.holder


def _age(state: InventoryState, now: datetime) -> str:
    listed = f"As the catalog was listed {ago(state.refreshed_at, now)}; `airflow snowpack tables refresh` lists it now."
    lines = [listed] if state.problem is None else [listed, f"The last try failed: {state.problem}"]
    if state.left_out:
        named = ", ".join(repr(each.name) for each in state.left_out[:LEFT_OUT_SHOWN])
        more = f" and {state.left_out_count - LEFT_OUT_SHOWN} more" if state.left_out_count > LEFT_OUT_SHOWN else ""
        lines.append(f"Not listed: {named}{more}. {'; '.join(sorted({each.reason for each in state.left_out}))}.")
    return "\n".join(lines)
