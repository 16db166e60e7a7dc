"""The services of an installation: the one place that builds them from the settings.

    installation = Installation(store, settings.policy, interim_namespace=settings.interim_namespace)
    installation.jobs.get(job_id)

Hooks, the API and the commands open it through :class:`~airflow_snowpack.hooks.store.SnowpackHook`: a setting means the same
everywhere. Each service is built when it is first used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_snowpack.errors import Kind, SnowpackError

if TYPE_CHECKING:  # a worker needs neither the libraries of builds nor those of schedules
    from pyiceberg.table import Table

    from airflow_snowpack.builds.registry.runs import BuildRegistry
    from airflow_snowpack.iceberg import TableHealth, TableName
    from airflow_snowpack.interim.registry import InterimRegistry
    from airflow_snowpack.inventory import HealthRecords
    from airflow_snowpack.jobs import Jobs, TableLocks
    from airflow_snowpack.jobs.model import LifecyclePolicy
    from airflow_snowpack.jobs.rescuer import Orphans
    from airflow_snowpack.maintenance.fleet.passes import FleetPasses
    from airflow_snowpack.maintenance.planning import Planner
    from airflow_snowpack.maintenance.policies import Policies, PoliciesFile
    from airflow_snowpack.maintenance.removals.records import Removals
    from airflow_snowpack.runners.images.records import ImageRecords
    from airflow_snowpack.runners.images.registry import ImageBuilds
    from airflow_snowpack.runners.images.target import ImageTarget
    from airflow_snowpack.scheduling import RegisteredRuns, Schedules
    from airflow_snowpack.scheduling.permission import MayStart
    from airflow_snowpack.store import Actor, Store
    from airflow_snowpack.store.retention import RetainedRows

SHORTEST_RETENTION = timedelta(days=7)
"""A task may wait for a job for days, for example over a weekend without a triggerer, and must still find the finished job."""


class InvalidRetention(SnowpackError, kind=Kind.INVALID):
    """The retention period is too short."""

    def __init__(self, period: timedelta, shortest: timedelta) -> None:
        super().__init__(
            f"Rows that are only {period} old may still be needed. The shortest period is {shortest.days}d, and 180d is usual."
        )


@dataclass(frozen=True)
class Installation:
    """An open store and the services on it.

    :param policy: leases, heartbeats and limits; ``None`` for each service's defaults.
    :param catalog_name: the catalog of tables that are named without one.
    :param interim_namespace: the namespace of interim tables; ``None`` for the default.
    :param lock_wait: how long to wait for a dataset that another process publishes or cleans up; ``None`` for a task's default.
    :param orphans: ends the Spark work of killed workers; ``None`` leaves it to other processes.
    :param policies_file: the maintenance policies; ``None`` for the defaults.
    :param load_probes: the names of the load probes that schedules can use.
    :param image_target: returns the builder of images and where they go; ``None`` for Docker without a registry.
    """

    store: Store
    policy: LifecyclePolicy | None = None
    catalog_name: str = "lake"
    interim_namespace: str | None = None
    lock_wait: timedelta | None = None
    orphans: Orphans | None = None
    image_target: Callable[[], ImageTarget] | None = None
    policies_file: PoliciesFile | None = None
    load_probes: Collection[str] = ()

    @cached_property
    def jobs(self) -> Jobs:
        from airflow_snowpack.jobs import Jobs

        return Jobs(self.store, policy=self.policy, orphans=self.orphans)

    @cached_property
    def locks(self) -> TableLocks:
        from airflow_snowpack.jobs import TableLocks

        return TableLocks(self.store)

    @cached_property
    def fleet_passes(self) -> FleetPasses:
        from airflow_snowpack.maintenance.fleet.passes import FleetPasses

        return FleetPasses(self.store)

    @cached_property
    def builds(self) -> BuildRegistry:
        from airflow_snowpack.builds.registry.model import BuildPolicy
        from airflow_snowpack.builds.registry.runs import BuildRegistry

        periods: dict[str, Any] = {} if self.lock_wait is None else {"lock_wait": self.lock_wait}
        if self.policy is not None:
            periods |= {"run_lease": self.policy.lease, "heartbeat": self.policy.heartbeat}
        return BuildRegistry(self.store, BuildPolicy(**periods))

    @cached_property
    def interim(self) -> InterimRegistry:
        from airflow_snowpack.interim.model import InterimPolicy
        from airflow_snowpack.interim.registry import InterimRegistry

        given: dict[str, Any] = {} if self.interim_namespace is None else {"namespace": self.interim_namespace}
        if self.policy is not None:
            given |= {"lease": self.policy.lease, "heartbeat": self.policy.heartbeat}
        return InterimRegistry(self.store, InterimPolicy(**given))

    @cached_property
    def image_builds(self) -> ImageBuilds:
        """The images that workers build, with this process's builder."""
        from airflow_snowpack.runners.images.registry import ImageBuilds
        from airflow_snowpack.runners.images.target import ImageTarget

        target = ImageTarget() if self.image_target is None else self.image_target()
        return ImageBuilds(self.store, target, self.image_records.policy)

    @cached_property
    def image_records(self) -> ImageRecords:
        """The records of images, which need neither a builder nor the registry's connection."""
        from airflow_snowpack.runners.images.model import ImagePolicy
        from airflow_snowpack.runners.images.records import ImageRecords

        given: dict[str, Any] = {}
        if (policy := self.policy) is not None:
            given = {"lease": policy.lease, "heartbeat": policy.heartbeat}
            given |= {"max_attempts": policy.max_attempts, "retry_base": policy.retry_base}
        return ImageRecords(self.store, ImagePolicy(**given))

    @property
    def policies(self) -> Policies:
        """The maintenance policies as their file is now; raises :class:`PoliciesNotFound` or :class:`InvalidPolicies`."""
        from airflow_snowpack.maintenance.policies import Policies

        return Policies() if self.policies_file is None else self.policies_file.policies()

    @cached_property
    def removals(self) -> Removals:
        """The lists of files and snapshots to delete after an approval."""
        from airflow_snowpack.maintenance.removals.records import Removals

        return Removals(self.store)

    @cached_property
    def health_records(self) -> HealthRecords:
        from airflow_snowpack.inventory import HealthRecords

        return HealthRecords(self.store)

    def read_health(self, name: TableName, table: Table) -> TableHealth:
        """Return the stored health of a loaded table; if there is none, read and store it with the bounds of its policy.

        If the policies cannot be used, stored health with any bounds counts.

        :raises TableUnreadable: a file that the metadata names is missing or damaged; the reason is stored.
        """
        from airflow_snowpack.iceberg.table_properties import owner_properties
        from airflow_snowpack.maintenance.policies import InvalidPolicies, PoliciesNotFound

        try:
            bounds = self.policies.of(name, owner_properties(table)).bounds
        except (InvalidPolicies, PoliciesNotFound):
            bounds = None
        return self.health_records.read(name, table, bounds)

    def planner(self, order: Sequence[str] = (), policies: Policies | None = None) -> Planner:
        """Return the planner of single tables.

        :param order: the installation's order of actions.
        :param policies: ``None`` for :attr:`policies`.
        """
        from airflow_snowpack.maintenance.planning.planner import Planner

        return Planner(self.policies if policies is None else policies, self.health_records, self.jobs, order)

    def schedules(self, actor: Actor | None = None, may_start: MayStart | None = None) -> Schedules:
        """Return the schedules.

        :param actor: recorded in the audit trail for each change.
        :param may_start: whether the actor may start a DAG; ``None`` for any DAG.
        """
        from airflow_snowpack.scheduling import Schedules

        return Schedules(self.store, catalog=self.catalog_name, actor=actor, probes=self.load_probes, may_start=may_start)

    def registered_runs(self, actor: Actor | None = None, may_start: MayStart | None = None) -> RegisteredRuns:
        """Return the catalogue of registered runs.

        :param actor: recorded in the audit trail for each change.
        :param may_start: whether the actor may start a DAG; ``None`` for any DAG.
        """
        from airflow_snowpack.scheduling import RegisteredRuns

        return RegisteredRuns(self.store, catalog=self.catalog_name, actor=actor, may_start=may_start)

    def prune(self, older_than: timedelta, actor: Actor, *, dry_run: bool = False) -> Counter[str]:
        """Delete older rows that are no longer needed, in small batches. An interrupted call can be repeated.

        :param actor: recorded in the audit trail before anything is deleted.
        :param dry_run: only count.
        :returns: how many rows were deleted, by table.
        :raises InvalidRetention: the period is shorter than :data:`SHORTEST_RETENTION`.
        """
        from airflow_snowpack.scheduling.launches.missing_dags import delete_without_dag
        from airflow_snowpack.store import write_audit
        from airflow_snowpack.store.retention import Pruner

        if older_than < SHORTEST_RETENTION:
            raise InvalidRetention(older_than, SHORTEST_RETENTION)
        store, seconds = self.store, int(older_than.total_seconds())
        pruner = Pruner(store, retained_rows(store), older_than=older_than, dry_run=dry_run)
        if not dry_run:
            store.transact(lambda conn: write_audit(conn, store, actor, "prune", "store", older_than_seconds=seconds))
        rows = pruner.run()
        rows["schedules"] = len(delete_without_dag(self.schedules(actor), older_than=older_than, dry_run=dry_run))
        return rows

    def close(self) -> None:
        """Write what is pending and close the connections."""
        if "jobs" in self.__dict__:
            self.jobs.close()
        else:
            self.store.close()


