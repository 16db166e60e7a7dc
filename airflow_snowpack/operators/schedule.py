"""Start the DAG runs of schedules, in a task."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowException

from airflow_snowpack.operators.base import UsesCatalog, worker_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow.sdk import Context

    from airflow_snowpack.hooks.store import SnowpackHook
    from airflow_snowpack.scheduling import Scheduler

IDLE_PAUSE_S = 0.2


class SnowpackDispatcherOperator(UsesCatalog):
    """Starts the DAG runs of schedules: the scheduler of :mod:`airflow_snowpack.scheduling`, as a task.

        SnowpackDispatcherOperator(task_id="dispatch")

    When there is nothing to do, the task waits in the triggerer, which records events and resumes it. It ends after ``run_for``:
    the DAG's next run continues with new code and a new log. Any number of dispatchers can run at the same time.

    :param run_for: how long the task runs.
    :param linger: how long an idle task keeps its worker slot, where it launches within a second, before it waits in the
        triggerer. After that, nothing resumes it for ``[snowpack] resume_delay``.
    :param look_interval: the time between two checks in the triggerer.
    :param store_conn_id, catalog_conn_id: the Airflow connections of the store and the catalog; ``None`` for the installation's.
    :param airflow_conn_id: the Airflow connection of Airflow's REST API, which constraints on pools need and which finds ends of
        runs at less cost; ``None`` for the installation's.

    The task first deploys the schedules that files declare (``[snowpack] schedule_files``). Returns how many runs it launched.
    """

    template_fields: Sequence[str] = ("store_conn_id", "catalog_conn_id", "airflow_conn_id")
    ui_color = "#e6f1f2"

    def __init__(
        self,
        *,
        run_for: timedelta = timedelta(minutes=55),
        linger: timedelta = timedelta(seconds=20),
        look_interval: timedelta = timedelta(milliseconds=500),
        airflow_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.run_for = run_for
        self.linger = linger
        self.look_interval = look_interval
        self.airflow_conn_id = airflow_conn_id

    def execute(self, context: Context) -> int:
        """Deploy the declared schedules, and start to work."""
        from airflow_snowpack.hooks.dag_files import bundle_folder
        from airflow_snowpack.hooks.services import deploy

        with self.installation() as hook:
            deploy(hook.store(), hook.settings, bundle_folder(context), by=worker_of(context))
            until = hook.store().clock() + self.run_for
            return self._work(context, hook, until, launched=0)

    def execute_complete(self, context: Context, event: dict[str, Any], until: str, launched: int) -> int:
        """Continue when something is due, or end when ``run_for`` has elapsed."""

        if problem := event.get("problem"):
            raise AirflowException(problem)
        with self.installation() as hook:
            return self._work(context, hook, datetime.fromisoformat(until), launched)

    def _work(self, context: Context, hook: SnowpackHook, until: datetime, launched: int) -> int:
        """Work while there is something to do, then wait in the triggerer."""
        from airflow_snowpack.hooks.services import open_poller, runs_for_a_task
        from airflow_snowpack.iceberg.broker import shared_broker
        from airflow_snowpack.operators.housekeeping import sign_of_task
        from airflow_snowpack.scheduling import Scheduler
        from airflow_snowpack.scheduling.scheduler import ROUND_PATIENCE
        from airflow_snowpack.store.signs_of_life import BEAT, Role

        store, runs = hook.store(), runs_for_a_task(hook.settings, self.airflow_conn_id, ROUND_PATIENCE)
        sign, polls = (sign_of_task(store, role, context, BEAT) for role in (Role.SCHEDULER, Role.POLLER))
        scheduler = Scheduler(store, runs, runs, worker_of(context), sign, patience=ROUND_PATIENCE)
        config = self.catalog_hook().config
        with shared_broker(config) as broker, open_poller(store, hook.settings, broker).worker(polls):
            launched += self._until_idle(scheduler, lambda: store.clock() < until)
        if store.clock() < until:
            self._wait(context, until, launched)
        return launched

    def _until_idle(self, scheduler: Scheduler, may_continue: Callable[[], bool]) -> int:
        """Work until nothing has happened for ``linger``; return how many runs were launched."""
        launched, busy_at = 0, time.monotonic()
        while may_continue() and time.monotonic() - busy_at <= self.linger.total_seconds():
            report = scheduler.step()
            launched += len(report.launched)
            if report.is_idle:
                time.sleep(IDLE_PAUSE_S)
            else:
                busy_at = time.monotonic()
        return launched

    def _wait(self, context: Context, until: datetime, launched: int) -> None:
        from airflow_snowpack.triggers.dispatcher import DispatcherTrigger

        trigger = DispatcherTrigger(
            until.isoformat(),
            self.store_conn_id,
            self.catalog_conn_id,
            self.look_interval.total_seconds(),
            of_dag=context["ti"].dag_id,
            of_task=context["ti"].task_id,
        )
        self.defer(trigger=trigger, method_name="execute_complete", kwargs={"until": until.isoformat(), "launched": launched})
