"""Planning a pass over real tables: what is listed, what is read, what is chosen, and what is only counted."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from clocks import MovedClock
from counted_reads import counted_reads
from edited_metadata import edited_metadata
from fleet_lake import SMALL, FleetLake
from planned_removals import quarantine_removal

from airflow_snowpack.humanize import timestamp
from airflow_snowpack.iceberg import CatalogConfig, CatalogUnreachable
from airflow_snowpack.iceberg.broker import Broker
from airflow_snowpack.inventory.health_records import HealthRecords
from airflow_snowpack.jobs.action_history import ActionHistory, ActionRecord
from airflow_snowpack.maintenance.fleet import Budget, EntryState, Pass
from airflow_snowpack.maintenance.policies import Policies, Rule
from airflow_snowpack.maintenance.writers import DagsOfTables
from airflow_snowpack.store import Store
from airflow_snowpack.store.tables.removals import removals


@pytest.fixture
def fleet(store: Store, tmp_path: Path) -> FleetLake:
    return FleetLake(CatalogConfig.embedded(tmp_path), store)


def states(fleet: FleetLake, planned: Pass) -> dict[str, EntryState]:
    return {entry.table.table: entry.state for entry in fleet.passes.entries(planned.pass_id)}


def test_a_pass_plans_the_tables_that_need_work_and_counts_the_others(fleet: FleetLake) -> None:
    fleet.make("healthy")
    fleet.make("sick", commits=5)
    fleet.make("never_written", commits=0)
    planned = fleet.plan()

    (entry,) = fleet.passes.entries(planned.pass_id)
    assert (entry.table, entry.state, entry.place) == (fleet.name("sick"), EntryState.CHOSEN, 0)
    assert list(entry.evidence) == ["rewrite_data_files"]
    assert entry.evidence["rewrite_data_files"].startswith("5 of 5")
    assert entry.estimate.files_removed == 5
    assert entry.estimate.gb_hours > 0
    assert entry.options["rewrite_data_files"]["min_input_files"] == 2
    counts = planned.counts
    assert (counts["listed"], counts["read"], counts["healthy"], counts["chosen"]) == (3, 3, 2, 1)


def test_a_second_pass_over_a_healthy_fleet_costs_one_listing_and_reads_no_file(fleet: FleetLake) -> None:
    for number in range(4):
        fleet.make(f"t{number}")
    fleet.plan("night-1")
    with counted_reads() as reads:
        planned = fleet.plan("night-2")
    assert planned.counts["unchanged"] == 4
    assert fleet.passes.entries(planned.pass_id) == []
    assert (reads.metadata, reads.manifests) == ([], [])
    assert len(reads.of_catalog) == 1


@pytest.mark.one_database
def test_only_what_has_changed_is_read_again(fleet: FleetLake) -> None:
    fleet.make("quiet")
    busy = fleet.make("busy")
    fleet.plan("night-1")
    fleet.catalog.load_table(busy.identifier).append(fleet.catalog.load_table(busy.identifier).scan().to_arrow())
    with counted_reads() as reads:
        planned = fleet.plan("night-2")
    assert (planned.counts["unchanged"], planned.counts["read"]) == (1, 1)
    assert len(reads.metadata) == 1


@pytest.mark.one_database
def test_a_table_that_cannot_be_planned_is_an_entry_and_the_others_are_planned(fleet: FleetLake) -> None:
    fleet.make("odd", commits=5)
    with edited_metadata(fleet.catalog.load_table(fleet.name("odd").identifier)) as metadata:
        metadata["snapshots"][0]["timestamp-ms"] = -(10**17)
    fleet.make("junk", commits=5, **{"commit.manifest.min-count-to-merge": "9" * 5000})
    fleet.make("sick", commits=5)
    planned = fleet.plan()

    assert states(fleet, planned) == {"sick": EntryState.CHOSEN, "odd": EntryState.UNREADABLE}
    (_, odd) = fleet.passes.entries(planned.pass_id)
    assert odd.reason is not None
    assert odd.reason.startswith("It cannot be planned: ")


@pytest.mark.one_database
def test_other_policies_are_applied_to_stored_health_without_reading_a_table(fleet: FleetLake) -> None:
    fleet.make("sick", commits=3)
    assert states(fleet, fleet.plan("night-1")) == {}
    lower = {**SMALL, "rewrite_data_files": {**SMALL["rewrite_data_files"], "thresholds": {"small_files": 3}}}
    fleet.policies = Policies([Rule("**", actions=lower)])
    with counted_reads() as reads:
        planned = fleet.plan("night-2")
    assert states(fleet, planned) == {"sick": EntryState.CHOSEN}
    assert (reads.metadata, reads.manifests) == ([], [])


@pytest.mark.one_database
def test_an_excluded_table_is_counted_and_not_read(fleet: FleetLake) -> None:
    fleet.make("scratch", commits=5)
    fleet.policies = Policies([Rule("fleet.scratch", skip="it is rebuilt every night")])
    with counted_reads() as reads:
        planned = fleet.plan()
    assert planned.counts["excluded"] == 1
    assert reads.metadata == []


@pytest.mark.one_database
def test_a_table_without_one_of_its_manifests_is_named_and_the_others_are_planned(fleet: FleetLake) -> None:
    fleet.make("sick", commits=5)
    (manifest,) = fleet.remove_manifests(fleet.make("broken"))
    planned = fleet.plan()
    assert states(fleet, planned) == {"sick": EntryState.CHOSEN, "broken": EntryState.UNREADABLE}
    entry = fleet.passes.entries(planned.pass_id, [EntryState.UNREADABLE])[0]
    assert manifest.rpartition("/")[2] in (entry.reason or "")
    assert fleet.passes.entries(fleet.plan("night-2").pass_id, [EntryState.UNREADABLE])[0].table == fleet.name("broken")


def test_what_does_not_fit_waits_and_comes_first_in_the_next_pass(fleet: FleetLake) -> None:
    for name, commits in (("first", 9), ("second", 7), ("third", 5)):
        fleet.make(name, commits=commits)
    one = fleet.plan("night-1", Budget(tables=2))
    assert states(fleet, one) == {"first": EntryState.CHOSEN, "second": EntryState.CHOSEN, "third": EntryState.WAITING}
    (waiting,) = fleet.passes.entries(one.pass_id, [EntryState.WAITING])
    assert waiting.reason == "The budget of 2 tables is used by tables that come first."

    two = fleet.plan("night-2", Budget(tables=1))
    assert fleet.passes.entries(two.pass_id)[0].table == fleet.name("third")
    assert states(fleet, two)["third"] is EntryState.CHOSEN


@pytest.mark.one_database
def test_a_table_that_airflow_reads_often_comes_first(fleet: FleetLake) -> None:
    archive, hourly = fleet.make("archive", commits=9), fleet.make("hourly", commits=5)
    planned = fleet.plan(dags_of_tables=lambda: DagsOfTables(reads_per_day={hourly.asset_uri: 24.0}))
    assert [entry.table for entry in fleet.passes.entries(planned.pass_id)] == [hourly, archive]


@pytest.mark.one_database
def test_a_late_table_that_fails_in_each_pass_does_not_come_before_the_others_for_ever(
    fleet: FleetLake, clock: MovedClock
) -> None:
    failing, late = fleet.make("failing", commits=4), fleet.make("late", commits=4)
    fleet.policies = Policies([Rule("**", deadline="1d", actions=SMALL)])
    last = {failing: (timedelta(days=9), 2), late: (timedelta(days=3), 0)}
    history = {
        table: ActionHistory({"rewrite_data_files": ActionRecord(clock.now, clock.now - ago, failures=failures)})
        for table, (ago, failures) in last.items()
    }
    planned = fleet.plan(budget=Budget(tables=1), histories=lambda tables: history)
    assert [entry.table for entry in fleet.passes.entries(planned.pass_id)] == [late, failing]


def test_a_table_whose_job_ends_its_worker_each_time_is_named_and_tried_again_after_growing_intervals(
    fleet: FleetLake, clock: MovedClock
) -> None:
    """Such as for lack of memory: no process of the job lives to report the failure."""
    fleet.make("giant", commits=9)
    fleet.make("sick", commits=5)
    fleet.work.submit(fleet.plan("night-1"))
    for _ in range(3):
        assert fleet.jobs.claim("pod-1", catalog_id=fleet.config.catalog_id)
        clock.move(timedelta(minutes=31))
        assert fleet.jobs.sweep().changed
        clock.move(timedelta(minutes=5))
    lost_at = clock() - timedelta(minutes=5)
    fleet.fleet.report(fleet.passes.list().items[0])

    again = lost_at + timedelta(days=1)
    assert states(fleet, fleet.plan("night-2")) == {"sick": EntryState.CHOSEN, "giant": EntryState.WAITING}
    (entry,) = [each for each in fleet.passes.entries(fleet.passes.list().items[0].pass_id) if each.table.table == "giant"]
    assert (entry.reason or "").endswith(f"failed 3 times in a row, last at {timestamp(lost_at)}; retried at {timestamp(again)}")
    clock.now = again
    assert states(fleet, fleet.plan("night-3")) == {"sick": EntryState.CHOSEN, "giant": EntryState.CHOSEN}


@pytest.mark.one_database
def test_a_table_that_has_become_healthy_has_not_waited_any_more(fleet: FleetLake) -> None:
    """Otherwise it would come first, and not wait for its writers, when it needs maintenance again."""
    table = fleet.make("sick", commits=5)
    fleet.make("larger", commits=9)
    fleet.plan("night-1", Budget(tables=1))
    assert fleet.passes.plan_of(table)[table.lock_key].passes_waited == 1
    fleet.policies = Policies([Rule("**", actions={"remove_orphan_files": {"enabled": False}})])
    fleet.plan("night-2")
    assert fleet.passes.plan_of(table)[table.lock_key].passes_waited == 0


@pytest.mark.one_database
def test_a_table_in_its_quiet_hours_is_named_and_planned_again_in_the_next_pass(fleet: FleetLake, clock: MovedClock) -> None:
    fleet.make("sick", commits=5)
    fleet.policies = Policies([Rule("**", quiet="01:00-04:00", actions=SMALL)])
    planned = fleet.plan("night-1")
    (entry,) = fleet.passes.entries(planned.pass_id)
    assert (entry.state, "quiet until 2026-11-23 04:00:00 UTC" in (entry.reason or "")) == (EntryState.WAITING, True)
    clock.move(timedelta(hours=3))
    assert states(fleet, fleet.plan("night-2")) == {"sick": EntryState.CHOSEN}


@pytest.mark.one_database
def test_a_table_that_was_dropped_is_forgotten(fleet: FleetLake) -> None:
    gone = fleet.make("gone")
    fleet.plan("night-1")
    fleet.catalog.drop_table(gone.identifier)
    fleet.plan("night-2")
    assert fleet.passes.last_plans(fleet.config.name, fleet.config.catalog_id) == {}


@pytest.mark.one_database
def test_in_a_catalog_without_a_listing_of_locations_an_unchanged_table_is_loaded_and_not_read(fleet: FleetLake) -> None:
    """Such as Glue or Hive: only loading a table shows whether it has changed."""

    class Other(Broker):
        def locations(self) -> None:
            return None

    fleet.__dict__["broker"] = Other(fleet.config.load)
    fleet.make("healthy")
    fleet.make("sick", commits=5)
    grows = fleet.make("grows")
    assert states(fleet, fleet.plan("night-1")) == {"sick": EntryState.CHOSEN}
    loaded = fleet.catalog.load_table(grows.identifier)
    for _ in range(4):
        loaded.append(loaded.scan().to_arrow().slice(0, 1))
    bounds = fleet.policies.of(grows, loaded.properties).bounds
    HealthRecords(fleet.store).read(grows, loaded, bounds)  # such as for a plan on the command line
    with counted_reads() as reads:
        planned = fleet.plan("night-2")
    assert reads.manifests == []
    assert planned.counts["unchanged"] == 1
    assert states(fleet, planned) == {"sick": EntryState.CHOSEN, "grows": EntryState.CHOSEN}


@pytest.mark.one_database
def test_a_catalog_that_does_not_answer_is_an_error_and_a_retry_plans_the_pass(fleet: FleetLake, tmp_path: Path) -> None:
    fleet.make("sick", commits=5)
    file, away = tmp_path / "catalog.db", tmp_path / "away.db"
    file.rename(away)
    file.mkdir()
    with pytest.raises(CatalogUnreachable):
        fleet.plan("night-1")
    file.rmdir()
    away.rename(file)
    assert states(fleet, fleet.plan("night-1")) == {"sick": EntryState.CHOSEN}
    assert len(fleet.passes.list().items) == 1


@pytest.mark.one_database
def test_a_table_whose_catalog_stops_answering_in_the_middle_is_named_and_keeps_its_stored_health(fleet: FleetLake) -> None:
    class Interrupted(Broker):
        def read(self, *arguments: Any, **more: Any) -> Iterator[Any]:
            for table, result in super().read(*arguments, **more):
                yield table, CatalogUnreachable("lake", OSError("reset")) if table.table == "second" else result

    first, second = fleet.make("first"), fleet.make("second")
    fleet.plan("night-1")
    for table in (first, second):
        loaded = fleet.catalog.load_table(table.identifier)
        loaded.append(loaded.scan().to_arrow())
    fleet.__dict__["broker"] = Interrupted(fleet.config.load)
    assert states(fleet, fleet.plan("night-2")) == {"second": EntryState.UNREADABLE}
    stored = HealthRecords(fleet.store).get([first, second])
    assert [stored[table].health is not None for table in (first, second)] == [True, True]
    fleet.__dict__["broker"] = Broker(fleet.config.load)
    assert states(fleet, fleet.plan("night-3")) == {}


@pytest.mark.one_database
def test_the_first_removals_of_a_table_can_be_undone_until_a_list_was_deleted_for_good(fleet: FleetLake, store: Store) -> None:
    orphans = {"remove_orphan_files": {"enabled": True, "cadence": None, "deadline": None}}
    fleet.policies = Policies([Rule("**", actions=orphans)])
    table = fleet.make("orders")
    fleet.make("other")

    def planned(owner: str) -> dict[str, Any]:
        entries = fleet.passes.entries(fleet.plan(owner).pass_id)
        return {entry.table.table: entry.options["remove_orphan_files"].get("quarantine") for entry in entries}

    assert planned("night-1") == {"orders": "P7D", "other": "P7D"}
    quarantine_removal(store, table)
    assert planned("night-2") == {"orders": "P7D", "other": "P7D"}
    uuid = str(fleet.catalog.load_table(table.identifier).metadata.table_uuid)
    store.execute(sa.update(removals).values(quarantined_until=None, table_uuid=uuid))
    assert planned("night-3") == {"orders": "P7D", "other": "P7D"}, "no file of the list was deleted"
    store.execute(sa.update(removals).values(deleted_count=3))
    assert planned("night-4") == {"orders": None, "other": "P7D"}
    fleet.catalog.drop_table(table.identifier)
    fleet.make("orders")
    assert planned("night-5") == {"orders": "P7D", "other": "P7D"}, "another table has the name"
