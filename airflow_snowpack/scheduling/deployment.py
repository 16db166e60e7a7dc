"""Deployment: reads the schedules that YAML and Python files declare, and applies them to the store.

    declared = collect(dags_folder, ["**/schedules.yaml", "snowpack_schedules.py"])
    report = sync(schedules, declared, update=True, by="deploy")

A Python file runs as Airflow runs DAG files; its schedules are the values at its top level, also in lists and tuples. The
invariant: all or nothing. A file that cannot be read is an error, because its schedules would otherwise appear removed. Modules
that the files import from the folder are unloaded afterwards, so that a scheduler that runs for weeks sees changes.

With ``update`` the store follows the files: schedules are created, changed and deleted. Without it they stay unchanged, for
installations whose operators manage them. Files never delete a schedule that was created by hand, nor a registered run. A
schedule whose DAG is gone stays until it is pruned.
"""

from __future__ import annotations

import importlib
import runpy
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from airflow_snowpack.bounded_text import YamlTooLarge, check_yaml
from airflow_snowpack.scheduling.errors import InvalidSchedule
from airflow_snowpack.scheduling.schedule import Schedule
from airflow_snowpack.scheduling.schedules import ScheduleOrigin, Schedules, StoredSchedule, check_probes

YAML = (".yaml", ".yml")
PYTHON = ".py"
INSTALLED = tuple(Path(sysconfig.get_path(kind)) for kind in ("stdlib", "platstdlib", "purelib", "platlib"))
"""Folders of installed packages, which do not change with the DAG files even if they are below their folder."""


def collect(root: Path, patterns: Iterable[str]) -> list[Schedule]:
    """Return the schedules of all files below a folder that match one of the patterns.

    :param patterns: such as ``**/schedules.yaml``, relative to the folder.
    :raises InvalidSchedule: a file cannot be read, or declares an invalid schedule.
    """
    found: list[Schedule] = []
    with _importing_from(root):
        for file in sorted({file for pattern in patterns for file in root.glob(pattern) if file.is_file()}):
            for schedule in _read_file(file) if file.suffix in (*YAML, PYTHON) else ():
                if schedule not in found:  # a file may import the schedules of another
                    found.append(schedule)
    return found


def load_schedules(file: Path) -> list[Schedule]:
    """Return the schedules of one YAML file, or of one Python file, which may import from its folder.

    :raises InvalidSchedule: the file cannot be read, or one of its schedules is invalid.
    """
    # Reading YAML also loads modules of triggers and constraints, which must not be found beside the file.
    with _importing_from(file.parent) if file.suffix == PYTHON else nullcontext():
        return _read_file(file)


def _read_file(file: Path) -> list[Schedule]:
    if file.suffix == PYTHON:
        return _run(file)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InvalidSchedule(file.name, str(file), f"it cannot be read: {error}") from error
    return parse_schedules(text, file.name)


def parse_schedules(text: str, source: str, *, one_alone: bool = False) -> list[Schedule]:
    """Return the schedules of a YAML or JSON text.

    :param source: the name of the text in errors.
    :param one_alone: also accept the fields of one schedule without the key ``schedules``.
    :raises InvalidSchedule: it is not YAML, or one of its schedules is invalid.
    """
    import yaml

    try:
        check_yaml(text)
        declared = yaml.safe_load(text)
    except YamlTooLarge as error:
        raise InvalidSchedule(source, text[:80], f"line {error.line} cannot be read: {error}") from error
    except (ValueError, yaml.YAMLError, RecursionError) as error:  # ValueError: a date such as 2026-13-45 is one
        raise InvalidSchedule(source, text[:80], f"it cannot be read: {error}") from error
    if one_alone and isinstance(declared, Mapping) and "schedules" not in declared:
        declared = {"schedules": [declared]}
    if not isinstance(declared, Mapping) or set(declared) != {"schedules"} or not isinstance(declared["schedules"], list):
        raise InvalidSchedule(source, text[:80], "it must have one key, `schedules`, with a list of schedules")
    return [_read(source, number, one) for number, one in enumerate(declared["schedules"])]


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
    importlib.invalidate_caches()  # the folder's modification time may be too coarse to show new files
    sys.path.insert(0, str(root))
    try:
        yield
    finally:
        sys.path.remove(str(root))
        here = root.resolve()
        # A copy, because other threads of a scheduler may import during the iteration.
        for name in [name for name, module in sys.modules.copy().items() if name not in there and _is_from(here, name, module)]:
            _forget(name)


