"""Finds the schedules that files declare: YAML files, and Python files such as DAG files.

    declared = collect(dags_folder, ["**/schedules.yaml", "snowpack_schedules.py"])

A Python file is run as Airflow runs DAG files, and gives the schedules that it has at its top level: as single names, or in lists
and tuples. The invariant: everything or nothing. A file that cannot be read is an error, since the schedules that it declares
would otherwise look as if they had been removed.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from airflow_snowpack.scheduling.errors import InvalidSchedule
from airflow_snowpack.scheduling.files import load_schedules
from airflow_snowpack.scheduling.schedule import Schedule

YAML = (".yaml", ".yml")
PYTHON = ".py"


def collect(root: Path, patterns: Iterable[str]) -> list[Schedule]:
    """The schedules of all files below a folder that one of the patterns fits.

    :param patterns: such as ``**/schedules.yaml``, relative to the folder.
    :raises InvalidSchedule: a file cannot be read, or declares something that is no schedule.
    """
    found: list[Schedule] = []
    for file in find_files(root, patterns):
        for schedule in load_schedules(file) if file.suffix in YAML else load_module(file, root):
            if schedule not in found:  # one that a file imports from another is the same one
                found.append(schedule)
    return found


def find_files(root: Path, patterns: Iterable[str]) -> list[Path]:
    """The files that the patterns fit, each one once, in the order of their names."""
    fitting = {file for pattern in patterns for file in root.glob(pattern)}
    return sorted(file for file in fitting if file.is_file() and file.suffix in (*YAML, PYTHON))


def load_module(file: Path, root: Path) -> list[Schedule]:
    """The schedules at the top level of a Python file.

    :param root: where it may import from, as DAG files import from their folder.
    :raises InvalidSchedule: it cannot be run.
    """
    try:
        with _importing_from(root):
            names = runpy.run_path(str(file), run_name=f"snowpack_declared_{file.stem}")
    except InvalidSchedule as error:
        raise error.below(file.name) from error
    except Exception as error:
        raise InvalidSchedule(file.name, str(file), f"it cannot be run: {type(error).__name__}: {error}") from error
    return list(_schedules_of(names))


def _schedules_of(names: Mapping[str, Any]) -> Iterator[Schedule]:
    for value in names.values():
        if isinstance(value, Schedule):
            yield value
        elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
            yield from (each for each in value if isinstance(each, Schedule))


@contextmanager
def _importing_from(root: Path) -> Iterator[None]:
    sys.path.insert(0, str(root))
    try:
        yield
    finally:
        sys.path.remove(str(root))
