"""Which files declare schedules, for the commands that read them: those that are named, or all of the DAGs folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from airflow_snowpack.cli.errors import UnreadableFile

if TYPE_CHECKING:
    from airflow_snowpack.scheduling import Schedule
    from airflow_snowpack.settings import Settings


def declared_in(paths: list[str], settings: Settings) -> list[Schedule]:
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
    from airflow_snowpack.scheduling.files import PYTHON, load_module, load_schedules

    return load_module(path, path.parent) if path.suffix == PYTHON else load_schedules(path)
