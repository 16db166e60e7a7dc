"""What the commands work with: the store, the tables, and the user that each change is recorded with.

    with opened(args) as here:
        here.jobs.cancel(here.job(args.job_id).job_id, actor=here.actor)

The invariant: a command passes ``here.actor`` to whatever changes something, so that the audit trail has it.
"""

from __future__ import annotations

import socket
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from airflow_snowpack.cli.actor import os_user
from airflow_snowpack.cli.values import find_job
from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
from airflow_snowpack.hooks.store import SnowpackHook
from airflow_snowpack.settings import Settings

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator
    from datetime import datetime

    from pyiceberg.catalog import Catalog

    from airflow_snowpack.builds.manager import BuildManager
    from airflow_snowpack.iceberg import TableName
    from airflow_snowpack.installation import Installation
    from airflow_snowpack.interim.collection.collector import Collector
    from airflow_snowpack.interim.collection.model import RunStates
    from airflow_snowpack.interim.registry import InterimRegistry
    from airflow_snowpack.inventory import Inventory
    from airflow_snowpack.jobs import AuditTrail, Job, Jobs
    from airflow_snowpack.scheduling import RegisteredRuns, Schedules
    from airflow_snowpack.store import Actor
    from airflow_snowpack.store.signs_of_life import Role

VIA = "cli"
LOCK_WAIT = timedelta(seconds=10)
"""For a dataset that another process publishes or cleans up."""


class Opened:
    """The installation as one command sees it."""

    def __init__(self, hook: SnowpackHook, catalog_conn_id: str | None) -> None:
        self._hook = hook
        self.catalog_hook = IcebergCatalogHook(catalog_conn_id)

    @property
    def settings(self) -> Settings:
        return self._hook.settings

    @property
    def installation(self) -> Installation:
        """:raises StoreUnreachable, SchemaOutOfDate, UnknownRevision: as :meth:`SnowpackHook.store`."""
        return self._hook.installation

    @property
    def jobs(self) -> Jobs:
        """:raises StoreUnreachable, SchemaOutOfDate, UnknownRevision: as :meth:`SnowpackHook.store`."""
        return self._hook.jobs()

    @cached_property
    def actor(self) -> Actor:
        """Who asks, for the audit trail."""
        from airflow_snowpack.store import Actor

        return Actor(os_user(), VIA)

    @cached_property
    def schedules(self) -> Schedules:
        """The schedules, on behalf of this user."""
        return self._hook.installation.schedules(self.actor)

    @cached_property
    def registered_runs(self) -> RegisteredRuns:
        """The catalogue of registered runs, on behalf of this user."""
        return self._hook.installation.registered_runs(self.actor)

    def builds(self, storage_conn_id: str | None) -> BuildManager:
        """The builds.

        :param storage_conn_id: of the storage; ``None`` for what the setting says.
        """
        from airflow_snowpack.builds.manager import BuildManager
        from airflow_snowpack.hooks.build_storage import BuildStorageHook

        return BuildManager(self._hook.builds(), BuildStorageHook(storage_conn_id).storage)

    @cached_property
    def interim(self) -> InterimRegistry:
        """The registry of interim tables."""
        return self._hook.interim()

    def report_role(self, role: Role, period: timedelta, command: str) -> None:
        """Leave a sign of life of a command that cron may run in place of a DAG.

        :param period: how often it should run.
        """
        from airflow_snowpack.hooks.services import sign_of_process

        sign_of_process(self._hook.store(), role, period=period, instance=f"{command} on {socket.gethostname()}")

    def collector(self, run_states: RunStates) -> Collector:
        """The collector of interim tables."""
        from airflow_snowpack.hooks.services import open_collector

        return open_collector(self._hook, run_states, self.catalog_hook)

    @cached_property
    def inventory(self) -> Inventory:
        """The tables; the catalog is connected when it is needed."""
        from airflow_snowpack.inventory import ANSWER_WITHIN, Inventory

        def reach() -> Catalog:
            return self.catalog_hook.config.load(limit=ANSWER_WITHIN)

        return Inventory(self._hook.store(), self.settings.catalog_name, reach, lambda: self.catalog_hook.config.catalog_id)

    @cached_property
    def audit(self) -> AuditTrail:
        from airflow_snowpack.jobs import AuditTrail

        return AuditTrail(self._hook.store())

    @property
    def now(self) -> datetime:
        """The store's clock."""
        return self.jobs.store.clock()

    def table(self, text: str) -> TableName:
        """Name a table of the catalog that this command reaches.

        :raises InvalidTableName: it is not a name.
        :raises ConnectionNotFound, UnsuitableConnection, IncompleteConnection: from the catalog's Airflow connection.
        """
        return self.catalog_hook.identified(text)

    def job(self, given: str) -> Job:
        """The job of this id, or of the one id that begins like this.

        :raises JobNotFound: there is none.
        :raises AmbiguousJobId, UsageProblem: there are several, or too little was given to tell.
        """
        return find_job(self.jobs, given)


@contextmanager
def opened(args: Namespace) -> Iterator[Opened]:
    """Open what the command's arguments name; the connections close with the block.

    A store that hangs is an error within ``[snowpack] request_timeout``.
    """
    from airflow_snowpack.store import Deadlines

    deadlines = Deadlines.within(Settings.load().request_timeout)
    with SnowpackHook(args.store_conn_id, deadlines=deadlines, lock_wait=LOCK_WAIT) as hook:
        yield Opened(hook, getattr(args, "catalog_conn_id", None))
