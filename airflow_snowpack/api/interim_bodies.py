"""Interim tables as JSON bodies, for the API and the command line alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.api.bodies import Body, moment
from airflow_snowpack.interim.standing import standing_of

if TYPE_CHECKING:
    from datetime import datetime

    from airflow_snowpack.interim.model import InterimTable


def interim_body(table: InterimTable, now: datetime) -> Body:
    """An interim table: who made it, who needs it, and why it stays."""
    standing = standing_of(table, now)
    return {
        "table_id": table.table_id,
        "table": str(table.table),
        "state": table.state.value,
        "outlook": standing.outlook.value,
        "because": list(standing.because),
        "producer": {**table.producer.to_json(), "try_number": table.try_number},
        "created_at": moment(table.created_at),
        "ready_at": moment(table.ready_at),
        "snapshot_id": table.snapshot_id,
        "rows": table.rows,
        "location": table.location,
        "needed_by": list(table.pins),
        "readers": table.readers,
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
