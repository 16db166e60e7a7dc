"""Plan single tables on request, from their stored health if it is current, or else from their metadata.

planner = Planner(policies, health_records, jobs, order)
plan = planner.plan(load_table(catalog, name), name)
request = planner.planned(request, load_table(catalog, name))       # of one whose actions are "auto"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.iceberg.table_properties import owner_properties
from airflow_snowpack.maintenance.planning.table_plan import plan_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyiceberg.table import Table

    from airflow_snowpack.iceberg.names import TableName
    from airflow_snowpack.inventory import HealthRecords
    from airflow_snowpack.jobs import Jobs
    from airflow_snowpack.maintenance.planning.model import TablePlan
    from airflow_snowpack.maintenance.policies import Policies
    from airflow_snowpack.maintenance.submit import MaintenanceRequest
    from airflow_snowpack.maintenance.writers import TableWriters


class Planner:
    """Plans single tables.

    :param records: the stored health.
    :param jobs: what past jobs did to each table.
    :param order: the installation's order of actions.
    """

    def __init__(self, policies: Policies, records: HealthRecords, jobs: Jobs, order: Sequence[str] = ()) -> None:
        self._policies = policies
        self._records = records
        self._jobs = jobs
        self._order = tuple(order)

    def plan(
        self, table: Table, name: TableName, *, writers: Callable[[], TableWriters] | None = None, requested: bool = False
    ) -> TablePlan:
        """Plan a loaded table; see :func:`plan_table`.

        :raises TableUnreadable: its stored health is outdated, and a file that the metadata names cannot be read.
        """
        policy, now = self._policies.of(name, owner_properties(table)), self._jobs.store.clock()
        health, history = self._records.read(name, table, policy.bounds), self._jobs.action_histories([name])[name]
        return plan_table(health, policy, now=now, history=history, writers=writers, order=self._order, requested=requested)

    def planned(
        self, request: MaintenanceRequest, table: Table, *, writers: Callable[[], TableWriters] | None = None
    ) -> MaintenanceRequest:
        """Return a request whose actions are ``auto`` with those of the loaded table's plan.

        :raises TableUnreadable: see :meth:`plan`.
        """
        plan = self.plan(table, request.table, writers=writers, requested=True)
        return plan.request(priority=request.priority, order=self._order)
