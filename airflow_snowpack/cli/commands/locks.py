"""``airflow snowpack locks list|release``: who has which table, and freeing one whose holder is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.api import bodies
from airflow_snowpack.cli.confirm import confirm
from airflow_snowpack.cli.errors import NotTheHolder, UsageProblem
from airflow_snowpack.cli.job_id import HEXADECIMAL, LEAST, WHOLE, short_id
from airflow_snowpack.cli.opened import opened
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import Column, is_for_people, print_list, print_one
from airflow_snowpack.humanize import ago
from airflow_snowpack.iceberg.errors import catalog_label

if TYPE_CHECKING:
    from argparse import Namespace
    from datetime import datetime

    from airflow_snowpack.cli.exit_code import ExitCode
    from airflow_snowpack.cli.opened import Opened
    from airflow_snowpack.iceberg import TableName
    from airflow_snowpack.jobs import TableLock


@ends_cleanly
def list_locks(args: Namespace) -> ExitCode | None:
    """``locks list``"""
    with opened(args) as here:
        print_list(args.output, here.jobs.locks.list(), bodies.lock_body, _columns(here.now), empty="No table is locked.")
    return None


@ends_cleanly
def release(args: Namespace) -> ExitCode | None:
    """``locks release``"""
    with opened(args) as here:
        table = here.catalog_hook.table_name(args.table)
        lock = _find(here, table, args.holder)
        if lock is None:
            _tell(args, None, f"Nobody holds {table.dotted}.")
            return None
        if args.yes and args.holder is None:
            raise UsageProblem(f"{table.dotted} is held by {lock.holder}. Where nobody is asked, say so: --holder {lock.holder}")
        since, until = ago(lock.acquired_at, here.now), ago(lock.expires_at, here.now)
        confirm(f"{table.dotted} is held by {lock.holder}, taken {since}, ends {until}. Release it?", yes=args.yes)
        released = here.jobs.break_lock(lock.table, lock.holder, actor=here.actor, force=args.force)
        said = (
            f"{table.dotted} is free."
            if released
            else f"{lock.holder} had let go of {table.dotted} by then; nothing was changed."
        )
        _tell(args, released, said)
    return None


def _find(here: Opened, table: TableName, holder: str | None) -> TableLock | None:
    """The lock of the table with this name, in whichever catalog that is.

    :raises NotTheHolder: another holder has it.
    :raises UsageProblem: tables of several catalogs with this name are locked, and the holder does not say which one is meant.
    """
    named = [lock for lock in here.jobs.locks.list() if lock.table.dotted == table.dotted]
    fitting = [lock for lock in named if holder is None or _is_holder(holder, lock)]
    if holder is not None and named and not fitting:
        raise NotTheHolder(named[0], holder)
    if len(fitting) > 1:
        held = ", ".join(f"{lock.holder} in {catalog_label(lock.table.catalog, lock.table.catalog_id)}" for lock in fitting)
        raise UsageProblem(f"{table.dotted} is locked in several catalogs: by {held}. Give the holder of one: --holder …")
    return fitting[0] if fitting else None


def _is_holder(given: str, lock: TableLock) -> bool:
    """The holder's name, or the short id of a job that a list shows."""
    return lock.holder == given or (_is_job(lock) and len(given) >= LEAST and lock.holder.startswith(given.lower()))


def _is_job(lock: TableLock) -> bool:
    return len(lock.holder) == WHOLE and HEXADECIMAL.fullmatch(lock.holder) is not None


def _tell(args: Namespace, released: TableLock | None, text: str) -> None:
    if is_for_people(args.output):
        print(text)
        return
    body = {"released": released is not None, "lock": None if released is None else bodies.lock_body(released)}
    print_one(args.output, body, {"released": str(released is not None).lower()})


def _columns(now: datetime) -> list[Column[TableLock]]:
    return [
        Column("table", lambda lock: lock.table.dotted),
        Column(
            "held by", lambda lock: lock.holder, lambda lock: f"job {short_id(lock.holder)}" if _is_job(lock) else lock.holder
        ),
        Column("taken", lambda lock: bodies.moment(lock.acquired_at), lambda lock: ago(lock.acquired_at, now)),
        Column("ends", lambda lock: bodies.moment(lock.expires_at), lambda lock: ago(lock.expires_at, now)),
    ]
