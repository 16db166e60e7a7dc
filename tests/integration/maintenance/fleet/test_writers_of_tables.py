"""Passes over tables that DAGs write to."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from fleet_lake import FleetLake

from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.maintenance.fleet import EntryState
from airflow_snowpack.maintenance.writers import DagsOfTables, Producer
from airflow_snowpack.store import Store


@pytest.fixture
def fleet(store: Store, tmp_path: Path) -> FleetLake:
    return FleetLake(CatalogConfig.embedded(tmp_path), store)


class Airflow:
    """Knows the DAGs, and counts how often it is asked."""

    def __init__(self, dags: DagsOfTables) -> None:
        self.dags, self.asked = dags, 0

    def __call__(self) -> DagsOfTables:
        self.asked += 1
        return self.dags


@pytest.mark.one_database
def test_a_table_whose_writer_runs_waits_with_the_reason_and_the_others_are_chosen(fleet: FleetLake) -> None:
    written, other = fleet.make("written", commits=5), fleet.make("other", commits=5)
    ingest = Producer("ingest", running_since=fleet.store.clock() - timedelta(minutes=3))
    airflow = Airflow(DagsOfTables({written.asset_uri: (ingest,)}))

    entries = {each.table: each for each in fleet.passes.entries(fleet.plan(dags_of_tables=airflow).pass_id)}

    assert entries[other].state is EntryState.CHOSEN
    assert entries[written].state is EntryState.WAITING
    assert (entries[written].reason or "").endswith("DAG 'ingest', which writes to the table, has been running for 3 min")
    assert airflow.asked == 1


@pytest.mark.one_database
def test_a_table_that_waited_for_its_writer_is_planned_in_the_next_pass_although_it_has_not_changed(fleet: FleetLake) -> None:
    table = fleet.make("written", commits=5)
    runs = DagsOfTables({table.asset_uri: (Producer("ingest", running_since=fleet.store.clock()),)})
    fleet.plan("night-1", dags_of_tables=Airflow(runs))

    (entry,) = fleet.passes.entries(fleet.plan("night-2", dags_of_tables=Airflow(DagsOfTables())).pass_id)

    assert entry.state is EntryState.CHOSEN


@pytest.mark.one_database
def test_airflow_is_not_asked_if_no_table_needs_work(fleet: FleetLake) -> None:
    fleet.make("healthy")
    airflow = Airflow(DagsOfTables())

    fleet.plan(dags_of_tables=airflow)

    assert airflow.asked == 0
