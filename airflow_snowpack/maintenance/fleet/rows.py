"""Passes and entries as rows of the store, and rows as values."""

from __future__ import annotations

from typing import Any

from airflow_snowpack.jobs.rows import table_from
from airflow_snowpack.maintenance.fleet.budget import Budget, Cost
from airflow_snowpack.maintenance.fleet.model import EntryState, Pass, PassEntry, PassState
from airflow_snowpack.store import Keyset, Leases, row_mapper, storable_error
from airflow_snowpack.store.retention import Kind
from airflow_snowpack.store.tables.fleet import fleet_entries, fleet_passes, fleet_tables

PASS, ENTRY, TABLE = fleet_passes.c, fleet_entries.c, fleet_tables.c
PASSES = Leases(fleet_passes, key=PASS.pass_id, order=[PASS.started_at])
NEWEST_FIRST = Keyset(PASS.started_at, PASS.pass_id, descending=True)
BY_PLACE = Keyset(ENTRY.place, ENTRY.table_key)

KINDS = (
    Kind(
        fleet_passes,
        age=PASS.started_at,
        order=(PASS.started_at, PASS.pass_id),
        unneeded=PASS.ended_at.is_not(None),
        belongings=(ENTRY.pass_id,),
    ),
)
"""Passes that ended are deleted when they are old, with their entries."""

renamed = {"planned_by": "claimed_by", "leased_until": "visible_at"}
pass_from = row_mapper(Pass, {"state": PassState, "budget": Budget.from_json}, **renamed)


def _spent(row: Any) -> Cost | None:
    return None if row.spent_seconds is None else Cost(row.spent_gb_hours, row.spent_bytes, row.spent_seconds)


entry_from = row_mapper(
    PassEntry,
    {"state": EntryState},
    table=table_from,
    cost=lambda row: Cost(row.gb_hours, row.bytes, row.seconds),
    spent=_spent,
)


def entry_row(pass_id: str, entry: PassEntry) -> dict[str, Any]:
    """Return a new entry as a row."""
    table, cost = entry.table, entry.cost
    return {
        "pass_id": pass_id,
        "table_key": table.lock_key,
        "catalog": table.catalog,
        "catalog_id": table.catalog_id,
        "database_name": table.database,
        "table_name": table.table,
        "place": entry.place,
        "state": entry.state.value,
        "reason": None if entry.reason is None else storable_error(entry.reason),
        "evidence": dict(entry.evidence),
        "options": dict(entry.options),
        "plan": entry.plan,
        "gb_hours": cost.gb_hours,
        "bytes": cost.bytes,
        "seconds": cost.seconds,
        "files_removed": entry.files_removed,
        "value": entry.value,
        "metadata_location": entry.metadata_location,
        "deadline": entry.deadline,
        "passes_waited": entry.passes_waited,
        "ended_at": entry.ended_at,
    }
