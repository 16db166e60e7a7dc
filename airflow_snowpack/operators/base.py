"""Shared by the operators: the task instance's identity, which errors are retried, the end of a killed task, and lineage."""

from __future__ import annotations

import os
import socket
import sys
import threading
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, AirflowSkipException, AirflowTaskTimeout
from airflow.sdk import BaseOperator

from airflow_snowpack.errors import Kind, SnowpackError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

    from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
    from airflow_snowpack.hooks.store import SnowpackHook
    from airflow_snowpack.iceberg import TableName
    from airflow_snowpack.jobs import TableLocked
    from airflow_snowpack.lineage.operation import DatasetAt, TableAt
    from airflow_snowpack.maintenance.writers import DagsOfTables

    Lineage = OperatorLineage[Any, Any] | None
    IfLocked = Literal["fail", "skip", "wait"]

IF_LOCKED: tuple[IfLocked, ...] = ("fail", "skip", "wait")
KILLED_EXIT_CODE = 143  # 128 + SIGTERM, as shells report it
KILL_LIMIT_S = 4.2  # Airflow sends SIGKILL 5 s after SIGTERM; an attempt at a job gives up after 4 s

RETRIED = {
    Kind.INVALID: False,
    Kind.NOT_FOUND: False,
    Kind.CONFLICT: True,
    Kind.REFUSED: False,
    Kind.FORBIDDEN: False,
    Kind.UNAVAILABLE: True,
    Kind.DAMAGED: True,
    Kind.MISCONFIGURED: False,
    Kind.FAILED: True,
}


def owner_of(context: Context) -> str:
    """Return ``dag/run/task[index]``, the owner of what the task instance locks and submits.

    It is the same for every try, also after a clear: a later try recognizes its job. ``ti.id`` differs in each try.
    """
    from airflow_snowpack.airflow.task_ref import TaskRef

    return TaskRef.of(context["ti"]).name


def is_retry(context: Context) -> bool:
    """Return whether the try follows one that failed or was lost; ``False`` for the first try, and for the first after a clear.

    A clear raises ``max_tries`` by the task's retries: the first try after it has as many left as the very first.
    """
    instance: Any = context["ti"]
    left: int = instance.max_tries - instance.try_number
    return instance.try_number > 1 and left < (context["task"].retries or 0) - 1


def worker_of(context: Context) -> str:
    """Return the owner, the try and the process, which lead to the log."""
    from airflow_snowpack.airflow.task_ref import TaskRef

    return f"{TaskRef.of(context['ti'])} on {socket.gethostname()}:{os.getpid()}"


@contextmanager
def refusals_are_final() -> Iterator[None]:
    """Raise an ``AirflowFailException``, which Airflow does not retry, for an error that would recur in a retry."""
    try:
        yield
    except SnowpackError as error:
        if is_retried(error):
            raise
        raise AirflowFailException(str(error)) from error


def is_retried(error: SnowpackError) -> bool:
    """Return whether another attempt at the task may succeed."""
    from airflow_snowpack.builds.errors import NothingPublished
    from airflow_snowpack.iceberg.errors import TableNotFound
    from airflow_snowpack.interim.errors import InterimTableNotFound

    # Another task may create what is missing before the next attempt.
    return RETRIED[error.kind] or isinstance(error, TableNotFound | InterimTableNotFound | NothingPublished)


