"""The filters of ``jobs list`` as the store takes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from airflow_snowpack.cli.errors import UsageProblem

if TYPE_CHECKING:
    from argparse import Namespace

    from airflow_snowpack.cli.opened import Opened
    from airflow_snowpack.jobs import JobFilter


def filter_of(args: Namespace, here: Opened) -> JobFilter:
    """What the arguments narrow to; a table's name stands for it in every catalog.

    :raises InvalidTableName, UsageProblem: an argument that cannot be used.
    """
    from airflow_snowpack.jobs import JobFilter, JobStatus

    return JobFilter(
        table=None if args.table is None else here.catalog_hook.table_name(args.table),
        statuses=frozenset(JobStatus(status) for status in args.status or ()),
        search=args.search,
        dag_id=args.dag,
        dry_run=args.dry_run,
        since=_moment("--since", args.since, here.now),
        until=_moment("--until", args.until, here.now),
    )


def read_period(option: str, text: str) -> timedelta:
    """A period such as ``30s`` or ``2h``.

    :raises UsageProblem: it is none.
    """
    from airflow_snowpack.durations import parse_duration

    try:
        return parse_duration(text)
    except ValueError as problem:
        raise UsageProblem(f"{option} {problem}.") from problem


def _moment(option: str, text: str | None, now: datetime) -> datetime | None:
    """A moment in ISO 8601 (UTC unless it says otherwise), or how long ago."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            return now - read_period(option, text)
        except (UsageProblem, OverflowError):
            raise UsageProblem(
                f"{option} {text[:60]!r} is neither a moment nor a period. "
                "Give one such as 2026-11-21T14:00 (UTC), or 2h for two hours ago."
            ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