def _is_from(root: Path, name: str, module: ModuleType) -> bool:
    """Return whether a module comes from this folder and is not installed there."""
    spec = getattr(module, "__spec__", None)
    # This package itself may be below the folder, and must not be loaded twice.
    if spec is None or name.partition(".")[0] == __name__.partition(".")[0]:
        return False
    # A folder without an __init__.py is a module without a file, and may span several folders.
    places = [spec.origin] if spec.has_location else list(spec.submodule_search_locations or ())
    files = [Path(place).resolve() for place in places]
    installed = [folder for folder in INSTALLED if folder.is_relative_to(root)]
    is_installed = any(file.is_relative_to(folder) for file in files for folder in installed)
    return bool(files) and all(file.is_relative_to(root) for file in files) and not is_installed


def _forget(name: str) -> None:
    module = sys.modules.pop(name)
    package, _, child = name.rpartition(".")
    # Otherwise ``from package import child`` would find it in the package.
    if package in sys.modules and getattr(sys.modules[package], child, None) is module:
        delattr(sys.modules[package], child)


def _read(file: str, number: int, declared: object) -> Schedule:
    try:
        return Schedule.from_json(declared)
    except InvalidSchedule as error:
        name = declared.get("name") if isinstance(declared, Mapping) else None
        raise error.below(f"{file}: {name or f'schedules[{number}]'}") from error


@dataclass(frozen=True, slots=True)
class SyncReport:
    """The names of the schedules that a sync created, changed and deleted, and of those that differ but were left alone.

    :param discards: how many waiting events belonged to schedules that were deleted or whose trigger, constraints or DAG changed.
    """

    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    discards: int = 0


def plan_sync(schedules: Schedules, declared: Iterable[Schedule], *, update: bool) -> SyncReport:
    """Return what :func:`sync` would do now.

    :raises InvalidSchedule: two files declare the same name, a registered run has the name, or a new or changed schedule names a
        load probe that is not registered.
    """
    wanted = _by_name(declared)
    every = schedules.list(limit=1_000_000)
    stored = {one.name: one for one in every if one.origin is not ScheduleOrigin.RUN}
    differing = {name for name, one in wanted.items() if name in stored and not _same(one, stored[name])}
    missing = wanted.keys() - stored.keys()
    if not update:
        return SyncReport(left=_sorted(differing | missing))
    if taken := sorted(missing & {one.name for one in every if one.origin is ScheduleOrigin.RUN}):
        raise InvalidSchedule("name", taken[0], "a registered run has it already; rename the schedule, or unregister the run")
    for name in _sorted(missing | differing):
        check_probes(wanted[name], schedules.probes)
    gone = {name for name, one in stored.items() if one.origin is not ScheduleOrigin.HAND and name not in wanted}
    restarted = {name for name in differing if not _runs_alike(wanted[name], stored[name])}
    discards = sum(schedules.waiting(name).events for name in gone | restarted)
    return SyncReport(_sorted(missing), _sorted(differing), _sorted(gone), discards=discards)


def sync(
    schedules: Schedules,
    declared: Iterable[Schedule],
    *,
    update: bool,
    by: str | None = None,
) -> SyncReport:
    """Make the store follow the files.

    :param update: whether the store follows the files (``[snowpack] update_schedules``).
    :raises InvalidSchedule: as :func:`plan_sync`; nothing was changed.
    """
    wanted = _by_name(declared)
    plan = plan_sync(schedules, wanted.values(), update=update)
    for name in plan.deleted:
        schedules.delete(name, by=by)
    for name in plan.created:
        schedules.create(wanted[name], by=by, origin=ScheduleOrigin.FILE)
    for name in plan.updated:
        schedules.update(wanted[name], by=by, origin=ScheduleOrigin.FILE, discard=True)
    return plan


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))


def _by_name(declared: Iterable[Schedule]) -> dict[str, Schedule]:
    listed = list(declared)
    for name, times in Counter(schedule.name for schedule in listed).items():
        if times > 1:
            raise InvalidSchedule("name", name, f"{times} files or DAGs declare it; a name must be unique")
    return {schedule.name: schedule for schedule in listed}


def _runs_alike(wanted: Schedule, stored: StoredSchedule) -> bool:
    return stored.read is not None and stored.read.runs_like(wanted)


def _same(wanted: Schedule, stored: StoredSchedule) -> bool:
    """Return whether the store has this definition; ``enabled`` counts only on creation."""
    if stored.read is None:
        return False  # the file replaces what this version cannot read
    have = stored.read.to_json() | {"enabled": wanted.enabled}
    return stored.origin is ScheduleOrigin.FILE and have == wanted.to_json()
