"""``airflow snowpack policies``: the policy of a table with its reasons, and the problems of the policies file."""

import json
from argparse import Namespace
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from airflow_snowpack.cli.context import CommandContext, command
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import DATA, filled, is_for_people, note, print_data, print_one, print_rows, printable
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.exit_code import ExitCode
from airflow_snowpack.humanize import plural
from airflow_snowpack.iceberg import CatalogUnreachable, TableName, TableUnreadable, load_table
from airflow_snowpack.iceberg.table_properties import owner_properties
from airflow_snowpack.maintenance.policies import InvalidPolicies, Policies, TableFacts, lint, policies_schema, values_of
from airflow_snowpack.wire.policy import FINDINGS, VALUES, PolicyFindingShape, TablePolicyShape

PARALLEL_READS = 8
"""Tables that are read from the catalog at once."""
PAGE = 1000


@command
def explain(args: Namespace, here: CommandContext) -> ExitCode | None:
    unread, now = None, datetime.now(UTC)
    policies, table = _policies(here, args), here.table(args.table)
    try:
        loaded = load_table(here.inventory.catalog(), table)
        facts = TableFacts(table, owner_properties(loaded), loaded.schema())
    except (CatalogUnreachable, TableUnreadable) as problem:
        facts, unread = TableFacts(table), problem
    policy = policies.of(table, facts.properties)
    values = values_of(policy)
    if args.output in DATA:
        print_data(args.output, TablePolicyShape.encode(policy, values=values))
    else:
        if is_for_people(args.output):
            print_one(args.output, {}, filled({"table": table.dotted, "no maintenance": policy.skip}))
        print_rows(args.output, VALUES.columns, values, now)
    for finding in lint(policies, [facts], now=now):
        if finding.where == table.dotted:
            note(printable(f"Problem: {finding.message}"))
    if unread is None:
        return None
    note(f"{unread} These are the values without the table's properties.")
    return ExitCode.UNREACHABLE


@command
def check(args: Namespace, here: CommandContext) -> ExitCode | None:
    now = datetime.now(UTC)
    tables: list[TableFacts] = []
    try:
        policies = _policies(here, args)
    except InvalidPolicies as invalid:
        found = [*invalid.faults]
    else:
        tables = [] if args.no_catalog else list(_tables(here, stored=args.stored))
        found = lint(policies, tables, now=now)
    if args.output in DATA:
        print_data(args.output, {"tables": len(tables), "problems": [PolicyFindingShape.encode(each) for each in found]})
    elif is_for_people(args.output):
        fine = "The policies have no problems" + ("." if args.no_catalog else f" on {plural(len(tables), 'table')}.")
        print(printable("\n".join(map(str, found)) or fine))
    else:
        print_rows(args.output, FINDINGS.columns, found, now)
    return ExitCode.REFUSED if found else None


@ends_cleanly
def schema(args: Namespace) -> None:
    print(json.dumps(policies_schema(), indent=2))


def _policies(here: CommandContext, args: Namespace) -> Policies:
    return here.policies if args.policies is None else Policies.load(Path(args.policies))


def _tables(here: CommandContext, *, stored: bool) -> Iterator[TableFacts]:
    """Yield the facts of all tables of the catalog; with ``stored``, from their stored health where there is one."""
    here.inventory.refresh()
    names = list(_names(here))
    records = here.installation.health_records.get(names) if stored else {}
    known = {name: record.health for name, record in records.items() if record.health is not None}
    yield from (TableFacts(name, health.properties) for name, health in known.items())
    here.inventory.catalog()  # one connection for all threads
    with ThreadPoolExecutor(PARALLEL_READS, "snowpack-lint") as pool:
        yield from pool.map(partial(_read, here), [name for name in names if name not in known])


def _names(here: CommandContext) -> Iterator[TableName]:
    after = None
    while page := here.inventory.tables(after=after, limit=PAGE):
        yield from page
        after = page[-1].dotted


def _read(here: CommandContext, name: TableName) -> TableFacts:
    try:
        loaded = load_table(here.inventory.catalog(), name)
    except SnowpackError as problem:
        return TableFacts(name, problem=str(problem))
    return TableFacts(name, owner_properties(loaded), loaded.schema())
