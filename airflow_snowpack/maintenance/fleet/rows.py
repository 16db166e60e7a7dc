"""Passes and entries as rows of the store, and back."""

from __future__ import annotations

from typing import Any

from airflow_snowpack.jobs.rows import table_from
from airflow_snowpack.maintenance.fleet.budget import Budget
from airflow_snowpack.maintenance.fleet.model import EntryState, Pass, PassEntry, PassState
from airflow_snowpack.maintenance.planning.finding import Estimate
from airflow_snowpack.maintenance.planning.model import TablePlan
from airflow_snowpack.store import Keyset, Leases, row_mapper, storable_error
from airflow_snowpack.store.retention import RetainedRows
from airflow_snowpack.store.tables.fleet import fleet_entries, fleet_passes, fleet_tables

PASS, ENTRY, TABLE = fleet_passes.c, fleet_entries.c, fleet_tables.c
PASSES = Leases(fleet_passes, key=PASS.pass_id, order=[PASS.started_at])
NEWEST_FIRST = Keyset(PASS.started_at, PASS.pass_id, descending=True)
BY_PLACE = Keyset(ENTRY.place, ENTRY.table_key)

KINDS = (
    RetainedRows(
        fleet_passes,
        age=PASS.started_at,
        order=(PASS.started_at, PASS.pass_id),
        unneeded=PASS.ended_at.is_not(None),
        belongings=(ENTRY.pass_id,),
    ),
)
"""Old passes that have ended are deleted with their entries."""

renamed = {"planned_by": "claimed_by", "leased_until": "visible_at"}
pass_from = row_mapper(Pass, {"state": PassState, "budget": Budget.from_json}, **renamed)


def _plan(row: Any) -> TablePlan | None:
    return None if row.plan is None else TablePlan.from_json(table_from(row), row.plan)


def _spent(row: Any) -> Estimate | None:
    if row.spent_seconds is None:
        return None
    cost = {"gb_hours": row.spent_gb_hours, "seconds": row.spent_seconds}
    return Estimate(files_removed=row.removed, bytes_rewritten=row.spent_bytes, **cost)


entry_from = row_mapper(PassEntry, {"state": EntryState}, table=table_from, plan=_plan, spent=_spent)


def entry_row(pass_id: str, entry: PassEntry) -> dict[str, Any]:
    table, estimate = entry.table, entry.estimate
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
        "plan": None if entry.plan is None else entry.plan.to_json(),
        "gb_hours": estimate.gb_hours,
        "bytes": estimate.bytes_rewritten,
        "seconds": estimate.seconds,
        "deadline": entry.deadline,
        "passes_waited": entry.passes_waited,
        "ended_at": entry.ended_at,
    }
