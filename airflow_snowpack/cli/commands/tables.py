"""``airflow snowpack tables``: the tables of the catalog, their health, and their next steps."""

from argparse import Namespace
from datetime import datetime

from airflow_snowpack.cli.changes import confirm, each
from airflow_snowpack.cli.context import CommandContext, command
from airflow_snowpack.cli.output import (
    DATA,
    filled,
    is_for_people,
    note,
    print_data,
    print_one,
    print_page,
    print_result,
    print_rows,
)
from airflow_snowpack.exit_code import ExitCode
from airflow_snowpack.humanize import ago, duration, number, percent, plural, size
from airflow_snowpack.iceberg import CatalogUnreachable, TableHealth, TableName, TableUnreadable, load_table
from airflow_snowpack.iceberg.description import describe_table
from airflow_snowpack.iceberg.health import score
from airflow_snowpack.inventory import Condition, InventoryState, forget_catalog
from airflow_snowpack.jobs import Job, JobFilter, TableExplanation, explain_tables
from airflow_snowpack.maintenance import table_list
from airflow_snowpack.wire.job import JOBS
from airflow_snowpack.wire.plan import DECISIONS, PLANS
from airflow_snowpack.wire.shape import seconds_since
from airflow_snowpack.wire.table import (
    PARTITIONS,
    SCORE_PARTS,
    TABLES,
    WORST_PARTITIONS,
    InventoryCountShape,
    InventoryShape,
    TableHealthShape,
)
from airflow_snowpack.wire.table_metadata import SNAPSHOTS, TableMetadataShape, fields_of, snapshots_after

LAST_JOBS = 5
LEFT_OUT_SHOWN = 5


@command
def list_tables(args: Namespace, here: CommandContext) -> None:
    state = here.inventory.state()
    if state.refreshed_at is None:
        state = here.inventory.refresh()
    found = table_list.list_tables(
        here.jobs,
        here.inventory,
        database=args.database,
        search=args.search,
        show=args.show and table_list.Show(args.show),
        order=table_list.Order(args.order),
        after=args.cursor,
        limit=args.limit,
    )
    now = here.now
    age = InventoryShape.encode(state, age_seconds=seconds_since(state.refreshed_at, now))
    filters, empty = (args.database, args.search, args.show), "The catalog has no tables."
    print_page(args, TABLES, found.items, found.next, now, filters=filters, empty=empty, **age)
    if args.output not in DATA:
        note(_age(state, now))


@command
def refresh(args: Namespace, here: CommandContext) -> None:
    state, now = here.inventory.refresh(), here.now
    body = InventoryCountShape.encode(state, age_seconds=seconds_since(state.refreshed_at, now))
    print_result(args.output, f"The catalog has {plural(state.tables, 'table')}.", body)


@command
def forget(args: Namespace, here: CommandContext) -> None:
    confirm(f"Forget where the tables of {args.catalog} have their files, and no longer protect these files?", yes=args.yes)
    tables = forget_catalog(here.installation.store, args.catalog, actor=here.actor)
    text = f"Forgot {plural(tables, 'table')} of {args.catalog}."
    print_result(args.output, text, {"catalog": args.catalog, "tables": tables})


@command
def show(args: Namespace, here: CommandContext) -> ExitCode | None:
    table = here.table(args.table)
    health, problem = _health(here, table)
    condition = Condition.of(score(health).total if health else None, problem)
    explained = explain_tables(here.jobs, [table], {table: condition.first_step})[table]
    last = here.jobs.page(JobFilter(table=table), limit=LAST_JOBS).items
    now = here.now
    if args.output in DATA:
        print_data(args.output, TableHealthShape.encode(explained, health=health, problem=problem))
    else:
        _print_table(args.output, explained, health, last, now)
    if problem is None:
        return None
    note(problem)
    return ExitCode.UNREACHABLE