class UsesStore(BaseOperator):
    """Base of the operators that use the store.

    :param store_conn_id: the Airflow connection of the store; ``None`` for the installation's.
    """

    def __init__(self, *, store_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.store_conn_id = store_conn_id

    @contextmanager
    def installation(self) -> Iterator[SnowpackHook]:
        """Open the store. An error in the block that would recur in a retry fails the task without one."""
        from airflow_snowpack.hooks.store import SnowpackHook

        with refusals_are_final(), SnowpackHook(self.store_conn_id) as hook:
            yield hook


class UsesCatalog(UsesStore):
    """Base of the operators that use the store and the catalog.

    :param catalog_conn_id: the Airflow connection of the catalog; ``None`` for the installation's.
    """

    def __init__(self, *, catalog_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.catalog_conn_id = catalog_conn_id

    def catalog_hook(self) -> IcebergCatalogHook:
        from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook

        return IcebergCatalogHook(self.catalog_conn_id)

    def dags_of_tables(self, context: Context, hook: SnowpackHook, table: TableName | None = None) -> Callable[[], DagsOfTables]:
        """Return a function that reads which DAGs write to and read the tables of the catalog, or only this table.

        The task's run does not count as a running writer.
        """
        from airflow_snowpack.hooks.table_dags import read_dags_of_tables

        own_run = (context["ti"].dag_id, context["ti"].run_id)
        conn_id = self.catalog_conn_id
        return lambda: read_dags_of_tables(hook.settings, table, catalog_conn_id=conn_id, own_run=own_run)


class WaitsForTable(UsesCatalog):
    """Base of the operators that need a table to be free.

    The wait uses no worker slot. It ends at a fixed time, even if other processes lock the table again and again.

    :param if_locked: what to do when another process has locked the table: ``fail``, ``skip``, or ``wait`` in the triggerer.
    :param wait_timeout: how long to wait at most.
    :param poll_interval: the time between two checks while waiting.
    """

    def __init__(
        self,
        *,
        if_locked: IfLocked = "fail",
        wait_timeout: timedelta = timedelta(hours=1),
        poll_interval: timedelta = timedelta(seconds=10),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if if_locked not in IF_LOCKED:
            raise ValueError(f"if_locked = {if_locked!r} is not valid. Use one of: {', '.join(IF_LOCKED)}.")
        self.if_locked = if_locked
        self.wait_timeout = wait_timeout
        self.poll_interval = poll_interval

    def attempt(self, context: Context) -> Any:
        """Do the work, or raise ``TableLocked``."""
        raise NotImplementedError

    def execute(self, context: Context) -> Any:
        """Do the work if the table is free; otherwise fail, skip or wait."""
        return self._attempt_or_wait(context, until=None)

    def execute_complete(self, context: Context, event: dict[str, Any], until: str) -> Any:
        """Try again after a wait; another process may have locked the table again."""
        if problem := event.get("problem"):
            raise AirflowException(problem)
        if not event["free"]:
            from airflow_snowpack.humanize import duration

            raise AirflowException(
                f"The table {event['table']} was still locked by {event['holder']} after {duration(self.wait_timeout)}. Increase "
                "wait_timeout, or cancel the holder's job."
            )
        return self._attempt_or_wait(context, until)

    def _attempt_or_wait(self, context: Context, until: str | None) -> Any:
        from airflow_snowpack.jobs import TableLocked

        try:
            return self.attempt(context)
        except TableLocked as locked:
            self._handle_locked_table(context, locked, until)

    def must_wait(self, context: Context, locked: TableLocked) -> bool:
        """Return whether the task waits for this lock regardless of ``if_locked``."""
        return False

    def time_left(self, context: Context) -> timedelta | None:
        """Return a limit of the wait for the table other than ``wait_timeout``; ``None``: there is none."""
        return None

    def _handle_locked_table(self, context: Context, locked: TableLocked, until: str | None) -> NoReturn:
        if_locked = "wait" if self.if_locked != "wait" and self.must_wait(context, locked) else self.if_locked
        if if_locked == "fail":
            raise AirflowException(str(locked)) from locked
        if if_locked == "skip":
            raise AirflowSkipException(str(locked)) from locked
        from airflow_snowpack.store import utc_now
        from airflow_snowpack.triggers import TableLockTrigger

        until = until or (utc_now() + self.wait_timeout).isoformat()
        self.log.info("%s Waiting until %s.", locked, until)
        table = locked.lock.table
        trigger = TableLockTrigger(
            table=table.dotted,
            catalog=table.catalog,
            catalog_id=table.catalog_id,
            until=until,
            store_conn_id=self.store_conn_id,
            poll_seconds=self.poll_interval.total_seconds(),
        )
        left = self.time_left(context)
        self.defer(trigger=trigger, method_name="execute_complete", kwargs={"until": until}, timeout=left)
        raise AssertionError("defer() raises")


class StopsWhenKilled(BaseOperator):
    """Base of operators whose work must stop when Airflow ends the task.

    Airflow's SIGTERM calls ``on_kill`` and would then let ``execute`` continue for five more seconds. ``on_kill`` therefore stops
    the work, fails what the task has started, and ends the process. Nothing relies on it: without it the leases expire, and the
    next try takes over or starts again.
    """

    _killed = False
    _postponed = False

    def abandon(self, reason: str) -> None:
        """Stop the running work, if any, and fail it with this reason.

        This runs in a separate thread: the signal may have interrupted the main thread while it held the locks needed here.
        """
        raise NotImplementedError

    @contextmanager
    def kill_postponed(self) -> Iterator[None]:
        """Start work in this block: a kill that arrives meanwhile takes effect at its end, when ``abandon`` finds the work."""
        self._postponed = True
        try:
            yield
        finally:
            self._postponed = False
            if self._killed:
                self.on_kill()

    def on_kill(self) -> None:
        """Abandon the work and end the process."""
        self._killed = True
        if self._postponed:
            return
        reason = f"Airflow ended the task {self.dag_id}.{self.task_id}"
        abandoning = threading.Thread(target=self.abandon, args=(reason,), name="snowpack-kill", daemon=True)
        abandoning.start()
        abandoning.join(KILL_LIMIT_S)
        if isinstance(sys.exception(), AirflowTaskTimeout):
            return  # the task's time limit, which Airflow reports better than an exit
        raise SystemExit(KILLED_EXIT_CODE)


class ReportsLineage(UsesStore):
    """Base of operators that report to OpenLineage which tables this try read and wrote, with their snapshots and health.

    Airflow's OpenLineage provider calls these methods when the task has ended. A failed try reports too, since the tables keep
    what it committed. The answer comes from the operations recorded in the store, so an operator that was deferred, or ran many
    jobs, need not remember them.
    """

    catalog_conn_id: str | None = None

    def read_and_written(self) -> tuple[Sequence[TableAt | DatasetAt], Sequence[TableAt | DatasetAt]]:
        """Return inputs and outputs that are not part of any recorded operation of this task."""
        return (), ()

    def job_ids(self) -> Sequence[str]:
        """Return the maintenance jobs that this try planned or ran, other than those of its recorded operations."""
        return ()

    def get_openlineage_facets_on_complete(self, task_instance: RuntimeTaskInstanceProtocol) -> Lineage:
        from airflow_snowpack.hooks.openlineage import lineage_of

        conn_ids = {"store_conn_id": self.store_conn_id, "catalog_conn_id": self.catalog_conn_id}
        return lineage_of(task_instance, self.read_and_written(), self.job_ids(), **conn_ids)

    def get_openlineage_facets_on_failure(self, task_instance: RuntimeTaskInstanceProtocol) -> Lineage:
        return self.get_openlineage_facets_on_complete(task_instance)
