"""``airflow snowpack schedules sync|check``: schedules that are declared in files, as steps of deployment and CI."""

import sys
from argparse import Namespace
from collections.abc import Collection
from contextlib import redirect_stdout
from functools import cache, partial
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from airflow_snowpack.airflow_versions import dag_bags
from airflow_snowpack.assets import condition_leaves
from airflow_snowpack.cli.context import CommandContext, command
from airflow_snowpack.cli.errors import UnreadableFile
from airflow_snowpack.cli.output import DATA, is_for_people, log_to_stderr, note, print_data, print_result, print_rows
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.exit_code import ExitCode
from airflow_snowpack.hooks.dag_files import dags_folder
from airflow_snowpack.hooks.iceberg_catalog import reach_catalog
from airflow_snowpack.humanize import plural
from airflow_snowpack.scheduling import (
    Schedule,
    SourceFinding,
    SyncReport,
    check_scheduler,
    check_sources,
    collect,
    load_schedules,
    named_assets,
    named_dags,
    plan_sync,
    sync as bring_in_line,
)
from airflow_snowpack.scheduling.sources.source import read_unreadable
from airflow_snowpack.settings import Settings
from airflow_snowpack.wire.schedule import FINDINGS, FindingShape, SyncShape


@command
def check(args: Namespace, here: CommandContext) -> ExitCode | None:
    log_to_stderr()
    declared = declared_in(args.paths, here.settings)
    known, _ = dags_of_airflow()
    dags, assets = named_dags(declared) - known, named_assets(declared)
    assets -= _assets_of_airflow(assets)
    if dags or assets:
        dags_of_files, assets_of_files = _declared_by_dag_files()
        dags, assets = dags - dags_of_files, assets - assets_of_files
    findings = find_problems(args, here, declared, dags, assets)
    now = here.now
    if args.output in DATA:
        print_data(args.output, {"problems": [FindingShape.encode(finding) for finding in findings]})
    elif is_for_people(args.output):
        fine = f"The sources of {plural(len(declared), 'schedule')} have no problems."
        print("\n".join(str(finding) for finding in findings) or fine)
    else:
        print_rows(args.output, FINDINGS.columns, findings, now)
    return ExitCode.REFUSED if findings else None


def find_problems(
    args: Namespace,
    here: CommandContext,
    declared: list[Schedule],
    missing_dags: Collection[str],
    missing_assets: Collection[str] = (),
) -> list[SourceFinding]:
    """Return the problems of the sources of these schedules, and of the scheduler."""
    store = here.schedules.store
    load = cache(partial(reach_catalog, args.catalog_conn_id))
    name, now = here.settings.catalog_name, store.clock()
    missing = {"missing_dags": missing_dags, "missing_assets": missing_assets}
    found = check_sources(declared, catalog_name=name, load_catalog=load, **missing, unreadable=read_unreadable(store), now=now)
    return found + check_scheduler(store)


def dags_of_airflow() -> tuple[set[str], set[str]]:
    """Return the DAGs in Airflow's database, and those that were deleted; none when it does not answer.

    A DAG whose file does not parse exists: its author will fix it.
    """
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    try:
        with create_session() as session:
            rows = session.execute(select(DagModel.dag_id, DagModel.is_stale, DagModel.has_import_errors)).all()
    except SQLAlchemyError:
        note("Airflow's database does not answer, so whether DAGs exist is only read from the DAG files.")
        return set(), set()
    gone = {row.dag_id for row in rows if row.is_stale and not row.has_import_errors}
    return {row.dag_id for row in rows} - gone, gone


def _assets_of_airflow(uris: Collection[str]) -> set[str]:
    """Return those of these assets that DAGs in Airflow's database declare; none when it does not answer."""
    from airflow.models.asset import AssetActive
    from airflow.utils.session import create_session

    try:
        with create_session() as session:
            return set(session.scalars(select(AssetActive.uri).where(AssetActive.uri.in_(uris))))
    except SQLAlchemyError:
        return set()


def _declared_by_dag_files() -> tuple[set[str], set[str]]:
    """Return the DAGs of the DAGs folder, and the URIs of their assets: in CI, Airflow's database does not have new ones yet."""
    from airflow.sdk import Asset

    with redirect_stdout(sys.stderr):  # what DAG files print is not the output of this command
        dags = dag_bags().DagBag(dag_folder=dags_folder()).dags
    named = [each for dag in dags.values() for each in condition_leaves(dag.timetable.asset_condition)]
    named += [each for dag in dags.values() for task in dag.tasks for each in (*task.inlets, *task.outlets)]
    return set(dags), {each.uri for each in named if isinstance(each, Asset)}


@command
def sync(args: Namespace, here: CommandContext) -> None:
    declared = declared_in(args.paths, here.settings)
    update = here.settings.update_schedules if args.update_schedules is None else args.update_schedules
    work = plan_sync if args.dry_run else bring_in_line
    _, gone = dags_of_airflow()
    report = work(here.schedules, declared, update=update)
    findings = _warnings(args, here, declared, gone)
    for finding in findings:
        note(f"Warning: {finding}")
    body = SyncShape.encode(report)
    fields = {name: ",".join(value) if isinstance(value, list) else value for name, value in body.items()}
    problems = [FindingShape.encode(finding) for finding in findings]
    print_result(args.output, _summary(report, dry_run=args.dry_run), body | {"problems": problems}, fields)


def _warnings(args: Namespace, here: CommandContext, declared: list[Schedule], gone: set[str]) -> list[SourceFinding]:
    """Return the problems of the sources. A failed check does not fail the deployment, which is done."""
    try:
        return find_problems(args, here, declared, gone)
    except SnowpackError as problem:
        note(f"Warning: the sources of the schedules were not checked. {problem}")
        return []


def _summary(report: SyncReport, *, dry_run: bool) -> str:
    would = "Would be " if dry_run else ""
    done = [
        f"{would}{change if dry_run else change.capitalize()}: {', '.join(names)}."
        for change, names in (("created", report.created), ("changed", report.updated), ("deleted", report.deleted))
        if names
    ]
    if report.discards:
        done.append(f"{plural(report.discards, 'event')} that waited {'would be' if dry_run else 'were'} discarded.")
    if report.left:
        done.append(f"Not changed, although the files differ: {', '.join(report.left)}.")
    return "\n".join(done) or "The store and the files agree."


def declared_in(paths: list[str], settings: Settings) -> list[Schedule]:
    """Return the schedules of these files and folders, or of the DAGs folder; each only once."""
    found: list[Schedule] = []
    for path in [Path(path) for path in paths] or [dags_folder()]:
        if not path.exists():
            raise UnreadableFile(str(path), "it does not exist")
        declared = collect(path, settings.schedule_files) if path.is_dir() else load_schedules(path)
        found += [schedule for schedule in declared if schedule not in found]
    return found
