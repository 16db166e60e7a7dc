"""Lock a table for a DAG's own writes, and wait for a table that another process has locked."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from airflow_snowpack.operators.base import UsesCatalog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from airflow_snowpack.jobs import TableLocked

IfLocked = Literal["fail", "skip", "wait"]
IF_LOCKED: tuple[IfLocked, ...] = ("fail", "skip", "wait")
RUN_HOLDER = "{{ dag.dag_id }}/{{ run_id }}"


class WaitsForTable(UsesCatalog):
    """Base of the operators that need a table to be free.

    The wait uses no worker slot. It ends at a fixed time, even if other processes lock the table again and again meanwhile.

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
        """Do the work if the table is free."""
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
            self._meet_locked_table(context, locked, until)

    def waits_in_any_case(self, context: Context, locked: TableLocked) -> bool:
        """Return whether the task waits for this lock whatever ``if_locked`` is."""
        return False

    def _meet_locked_table(self, context: Context, locked: TableLocked, until: str | None) -> NoReturn:
        if_locked = "wait" if self.if_locked != "wait" and self.waits_in_any_case(context, locked) else self.if_locked
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
        self.defer(trigger=trigger, method_name="execute_complete", kwargs={"until": until})
        raise AssertionError("defer() raises")


class AcquireTableLockOperator(WaitsForTable):
    """Locks one table, so that no maintenance runs on it while a DAG writes to it.

        acquire = AcquireTableLockOperator(task_id="acquire", table="demo.flights", if_locked="wait")
        release = ReleaseTableLockOperator(task_id="release", table="demo.flights", trigger_rule="all_done")
        acquire >> write >> release

    :param table: ``database.table``.
    :param holder: the holder of the lock; by default the DAG run, so that any task of the run can release it. Locking again with
        the same holder succeeds.
    :param ttl: the lock expires after this time. Choose a longer time than the protected work can take.
    :param store_conn_id: the Airflow connection of the store; ``None`` for the installation's. Likewise ``catalog_conn_id``.
    :param if_locked: what to do when another process has locked the table: ``fail``, ``skip``, or ``wait`` in the triggerer.
    :param wait_timeout: how long to wait at most.
    :param poll_interval: the time between two checks while waiting.

    Returns ``table``, ``holder`` and ``expires_at``.
    """

    template_fields: Sequence[str] = ("table", "holder", "store_conn_id", "catalog_conn_id")
    ui_color = "#f3ecd8"

    def __init__(
        self,
        *,
        table: str,
        holder: str = RUN_HOLDER,
        ttl: timedelta = timedelta(hours=1),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.holder = holder
        self.ttl = ttl

    def attempt(self, context: Context) -> dict[str, Any]:
        """Lock the table, or raise ``TableLocked``."""
        with self.installation() as hook:
            name = self.catalog_hook().identified(self.table)
            lock = hook.locks().acquire(name, self.holder, ttl=self.ttl)
        return {"table": str(lock.table), "holder": lock.holder, "expires_at": lock.expires_at.isoformat()}


class ReleaseTableLockOperator(UsesCatalog):
    """Releases a lock of :class:`AcquireTableLockOperator`. If this holder does not have the lock, nothing happens.

    Set ``trigger_rule="all_done"``, so that the task also runs after a failed write.

    :param table: ``database.table``.
    :param holder: the holder of the lock; by default the DAG run.
    :param store_conn_id: the Airflow connection of the store; ``None`` for the installation's. Likewise ``catalog_conn_id``.

    Returns whether the holder had the lock.
    """

    template_fields: Sequence[str] = ("table", "holder", "store_conn_id", "catalog_conn_id")
    ui_color = "#f3ecd8"

    def __init__(
        self,
        *,
        table: str,
        holder: str = RUN_HOLDER,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.holder = holder

    def execute(self, context: Context) -> bool:
        """Release the lock."""
        with self.installation() as hook:
            name = self.catalog_hook().identified(self.table)
            released = hook.locks().release(name, self.holder)
        if not released:
            self.log.warning("%s had no lock on the table %s; nothing was released", self.holder, name)
        return released
