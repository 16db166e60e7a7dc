"""``airflow snowpack schedules sync``: bring the store in line with the files that declare schedules, as a step of deployment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from airflow_snowpack.api import schedule_bodies as bodies
from airflow_snowpack.cli.errors import UnreadableFile
from airflow_snowpack.cli.opened import opened
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import is_for_people, print_one, say

if TYPE_CHECKING:
    from argparse import Namespace

    from airflow_snowpack.cli.exit_code import ExitCode
    from airflow_snowpack.scheduling import Schedule, SyncReport
    from airflow_snowpack.settings import Settings


@ends_cleanly
def sync(args: Namespace) -> ExitCode | None:
    """``schedules sync``"""
    from airflow_snowpack.scheduling import plan_sync
    from airflow_snowpack.scheduling import sync as bring_in_line

    with opened(args) as here:
        declared = _declared(args.paths, here.settings)
        update = here.settings.update_schedules if args.update_schedules is None else args.update_schedules
        work = plan_sync if args.dry_run else bring_in_line
        report = work(here.schedules, declared, update=update, gone_dags=_gone_dags())
    if is_for_people(args.output):
        print(_told(report, dry_run=args.dry_run))
    else:
        body = bodies.sync_body(report)
        print_one(args.output, body, {name: ",".join(names) for name, names in body.items()})
    return None


def _declared(paths: list[str], settings: Settings) -> list[Schedule]:
    """The schedules of the files and folders that were given, or of the DAGs folder; one that stands in two of them, once.

    :raises UnreadableFile: there is no such file.
    :raises InvalidSchedule: a file declares something that is no schedule.
    """
    from airflow_snowpack.hooks.scheduling import dags_folder
    from airflow_snowpack.scheduling import collect

    found: list[Schedule] = []
    for path in [Path(path) for path in paths] or [dags_folder()]:
        if not path.exists():
            raise UnreadableFile(str(path), "it does not exist")
        declared = collect(path, settings.schedule_files) if path.is_dir() else _of_file(path)
        found += [schedule for schedule in declared if schedule not in found]
    return found


def _of_file(path: Path) -> list[Schedule]:
    from airflow_snowpack.scheduling.collecting import PYTHON, load_module
    from airflow_snowpack.scheduling.files import load_schedules

    return load_module(path, path.parent) if path.suffix == PYTHON else load_schedules(path)


def _gone_dags() -> set[str]:
    """Those that Airflow knows to be gone; none when its database does not tell. A file that does not parse will be mended."""
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import select
    from sqlalchemy.exc import SQLAlchemyError

    try:
        with create_session() as session:
            gone = DagModel.is_stale.is_(True), DagModel.has_import_errors.is_(False)
            return set(session.scalars(select(DagModel.dag_id).where(*gone)))
    except SQLAlchemyError:
        say("Airflow's database does not tell which DAGs there are, so no schedule goes with its DAG.")
        return set()


def _told(report: SyncReport, *, dry_run: bool) -> str:
    would = "Would be " if dry_run else ""
    done = [
        f"{would}{said if dry_run else said.capitalize()}: {', '.join(names)}."
        for said, names in (("created", report.created), ("changed", report.updated), ("deleted", report.deleted))
        if names
    ]
    if report.left:
        done.append(f"Left as they are, though the files differ: {', '.join(report.left)}.")
    return "\n".join(done) or "The store and the files agree."
