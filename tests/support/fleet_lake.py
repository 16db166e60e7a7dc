"""A catalog of real tables that PyIceberg has made, and a pass over them without Airflow: for tests of passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.iceberg.broker import Broker
from airflow_snowpack.iceberg.listing import list_tables
from airflow_snowpack.inventory.health_records import HealthRecords
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.maintenance.fleet import Budget, Pass
from airflow_snowpack.maintenance.fleet.fleet import Fleet
from airflow_snowpack.maintenance.fleet.listing import list_catalog
from airflow_snowpack.maintenance.fleet.passes import FleetPasses
from airflow_snowpack.maintenance.fleet.planner import FleetPlanner
from airflow_snowpack.maintenance.fleet.progress import PassWork
from airflow_snowpack.maintenance.policies import Policies, Rule
from airflow_snowpack.maintenance.writers import DagsOfTables
from airflow_snowpack.store import Store

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "note", StringType()))
SMALL = {
    "rewrite_data_files": {"thresholds": {"small_files": 4}, "options": {"min_input_files": 2}, "cadence": None},
    "remove_orphan_files": {"enabled": False},
}
"""Tables of a few rows need work when they have four files."""


@dataclass
class FleetLake:
    """A catalog and a store.

    :param database: the namespace of the tables.
    :param only_own: plan the tables of this database alone, where the catalog has those of other tests.
    """

    config: CatalogConfig
    store: Store
    database: str = "fleet"
    only_own: bool = False
    policies: Policies = field(default_factory=lambda: Policies([Rule("**", actions=SMALL)]))
    dags_of_tables: Callable[[], DagsOfTables] | None = None

    @cached_property
    def catalog(self) -> Catalog:
        catalog = self.config.load()
        catalog.create_namespace_if_not_exists(self.database)
        return catalog

    @cached_property
    def jobs(self) -> Jobs:
        return Jobs(self.store)

    @cached_property
    def passes(self) -> FleetPasses:
        return FleetPasses(self.store)

    @cached_property
    def work(self) -> PassWork:
        return PassWork(self.passes, self.jobs)

    @cached_property
    def broker(self) -> Broker:
        return Broker(self.config.load)

    def name(self, table: str) -> TableName:
        return TableName(self.config.name, self.database, table, self.config.catalog_id)

    def make(self, table: str, commits: int = 1, rows: int = 3, **properties: str) -> TableName:
        """Make a table of so many small files."""
        made = self.catalog.create_table(self.name(table).identifier, SCHEMA, properties=properties)
        for number in range(commits):
            ids = range(number * rows, (number + 1) * rows)
            made.append(pa.table({"id": list(ids), "note": [f"n{each}" for each in ids]}))
        return self.name(table)

    def rows(self, table: TableName) -> list[int]:
        return sorted(self.catalog.load_table(table.identifier).scan().to_arrow()["id"].to_pylist())

    def remove_manifests(self, table: TableName) -> list[str]:
        """Delete the manifests of the current snapshot, as a broken clean-up might; return their locations."""
        loaded = self.catalog.load_table(table.identifier)
        snapshot = loaded.current_snapshot()
        assert snapshot is not None
        paths = [manifest.manifest_path for manifest in snapshot.manifests(loaded.io)]
        for path in paths:
            Path(path.removeprefix("file://")).unlink()
        return paths

    def planner(self, **more: Any) -> FleetPlanner:
        def names() -> list[TableName]:
            return [self.name(each.table) for each in list_tables(self.catalog, self.config.name, [])]

        def listing() -> dict[TableName, str | None]:
            listed = list_catalog(self.broker, self.config.name, self.config.catalog_id, names)
            return {name: at for name, at in listed.items() if not self.only_own or name.database == self.database}

        records = HealthRecords(self.store)
        given: dict[str, Any] = {"list_tables": listing, "histories": self.jobs.action_histories}
        given |= {"dags_of_tables": self.dags_of_tables, **more}
        return FleetPlanner(self.passes, self.broker, records, self.policies, **given)

    @cached_property
    def fleet(self) -> Fleet:
        """The fleet, for a whole pass."""
        config = self.config
        return Fleet(config.name, config.catalog_id, self.passes, self.jobs, self.work, self.planner(), config.load)

    def begin(self, owner: str, budget: Budget, workers: int = 1) -> Pass:
        config = self.config
        return self.passes.begin(owner, config.name, config.catalog_id, budget, workers=workers, holder="test")

    def plan(self, owner: str = "night-1", budget: Budget | None = None, workers: int = 1, **more: Any) -> Pass:
        """Plan a pass."""
        return self.planner(**more).plan(self.begin(owner, budget or Budget(tables=100), workers))
