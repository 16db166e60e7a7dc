"""Read the schedules that files declare: YAML files, and Python files such as DAG files.

    declared = collect(dags_folder, ["**/schedules.yaml", "snowpack_schedules.py"])

A Python file is run as Airflow runs DAG files; its schedules are the values at its top level, also in lists and tuples. The
invariant: everything or nothing. A file that cannot be read is an error, since its schedules would otherwise look removed.
Modules that the files import from the folder are unloaded afterwards, since a scheduler runs for weeks and has to see changes.
"""

from __future__ import annotations

import importlib
import runpy
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from airflow_snowpack.scheduling.errors import InvalidSchedule
from airflow_snowpack.scheduling.schedule import Schedule

YAML = (".yaml", ".yml")
PYTHON = ".py"
INSTALLED = tuple(Path(sysconfig.get_path(kind)) for kind in ("stdlib", "platstdlib", "purelib", "platlib"))
"""Folders of installed packages, which do not change with the DAG files, even below their folder."""


def collect(root: Path, patterns: Iterable[str]) -> list[Schedule]:
    """Return the schedules of all files below a folder that match one of the patterns.

    :param patterns: such as ``**/schedules.yaml``, relative to the folder.
    :raises InvalidSchedule: a file cannot be read, or declares an invalid schedule.
    """
    found: list[Schedule] = []
    with _importing_from(root):
        for file in find_files(root, patterns):
            for schedule in load_schedules(file) if file.suffix in YAML else _run(file):
                if schedule not in found:  # one that a file imports from another is the same one
                    found.append(schedule)
    return found


def find_files(root: Path, patterns: Iterable[str]) -> list[Path]:
    """Return the files that match the patterns, each once, in the order of their names."""
    fitting = {file for pattern in patterns for file in root.glob(pattern)}
    return sorted(file for file in fitting if file.is_file() and file.suffix in (*YAML, PYTHON))


def load_schedules(file: Path) -> list[Schedule]:
    """Return the schedules of one YAML file.

    :raises InvalidSchedule: the file is not YAML, or one of its schedules is not valid.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InvalidSchedule(file.name, str(file), f"it cannot be read: {error}") from error
    return parse_schedules(text, file.name)


def parse_schedules(text: str, source: str, *, one_alone: bool = False) -> list[Schedule]:
    """Return the schedules of a text in YAML or JSON.

    :param source: the name of the text in an error.
    :param one_alone: accept the fields of one schedule, without the key ``schedules``, too.
    :raises InvalidSchedule: it is not YAML, or one of its schedules is not valid.
    """
    import yaml

    try:
        declared = yaml.safe_load(text)
    except (ValueError, yaml.YAMLError, RecursionError) as error:  # ValueError: a date such as 2026-13-45 is one
        raise InvalidSchedule(source, text[:80], f"it cannot be read: {error}") from error
    if one_alone and isinstance(declared, Mapping) and "schedules" not in declared:
        declared = {"schedules": [declared]}
    if not isinstance(declared, Mapping) or set(declared) != {"schedules"} or not isinstance(declared["schedules"], list):
        raise InvalidSchedule(source, text[:80], "it must have one key, `schedules`, with a list of schedules")
    return [_read(source, number, one) for number, one in enumerate(declared["schedules"])]


def load_module(file: Path, root: Path) -> list[Schedule]:
    """Return the schedules at the top level of a Python file.

    :param root: where it may import from, as DAG files import from their folder.
    :raises InvalidSchedule: it cannot be run.
    """
    with _importing_from(root):
        return _run(file)


def _run(file: Path) -> list[Schedule]:
    try:
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
    """Let files import from the folder, and unload afterwards what they imported from there."""
    there = set(sys.modules)
    importlib.invalidate_caches()  # files may be newer than a folder's time of change can show
    sys.path.insert(0, str(root))
    try:
        yield
    finally:
        sys.path.remove(str(root))
        from_here = _Origin(root.resolve())
        # A copy, since other threads of a scheduler import while this one reads where each module is from.
        for name in [name for name, module in sys.modules.copy().items() if name not in there and from_here.has(name, module)]:
            _forget(name)


class _Origin:
    """Recognizes the modules of a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._installed = [place for place in INSTALLED if place.is_relative_to(root)]

    def has(self, name: str, module: ModuleType) -> bool:
        spec = getattr(module, "__spec__", None)
        # This package itself may be below the folder; it must not be loaded twice.
        if spec is None or name.partition(".")[0] == __name__.partition(".")[0]:
            return False
        # A folder without an __init__.py is a module without a file, and may be spread over several folders.
        places = [spec.origin] if spec.has_location else list(spec.submodule_search_locations or ())
        return bool(places) and all(self._holds(Path(place).resolve()) for place in places)

    def _holds(self, place: Path) -> bool:
        return place.is_relative_to(self._root) and not any(place.is_relative_to(installed) for installed in self._installed)


def _forget(name: str) -> None:
    module = sys.modules.pop(name)
    package, _, child = name.rpartition(".")
    # ``from package import child`` would find it in the package, where that was there before.
    if package in sys.modules and getattr(sys.modules[package], child, None) is module:
        delattr(sys.modules[package], child)


def _read(file: str, number: int, declared: object) -> Schedule:
    try:
        return Schedule.from_json(declared)
    except InvalidSchedule as error:
        name = declared.get("name") if isinstance(declared, Mapping) else None
        raise error.below(f"{file}: {name or f'schedules[{number}]'}") from error
