"""Interim tables as JSON bodies, for the API and the command line alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.api.bodies import Body, moment
from airflow_snowpack.interim.explanation import explain

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from airflow_snowpack.interim.collection.model import Collected
    from airflow_snowpack.interim.collection.sweeper import SweepAction
    from airflow_snowpack.interim.model import InterimTable


def interim_body(table: InterimTable, now: datetime) -> Body:
    """An interim table: who made it, who needs it, and why it stays."""
    explanation = explain(table, now)
    return {
        "table_id": table.table_id,
        "table": str(table.table),
        "state": table.state.value,
        "outlook": explanation.outlook.value,
        "because": list(explanation.reasons),
        "producer": {**table.producer.to_json(), "try_number": table.try_number},
        "created_at": moment(table.created_at),
        "ready_at": moment(table.ready_at),
        "snapshot_id": table.snapshot_id,
        "rows": table.rows,
        "location": table.location,
        "needed_by": list(table.pins),
        "readers": table.readers,
        "silent_readers": table.silent_readers,
        "preservation": table.preservation.value,
        "name": table.name,
        "scope": None if table.scope is None else table.scope.value,
        "named": table.is_named,
        "expires_at": moment(table.expires_at),
        "held_until": moment(table.lease_until),
        "looked_at_next": moment(table.check_at),
        "drops": table.drops,
        "error": table.error,
    }


def collected_body(collected: Collected, *, dry_run: bool) -> Body:
    """What a pass of the collector did, or would do."""
    return {
        "dry_run": dry_run,
        "runs": collected.runs,
        "dropped": [
            {"table_id": each.table_id, "table": str(each.table), "rows": each.rows, "producer": each.producer.to_json()}
            for each in collected.dropped
        ],
        "failed": [{"table": str(each.table.table), "error": each.reason} for each in collected.failed],
        "missing": [{"table": str(each.table.table), "why": each.reason} for each in collected.missing],
        "kept": collected.kept,
        "looks_again_at": moment(collected.looks_again_at),
    }


def swept_body(actions: Sequence[SweepAction], *, dry_run: bool) -> Body:
    """What the sweeper dropped, or would drop."""
    return {
        "dry_run": dry_run,
        "swept": [
            {
                "kind": action.kind.value,
                "name": action.name,
                "location": action.location,
                "last_written": moment(action.since),
                "error": action.error,
            }
            for action in actions
        ],
    }
