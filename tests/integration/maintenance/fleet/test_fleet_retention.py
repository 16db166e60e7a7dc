"""Which passes are deleted when they are old."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from clocks import MovedClock

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.installation import Installation
from airflow_snowpack.maintenance.fleet import Budget, EntryState, PassEntry, PassState
from airflow_snowpack.maintenance.fleet.passes import FleetPasses
from airflow_snowpack.store import Actor, Store


def test_an_old_pass_is_deleted_with_its_entries_when_it_has_ended(store: Store, passes: FleetPasses, clock: MovedClock) -> None:
    kept = []
    for owner, is_over in (("a/1/plan", True), ("b/1/plan", False)):
        planning = passes.begin(owner, "lake", "c0ffee", Budget(), workers=1, holder="worker-1")
        entry = PassEntry(TableName("lake", "demo", "t", "c0ffee"), 0, EntryState.WAITING, "It did not fit.")
        planned = passes.plan(planning, [entry], [], {})
        if is_over:
            passes.keep_report(replace(planned, state=PassState.ENDED, ended_at=clock.now), {"counts": {}})
        kept += [] if is_over else [planned.pass_id]
    clock.move(timedelta(days=200))
    rows = Installation(store).prune(timedelta(days=180), Actor("me", "test"))
    assert (rows["fleet_passes"], rows["fleet_entries"]) == (1, 1)
    assert [each.pass_id for each in passes.list().items] == kept
    assert len(passes.entries(kept[0])) == 1
