"""What a task leaves in XCom about interim tables: plain values, a page at most however many tables there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_snowpack.interim.explanation import Outlook, standing_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from airflow_snowpack.interim.collection.model import Collected
    from airflow_snowpack.interim.collection.sweeper import SweepAction
    from airflow_snowpack.interim.model import InterimTable

SHOWN = 50


def collection_report(
    collected: Collected,
    stays: Iterable[InterimTable],
    swept: Sequence[SweepAction],
    *,
    now: datetime,
    dry_run: bool,
    not_swept: str | None = None,
) -> dict[str, Any]:
    """What was dropped or, in a dry run, would be; what could not be; what stays and why; and what no record had.

    :param stays: tables that are on record afterwards, the newest first.
    :param not_swept: why the sweeper refused to look at the namespace.
    """
    standings = [(table, standing_of(table, now)) for table in stays]
    left = [(table, standing) for table, standing in standings if standing.outlook is Outlook.STAYS]
    failed = [action for action in swept if action.error is not None]
    again = collected.looks_again_at
    return {
        "dry_run": dry_run,
        "runs": collected.runs,
        "dropped": [_dropped(each) for each in collected.dropped[:SHOWN]],
        "dropped_count": len(collected.dropped),
        "failed": [{"table": str(each.table.table), "error": each.error} for each in collected.failed[:SHOWN]],
        "failed_count": len(collected.failed) + len(failed),
        "missing": [{"table": str(each.table.table), "why": each.why} for each in collected.missing[:SHOWN]],
        "stays": [{"table": str(table.table), "because": standing.sentence} for table, standing in left[:SHOWN]],
        "looks_again_at": None if again is None else again.isoformat(),
        "swept": [_swept(action) for action in swept[:SHOWN]],
        "swept_count": len(swept) - len(failed),
        "not_swept": not_swept,
    }


def _dropped(doomed: Any) -> dict[str, Any]:
    return {"table": str(doomed.table), "rows": doomed.rows, "made_by": str(doomed.producer)}


def _swept(action: SweepAction) -> dict[str, Any]:
    return {
        "kind": action.kind.value,
        "name": action.name,
        "location": action.location,
        "last_written": action.since.isoformat(),
        "error": action.error,
    }
