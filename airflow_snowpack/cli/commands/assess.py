"""``airflow snowpack tables assess``: what is wrong with the tables of a catalog, from metadata alone. It needs no store.

:func:`assess_catalog` is the same without Airflow, for ``snowpack assess``.
"""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import DATA, none_of, note, print_data, print_rows
from airflow_snowpack.cli.progress import ProgressLine
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.exit_code import ExitCode
from airflow_snowpack.humanize import join, number, plural, size
from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.iceberg.listing import LeftOut, list_tables
from airflow_snowpack.maintenance.assessment import Assessment, ResumeFile, Walk
from airflow_snowpack.maintenance.assessment.model import State
from airflow_snowpack.maintenance.policies import Policies
from airflow_snowpack.wire.assessment import ASSESSED, UNREADABLE, AssessmentShape

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


ANSWER_WITHIN = timedelta(minutes=1)
"""How long a REST catalog may take for each answer. The metadata of a table with many snapshots is large."""
RESUME_FILE = "snowpack-assess.resume"


@ends_cleanly
def assess(args: Namespace) -> ExitCode | None:
    from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
    from airflow_snowpack.hooks.store import SnowpackHook

    policies = Policies.load(Path(args.policies)) if args.policies else SnowpackHook().policies()
    return assess_catalog(args, IcebergCatalogHook(args.catalog_conn_id).config, policies)


def assess_catalog(args: Namespace, catalog: CatalogConfig, policies: Policies) -> ExitCode | None:
    """Assess the tables that the arguments name, and print the report.

    :param args: of the command.
    """
    left_out: list[LeftOut] = []
    load = partial(catalog.load, limit=ANSWER_WITHIN)
    tables = named_tables(catalog, load(), args, left_out)
    resume = ResumeFile.open(_resume_path(args), catalog.catalog_id)
    walk = Walk(load, policies, partial(datetime.now, UTC), concurrency=args.concurrency, old_snapshots=args.old_snapshots)
    try:
        with ProgressLine("tables", len(tables)) as line:
            found = walk.assess(catalog.name, tables, progress=line.advance, resume=resume)
    except (SnowpackError, KeyboardInterrupt):
        note(f"What was read is in {resume.path}. Run the same command again to go on from there.")
        raise
    _report(args, replace(found, left_out={each.name: each.reason for each in left_out}))
    if not args.resume:
        resume.delete()
    return ExitCode.REFUSED if found.rows and all(row.problem for row in found.rows) else None


def named_tables(config: CatalogConfig, catalog: Catalog, args: Namespace, left_out: list[LeftOut]) -> list[TableName]:
    """Return the tables that the arguments name, or all of the catalog.

    :param catalog: of the configuration, with a limit for each answer.
    :param left_out: gets what the listing cannot have.
    """
    if args.tables:
        given = dict.fromkeys(args.tables)
        return [TableName.parse(each, catalog=config.name, catalog_id=config.catalog_id) for each in given]

    def matches(name: str) -> bool:
        return args.database in (None, name.rpartition(".")[0]) and (args.search or "").lower() in name.lower()

    listed = list_tables(catalog, config.name, left_out)
    tables = sorted((each for each in listed if matches(each.dotted)), key=lambda each: each.dotted)
    left_out[:] = [each for each in left_out if matches(each.name)]
    return tables


def _resume_path(args: Namespace) -> Path:
    if args.resume:
        return Path(args.resume)
    return Path(f"{args.html}.resume") if args.html else Path(RESUME_FILE)


def _report(args: Namespace, found: Assessment) -> None:
    summary, nothing = summary_of(found), _nothing(args, found)
    if args.html:
        from airflow_snowpack.cli.reports import assessment_page, write

        write(Path(args.html), assessment_page(found, summary, nothing))
    if args.output in DATA:
        print_data(args.output, AssessmentShape.encode(found))
    else:
        unreadable = found.of(State.UNREADABLE)
        print_rows(args.output, ASSESSED.columns, found.in_need[: args.limit], found.made_at, empty=nothing)
        if unreadable:
            print()
            print_rows(args.output, UNREADABLE.columns, unreadable, found.made_at)
    note(summary)
    for name, reason in found.left_out.items():
        note(f"{name} was not assessed: {reason}")
    if len(found.in_need) > args.limit and args.output not in DATA:
        note(f"{plural(len(found.in_need) - args.limit, 'more table')} in need: raise --limit, or use --html or --output json.")
    if args.html:
        note(f"The report is in {args.html}.")


def _nothing(args: Namespace, found: Assessment) -> str:
    if not found.rows:
        return none_of("tables", filters=(args.database, args.search), empty="The catalog has no tables.")
    return "No table needs maintenance." if not all(row.problem for row in found.rows) else "No table could be read."


def summary_of(found: Assessment) -> str:
    unreadable = len(found.of(State.UNREADABLE))
    need = "needs" if 1 in (len(found.in_need), len(found.rows)) else "need"
    tables = f"{number(len(found.in_need))} of {plural(len(found.rows), 'table')} {need} maintenance"
    if unreadable:
        tables += f", and {number(unreadable)} cannot be read"
    if not found.in_need:
        return f"{tables}."
    counts = ((found.files_saved, found.files, "file"), (found.manifests_saved, found.manifests, "manifest"))
    few = [f"{number(saved)} of {plural(before, noun)}" for saved, before, noun in counts if saved]
    saved = [f"save {join(few)}"] if few else []
    freed = [f"free {size(found.estimate.bytes_freed)}"] if found.estimate.bytes_freed else []
    rewritten = f"rewrite {size(found.estimate.bytes_rewritten)}" if found.estimate.bytes_rewritten else "rewrite no data file"
    unknown = "" if found.old_snapshots else " What expiring snapshots would free was not read."
    return f"{tables}. Maintenance would {join([*saved, *freed, rewritten])}.{unknown}"