def retained_rows(store: Store) -> tuple[RetainedRows, ...]:
    """Return all kinds of rows that expire, each before the rows that it refers to."""
    from airflow_snowpack.builds.registry.retention import KINDS as OF_BUILDS
    from airflow_snowpack.inventory.health_records import KINDS as OF_HEALTH
    from airflow_snowpack.jobs.retention import KINDS as OF_JOBS
    from airflow_snowpack.lineage.operations import EDGES, OPERATIONS
    from airflow_snowpack.maintenance.fleet.rows import KINDS as OF_FLEETS
    from airflow_snowpack.maintenance.removals.records import KINDS as OF_REMOVALS
    from airflow_snowpack.notifications.records import KINDS as OF_NOTIFICATIONS
    from airflow_snowpack.runners.images.records import KINDS as OF_IMAGES
    from airflow_snowpack.scheduling.retention import retained as of_schedules
    from airflow_snowpack.store.audit import AUDIT_TRAIL

    of_maintenance = (*OF_FLEETS, *OF_JOBS, *OF_REMOVALS)
    return (
        OPERATIONS,
        EDGES,
        *of_maintenance,
        *OF_BUILDS,
        *OF_IMAGES,
        *OF_HEALTH,
        *OF_NOTIFICATIONS,
        *of_schedules(store),
        AUDIT_TRAIL,
    )
