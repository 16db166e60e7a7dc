"""Deployment: make the schedules of the store follow those that DAG files and YAML files declare.

    report = sync(schedules, declared, update=True, gone_dags={"maintain_old_views"}, by="deploy")

With ``update`` the store follows the files: schedules are created, changed and deleted. Without it they stay as they are, for an
installation whose operators manage them. In both cases the schedules of a removed DAG are deleted. A schedule that was made by
hand is never deleted by a file, nor is a registered run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from airflow_snowpack.scheduling.errors import InvalidSchedule
from airflow_snowpack.scheduling.schedule import Schedule
from airflow_snowpack.scheduling.schedule_writer import Origin
from airflow_snowpack.scheduling.schedules import Schedules, StoredSchedule


@dataclass(frozen=True, slots=True)
class SyncReport:
    """The names of the schedules that a sync created, changed and deleted, and of those that differ and were left alone."""

    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def plan_sync(schedules: Schedules, declared: Iterable[Schedule], *, update: bool, gone_dags: Collection[str] = ()) -> SyncReport:
    """Return what :func:`sync` would do now, without a change.

    :raises InvalidSchedule: two files declare the same name, or one that a registered run has.
    """
    wanted = _by_name(declared)
    every = schedules.list(limit=1_000_000)
    stored = {one.name: one for one in every if one.origin is not Origin.RUN}
    orphans = {name for name, one in stored.items() if one.dag_id in gone_dags}
    differing = {name for name, one in wanted.items() if name in stored and not _same(one, stored[name])}
    missing = wanted.keys() - stored.keys()
    if not update:
        return SyncReport(deleted=_sorted(orphans), left=_sorted((differing | missing) - orphans))
    _check_free(missing & {one.name for one in every if one.origin is Origin.RUN})
    undeclared = {name for name, one in stored.items() if one.origin is not Origin.HAND and name not in wanted}
    gone = (orphans | undeclared) - wanted.keys()  # a new file may declare it for another DAG
    return SyncReport(_sorted(missing), _sorted(differing), _sorted(gone))


def sync(
    schedules: Schedules,
    declared: Iterable[Schedule],
    *,
    update: bool,
    gone_dags: Collection[str] = (),
    by: str | None = None,
) -> SyncReport:
    """Make the store follow the files.

    :param update: whether the store follows the files (``[snowpack] update_schedules``).
    :param gone_dags: the DAGs that Airflow had and that were removed, without those that it has never parsed.
    :param by: the name in the history.
    :raises InvalidSchedule: two files declare the same name, or one that a registered run has; nothing was changed.
    """
    wanted = _by_name(declared)
    plan = plan_sync(schedules, wanted.values(), update=update, gone_dags=gone_dags)
    for name in plan.deleted:
        schedules.delete(name, by=by)
    for name in plan.created:
        schedules.create(wanted[name], by=by, origin=Origin.FILE)
    for name in plan.updated:
        schedules.update(wanted[name], by=by, origin=Origin.FILE)
    return plan


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))


def _by_name(declared: Iterable[Schedule]) -> dict[str, Schedule]:
    listed = list(declared)
    for name, times in Counter(schedule.name for schedule in listed).items():
        if times > 1:
            raise InvalidSchedule("name", name, f"{times} files or DAGs declare it; a name must be unique")
    return {schedule.name: schedule for schedule in listed}


def _check_free(taken: Collection[str]) -> None:
    for name in sorted(taken):
        raise InvalidSchedule("name", name, "a registered run has it already; rename the schedule, or unregister the run")


def _same(wanted: Schedule, stored: StoredSchedule) -> bool:
    """Return whether the store has this definition; ``enabled`` counts only when a schedule is created."""
    if stored.read is None:
        return False  # the file replaces what this version cannot read
    have = stored.read.to_json() | {"enabled": wanted.enabled}
    return stored.origin is Origin.FILE and have == wanted.to_json()