@command
def plan(args: Namespace, here: CommandContext) -> ExitCode:
    planner, catalog = here.planner, here.inventory.catalog()
    tables = [here.table(name) for name in dict.fromkeys(args.tables)]
    plans, code = each(tables, lambda table: planner.plan(load_table(catalog, table), table))
    if args.output in DATA:
        print_data(args.output, PLANS.page(plans, None))
        return code
    for place, made in enumerate(plans):
        if args.output == "table":
            print("\n" * bool(place) + f"{made.table.dotted}: score {made.score} of 100")
        print_rows(args.output, DECISIONS.columns, made.decisions, here.now)
    return code


@command
def metadata(args: Namespace, here: CommandContext) -> ExitCode | None:
    table, problem = here.table(args.table), None
    try:
        found = describe_table(load_table(here.inventory.catalog(), table))
    except (CatalogUnreachable, TableUnreadable) as failure:
        found, problem = here.installation.health_records.described(table, failure), str(failure)
    shown, following = snapshots_after(found, args.cursor, args.limit)
    if args.output in DATA:
        print_data(args.output, TableMetadataShape.encode(found, snapshots=shown, next=following, problem=problem))
    else:
        if is_for_people(args.output):
            print_one(args.output, {}, filled(fields_of(found)))
            print()
        print_page(args, SNAPSHOTS, shown, following, here.now, empty="The table was never written: it has no snapshot.")
    if problem is None:
        return None
    note(f"{problem} The output is from the stored health.")
    return ExitCode.UNREACHABLE


def _health(here: CommandContext, table: TableName) -> tuple[TableHealth | None, str | None]:
    """Return the health, or why it cannot be read: the rest of the output does not need it."""
    try:
        return here.installation.read_health(table, load_table(here.inventory.catalog(), table)), None
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
    print_one(output, {}, filled(fields) | _health_fields(health, now))
    if output != "table":
        return
    if health is not None:
        print()
        print_rows(output, SCORE_PARTS.columns, list(score(health).parts), now)
    worst = [] if health is None else [each for each in health.partitions if each.label][:WORST_PARTITIONS]
    if worst:
        print()
        print_rows(output, PARTITIONS.columns, worst, now)
    if last:
        print()
        print_rows(output, [column for column in JOBS.columns if column.heading != "table"], last, now)


def _health_fields(health: TableHealth | None, now: datetime) -> dict[str, object]:
    if health is None:
        return {}
    totals, oldest = health.totals, health.oldest_snapshot_age(now)
    kinds = {"position": health.position_delete_files, "equality": health.equality_delete_files}
    kinds["deletion vectors"] = health.deletion_vectors
    deletes = ", ".join(f"{number(count)} {kind}" for kind, count in kinds.items() if count)
    return {
        "score": f"{score(health).total} of 100, from metadata read {ago(health.read_at, now)}",
        "rows": number(totals.records),
        "data files": f"{number(totals.data_files)}, {size(health.bytes)}",
        "small files": f"{number(health.small_files)} ({percent(health.small_files_ratio)}), {size(health.small_bytes)}",
        "delete files": number(totals.delete_files) + (f" ({deletes})" if totals.delete_files else ""),
        "manifests": f"{number(totals.manifests)}, {size(health.manifests_bytes)}",
        "snapshots": number(totals.snapshots) + (f", the oldest {duration(oldest)} old" if oldest is not None else ""),
        "location": health.location,
    }


def _age(state: InventoryState, now: datetime) -> str:
    listed = f"The catalog was listed {ago(state.refreshed_at, now)}; `airflow snowpack tables refresh` lists it again."
    lines = [listed] if state.problem is None else [listed, f"The last listing failed: {state.problem}"]
    if state.left_out:
        named = ", ".join(repr(each.name) for each in state.left_out[:LEFT_OUT_SHOWN])
        more = f" and {state.left_out_count - LEFT_OUT_SHOWN} more" if state.left_out_count > LEFT_OUT_SHOWN else ""
        lines.append(f"Not listed: {named}{more}. {'; '.join(sorted({each.reason for each in state.left_out}))}.")
    return "\n".join(lines)
