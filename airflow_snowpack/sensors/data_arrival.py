"""Waits until enough has arrived in tables: the triggers of schedules, inside of one DAG.

    IcebergDataArrivalSensor(
        task_id="wait",
        trigger=PartitionsAdded("web.views", 5) | BytesAdded("web.views", "100GB"),
        timeout=timedelta(hours=6),
        on_timeout="go_on",
    )

It counts what came since this sensor last let something pass, also across runs; what maintenance rewrites never counts. When it
lets something pass, everything that is there by then is taken for considered. A retry of the task, or a clear, counts from where
the first try began, as long as no other run has been let pass since.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.exceptions import AirflowException, AirflowSensorTimeout, AirflowSkipException

from airflow_snowpack.operators.base import owner_of
from airflow_snowpack.operators.refusals import refusals_are_final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from airflow_snowpack.scheduling.consumer import Consumer, Look
    from airflow_snowpack.scheduling.trigger import Trigger

OnTimeout = Literal["go_on", "skip", "fail"]
CHOICES: tuple[OnTimeout, ...] = ("go_on", "skip", "fail")


class IcebergDataArrivalSensor(BaseSensorOperator):
    """Waits for data.

    :param trigger: what to wait for: any trigger that a schedule may have, as a value or as its JSON (which may be templated).
        Everything counts from when something passed last or, before the first time, from when this sensor looked first.
    :param consumer: under which name the place is kept; the DAG and the task, when nothing is said. A consumer begins at its
        first look: what its tables have by then does not count.
    :param on_timeout: when the time is up: ``go_on`` with what there is, ``skip``, or ``fail``. What was skipped stays new.
    :param deferrable: wait in the triggerer, without a worker's slot; the default.

    Returns what arrived, by table, and whether it was ``enough``.
    """

    template_fields: Sequence[str] = ("trigger", "consumer", "store_conn_id", "catalog_conn_id")
    ui_color = "#e6f1f2"

    def __init__(
        self,
        *,
        trigger: Trigger | Mapping[str, Any],
        consumer: str = "{{ dag.dag_id }}.{{ task.task_id }}",
        on_timeout: OnTimeout = "skip",
        deferrable: bool = True,
        store_conn_id: str | None = None,
        catalog_conn_id: str | None = None,
        poke_interval: timedelta | float = timedelta(seconds=10),
        timeout: timedelta | float = timedelta(hours=6),
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, timeout=timeout, **kwargs)
        if on_timeout not in CHOICES:
            raise ValueError(f"on_timeout = {on_timeout!r} is not known. Use one of: {', '.join(CHOICES)}.")
        self.trigger = trigger
        self.consumer = consumer
        self.on_timeout = on_timeout
        self.deferrable = deferrable
        self.store_conn_id = store_conn_id
        self.catalog_conn_id = catalog_conn_id

    def execute(self, context: Context) -> Any:
        """Look once, and wait if it is not enough."""
        if not self.deferrable:
            try:
                return super().execute(context)
            except AirflowSensorTimeout:
                return self._time_out(context)
        from airflow_snowpack.store import utc_now

        now = utc_now()
        return self._look_or_wait(context, began_at=now, until=now + timedelta(seconds=self.timeout))

    def go_on(self, context: Context, event: dict[str, Any], began_at: str, until: str) -> Any:
        """The triggerer saw enough, or the end of the time."""
        if event["why"] == "over":
            return self._time_out(context)
        return self._look_or_wait(context, datetime.fromisoformat(began_at), datetime.fromisoformat(until))

    def poke(self, context: Context) -> PokeReturnValue:
        """Look, and let pass what is enough."""
        look = self._look(context, None)
        return PokeReturnValue(is_done=look is not None, xcom_value=_report(look, enough=True) if look is not None else None)

    def _look_or_wait(self, context: Context, began_at: datetime, until: datetime) -> Any:
        look = self._look(context, began_at)
        if look is not None:
            return _report(look, enough=True)
        from airflow_snowpack.triggers.data_arrival import DataArrivalTrigger

        trigger = DataArrivalTrigger(
            consumer=self.consumer,
            owner=owner_of(context),
            awaited=self._trigger().to_json(),
            began_at=began_at.isoformat(),
            until=until.isoformat(),
            store_conn_id=self.store_conn_id,
            catalog_conn_id=self.catalog_conn_id,
            poll_seconds=self.poke_interval,
        )
        self.defer(trigger=trigger, method_name="go_on", kwargs={"began_at": began_at.isoformat(), "until": until.isoformat()})
        return None

    def _look(self, context: Context, began_at: datetime | None, *, whatever: bool = False) -> Look | None:
        """What is let pass; ``None`` when it is not enough.

        :param whatever: let pass what there is.
        """
        from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
        from airflow_snowpack.hooks.store import SnowpackHook

        with refusals_are_final(), SnowpackHook(self.store_conn_id) as hook:
            consumer, catalog = self._consumer(hook, began_at), IcebergCatalogHook(self.catalog_conn_id)
            while True:
                look = consumer.look(owner_of(context), catalog.load_table)
                self.log.info("%s", look.judgement.says)
                if not look.satisfied and not whatever:
                    return None
                if consumer.consider(owner_of(context), look):
                    return look

    def _time_out(self, context: Context) -> Any:
        waited = timedelta(seconds=self.timeout)
        if self.on_timeout == "go_on":
            look = self._look(context, None, whatever=True)
            assert look is not None, "whatever there is"
            self.log.info("The time of %s is up: going on with what there is", waited)
            return _report(look, enough=look.satisfied)
        says = f"Not enough had arrived for {self.consumer} when the time of {waited} was up. It stays new for the next run."
        raise AirflowSkipException(says) if self.on_timeout == "skip" else AirflowException(says)

    def _trigger(self) -> Trigger:
        from airflow_snowpack.scheduling import parse_trigger

        return parse_trigger(self.trigger)

    def _consumer(self, hook: Any, began_at: datetime | None) -> Consumer:
        from airflow_snowpack.scheduling.consumer import Consumer

        return Consumer(hook.store(), self.consumer, self._trigger(), catalog_name=hook.settings.catalog_name, began_at=began_at)


def _report(look: Look, *, enough: bool) -> dict[str, Any]:
    return {"enough": enough, "says": look.judgement.says, "tables": {name: dict(what) for name, what in look.amounts.items()}}
