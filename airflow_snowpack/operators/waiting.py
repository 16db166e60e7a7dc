"""What an operator does when somebody else holds the table: fail, skip, or wait in the triggerer and try again.

    class MyOperator(WaitsForTable):
        def attempt(self, context): ...        # raises TableLocked

The invariant: waiting holds no worker's slot, and ends at one moment that is fixed when the first wait begins, however often
somebody else is faster.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from airflow_snowpack.operators.base import refusals_are_final

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_snowpack.jobs import TableLocked

IfLocked = Literal["fail", "skip", "wait"]
CHOICES: tuple[IfLocked, ...] = ("fail", "skip", "wait")


class WaitsForTable(BaseOperator):
    """The part of an operator that meets a locked table.

    :param store_conn_id: the store's Airflow connection; ``None`` for the installation's.
    :param if_locked: ``fail`` (Airflow's own retries may help), ``skip``, or ``wait``.
    :param wait_timeout: how long to wait at most.
    :param poll_interval: the pause between two looks while waiting.
    """

    def __init__(
        self,
        *,
        store_conn_id: str | None = None,
        if_locked: IfLocked = "fail",
        wait_timeout: timedelta = timedelta(hours=1),
        poll_interval: timedelta = timedelta(seconds=10),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if if_locked not in CHOICES:
            raise ValueError(f"if_locked = {if_locked!r} is not known. Use one of: {', '.join(CHOICES)}.")
        self.store_conn_id = store_conn_id
        self.if_locked = if_locked
        self.wait_timeout = wait_timeout
        self.poll_interval = poll_interval

    def attempt(self, context: Context) -> Any:
        """Do the work, or raise ``TableLocked``."""
        raise NotImplementedError

    def execute(self, context: Context) -> Any:
        """Do the work if the table is free."""
        return self._attempt_or_wait(context, until=None)

    def execute_when_free(self, context: Context, event: dict[str, Any], until: str) -> Any:
        """Go on after a wait; the table may be locked again by now."""
        if problem := event.get("problem"):
            raise AirflowException(problem)
        if not event["free"]:
            raise AirflowException(
                f"The table {event['table']} was still locked by {event['holder']} when the wait of {self.wait_timeout} was "
                "over. Wait longer (wait_timeout), or cancel the holder's job."
            )
        return self._attempt_or_wait(context, until)

    def _attempt_or_wait(self, context: Context, until: str | None) -> Any:
        from airflow_snowpack.jobs import TableLocked

        with refusals_are_final():
            try:
                return self.attempt(context)
            except TableLocked as locked:
                self._meet_locked_table(locked, until)

    def _meet_locked_table(self, locked: TableLocked, until: str | None) -> NoReturn:
        if self.if_locked == "fail":
            raise AirflowException(str(locked)) from locked
        if self.if_locked == "skip":
            raise AirflowSkipException(str(locked)) from locked
        from airflow_snowpack.store import utc_now
        from airflow_snowpack.triggers import TableLockTrigger

        until = until or (utc_now() + self.wait_timeout).isoformat()
        self.log.info("%s Waiting until %s.", locked, until)
        trigger = TableLockTrigger(
            table=locked.lock.table.dotted,
            catalog=locked.lock.table.catalog,
            catalog_id=locked.lock.table.catalog_id,
            until=until,
            store_conn_id=self.store_conn_id,
            poll_seconds=self.poll_interval.total_seconds(),
        )
        self.defer(trigger=trigger, method_name="execute_when_free", kwargs={"until": until})
        raise AssertionError("defer() raises")
