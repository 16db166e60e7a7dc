"""What every command has: the installation's services, the user whose name each change is recorded with, and its end.

    @command
    def cancel(args: Namespace, here: CommandContext) -> ExitCode | None:
        here.jobs.cancel(here.job(args.job_id).job_id, actor=here.actor)

The invariant: a command passes ``here.actor`` to every change, so that the audit trail has it.
"""

from __future__ import annotations

import getpass
import os
import socket
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from functools import cached_property, wraps
from typing import TYPE_CHECKING

from airflow_snowpack.builds.manager import BuildManager
from airflow_snowpack.cli.errors import UsageProblem
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.values import find
from airflow_snowpack.exit_code import ExitCode
from airflow_snowpack.hooks.api_client import AirflowRest
from airflow_snowpack.hooks.build_storage import BuildStorageHook
from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
from airflow_snowpack.hooks.services import open_collector, sign_of_process
from airflow_snowpack.hooks.store import SnowpackHook
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.installation import Installation
from airflow_snowpack.interim.collection.collector import Collector
from airflow_snowpack.interim.collection.model import RunStates
from airflow_snowpack.inventory import ANSWER_WITHIN, Inventory
from airflow_snowpack.jobs import Job, Jobs
from airflow_snowpack.maintenance.planning import Planner
from airflow_snowpack.maintenance.policies import Policies
from airflow_snowpack.maintenance.submitter import Submitter
from airflow_snowpack.scheduling import RegisteredRuns, Schedules
from airflow_snowpack.settings import Settings
from airflow_snowpack.store import Actor, Deadlines
from airflow_snowpack.store.signs_of_life import Role

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


VIA = "cli"
LOCK_WAIT = timedelta(seconds=10)
"""For a dataset that another process publishes or cleans up."""


class CommandContext:
    """The installation's services for one command, each opened when it is first needed: wrong arguments are found before.

    :param closing: closes their connections.
    """

    def __init__(self, args: Namespace, closing: ExitStack) -> None:
        self._args, self._closing = args, closing
        self.catalog_hook = IcebergCatalogHook(getattr(args, "catalog_conn_id", None))

    @cached_property
    def _hook(self) -> SnowpackHook:
        deadlines = Deadlines.within(Settings.load().request_timeout)
        hook = SnowpackHook(self._args.store_conn_id, deadlines=deadlines, lock_wait=LOCK_WAIT)
        return self._closing.enter_context(hook)

    @property
    def settings(self) -> Settings:
        return self._hook.settings

    @property
    def installation(self) -> Installation:
        return self._hook.installation

    @property
    def planner(self) -> Planner:
        return self.installation.planner(self.settings.action_order)

    @property
    def jobs(self) -> Jobs:
        return self._hook.jobs()

    @property
    def submitter(self) -> Submitter:
        return Submitter(self.jobs, self.inventory, self.actor, self.settings.action_order, lambda: self.planner)

    @cached_property
    def actor(self) -> Actor:
        """The user, for the audit trail."""
        return Actor(os_user(), VIA)

    @cached_property
    def schedules(self) -> Schedules:
        """The schedules; changes are recorded with this user."""
        return self._hook.installation.schedules(self.actor)

    @cached_property
    def registered_runs(self) -> RegisteredRuns:
        """The registered runs; changes are recorded with this user."""
        return self._hook.installation.registered_runs(self.actor)

    def builds(self, storage_conn_id: str | None) -> BuildManager:
        """Return the manager of builds, on the storage of this connection or of the setting."""
        return BuildManager(self._hook.builds(), BuildStorageHook(storage_conn_id).storage)

    @property
    def policies(self) -> Policies:
        return self._hook.policies()

    def report_role(self, role: Role, period: timedelta, command: str) -> None:
        """Record a sign of life of a command that cron may run every ``period`` in place of a DAG."""
        sign_of_process(self._hook.store(), role, period=period, instance=f"{command} on {socket.gethostname()}")

    def collector(self, run_states: RunStates) -> Collector:
        return open_collector(self._hook, run_states, self.catalog_hook)

    @cached_property
    def inventory(self) -> Inventory:
        """The list of tables; connects to the catalog when it is needed."""

        def reach() -> Catalog:
            return self.catalog_hook.config.load(limit=ANSWER_WITHIN)

        return Inventory(self._hook.store(), self.settings.catalog_name, reach, lambda: self.catalog_hook.config.catalog_id)

    @property
    def now(self) -> datetime:
        """The store's clock."""
        return self.jobs.store.clock()

    def table(self, text: str) -> TableName:
        """Return the name of a table in the command's catalog."""
        return self.catalog_hook.identified(text)

    def job(self, given: str) -> Job:
        """Return the job of an id, or the only job whose id begins with the text."""
        return find(self.jobs.get, self.jobs.ids_beginning, given, "a job id")


@contextmanager
def open_context(args: Namespace) -> Iterator[CommandContext]:
    """Open the services that the command's arguments name, and close their connections at the end of the block.

    A store that does not answer is an error within ``[snowpack] request_timeout``.
    """
    with ExitStack() as closing:
        yield CommandContext(args, closing)


def airflow_rest(args: Namespace, settings: Settings, wanted: str) -> AirflowRest:
    """Return the client of the connection that ``--airflow-conn-id`` or the setting names.

    A command is not a task, so Airflow's REST API is its only way to read DAG runs.

    :param wanted: what the command needs to know, for people.
    :raises UsageProblem: no connection is named.
    """
    conn_id = args.airflow_conn_id or settings.airflow_conn_id
    if conn_id is None:
        raise UsageProblem(
            f"No connection to Airflow's REST API is named, and only Airflow knows {wanted}. Nothing was done. "
            "Pass --airflow-conn-id, or set [snowpack] airflow_conn_id, to a connection of the type http with the address of "
            "the API server, a user and a password."
        )
    return AirflowRest.from_connection(conn_id)


def os_user() -> str:
    """Return the name of the operating system's user; ``uid 50000`` in a container whose user has no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # KeyError up to Python 3.12, OSError since
        return f"uid {os.getuid()}"


def command(run: Callable[[Namespace, CommandContext], ExitCode | None]) -> Callable[[Namespace], None]:
    """Make a command of a function of its arguments and the open services, which are closed when it ends."""

    @wraps(run)
    def opened(args: Namespace) -> ExitCode | None:
        with open_context(args) as here:
            return run(args, here)

    return ends_cleanly(opened)
