"""Wait until enough data has arrived in tables, counted by the triggers of schedules."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowSkipException
from airflow.sdk import PokeReturnValue

from airflow_snowpack.operators.base import UsesCatalog, owner_of
from airflow_snowpack.sensors.base import DecidesOnTimeout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from airflow.sdk import Context

    from airflow_snowpack.scheduling.sources.consumer import Look
    from airflow_snowpack.scheduling.triggers.trigger import Trigger
    from airflow_snowpack.triggers import DataArrivalTrigger


class IcebergDataArrivalSensor(UsesCatalog, DecidesOnTimeout):
    """Waits until enough data has arrived.

        IcebergDataArrivalSensor(
            task_id="wait",
            trigger=PartitionsAdded("web.views", 5) | BytesAdded("web.views", "100GB"),
            timeout=timedelta(hours=6),
            on_timeout="go_on",
        )

    It counts what arrived since the last run that passed or, before the first one, since this sensor's first check. What
    maintenance rewrites does not count. A retry, or a clear, counts from the start of the first try, unless another run has
    passed since.

    :param trigger: any trigger of schedules, as a value or as its JSON. (templated)
    :param consumer: the name under which the position in the tables is stored; by default the DAG and the task. Sensors with the
        same name share a position. (templated)
    :param on_timeout: what to do after the timeout: ``go_on`` with what has arrived, ``skip`` or ``fail``. After a skip or a
        failure, what has arrived stays new.
    :param store_conn_id, catalog_conn_id: the Airflow connections of the store and the catalog; ``None`` for the installation's.
    :param deferrable: wait in the triggerer, which uses no worker slot; ``False`` pokes in the worker.
    :param poke_interval: the time between two checks.
    :param timeout: how long to wait.

    Returns what arrived, by table, and whether it was ``enough``.
    """

    template_fields: Sequence[str] = ("trigger", "consumer", "store_conn_id", "catalog_conn_id")

    def __init__(
        self,
        *,
        trigger: Trigger | Mapping[str, Any],
        consumer: str = "{{ dag.dag_id }}.{{ task.task_id }}",
        timeout: timedelta | float = timedelta(hours=6),
        **kwargs: Any,
    ) -> None:
        super().__init__(timeout=timeout, **kwargs)
        self.trigger = trigger
        self.consumer = consumer

    def poke(self, context: Context) -> PokeReturnValue:
        """Count what has arrived, and let the run pass if it is enough."""
        look = self._count_arrivals(context)
        return PokeReturnValue(is_done=look is not None, xcom_value=None if look is None else _report(look))

    def question(self, context: Context, until: datetime) -> DataArrivalTrigger:
        from airflow_snowpack.triggers import DataArrivalTrigger

        return DataArrivalTrigger(
            consumer=self.consumer,
            owner=owner_of(context),
            awaited=self._trigger().to_json(),
            began_at=self._began_at(until).isoformat(),
            until=until.isoformat(),
            store_conn_id=self.store_conn_id,
            catalog_conn_id=self.catalog_conn_id,
            poll_seconds=self.poke_interval,
        )

    def time_out(self, context: Context) -> Any:
        from airflow_snowpack.humanize import duration

        waited = duration(self.timeout)
        if self.on_timeout == "go_on":
            self._until = None
            look = self._count_arrivals(context, accept_any=True)
            assert look is not None, "any amount is accepted"
            self.log.info("Timed out after %s: continuing with what has arrived", waited)
            return _report(look)
        message = f"Not enough data had arrived for {self.consumer} within {waited}. It stays new for the next run."
        raise AirflowSkipException(message) if self.on_timeout == "skip" else AirflowException(message)

    def _count_arrivals(self, context: Context, *, accept_any: bool = False) -> Look | None:
        """Return what passes, with ``accept_any`` any amount; ``None`` if it is not enough."""
        from airflow_snowpack.scheduling.sources.consumer import Consumer

        owner, began_at = owner_of(context), None if self._until is None else self._began_at(self._until)
        with self.installation() as hook:
            name = hook.settings.catalog_name
            consumer = Consumer(hook.store(), self.consumer, self._trigger(), catalog_name=name, began_at=began_at)
            load = self.catalog_hook().load_table
            while True:
                look = consumer.look(owner, load)
                self.log.info("%s", look.judgement.text)
                if not look.satisfied and not accept_any:
                    return None
                if consumer.consider(owner, look):
                    return look

    def _began_at(self, until: datetime) -> datetime:
        return until - timedelta(seconds=self.timeout)

    def _trigger(self) -> Trigger:
        from airflow_snowpack.scheduling import parse_trigger

        return parse_trigger(self.trigger)


def _report(look: Look) -> dict[str, Any]:
    tables = {name: dict(amounts) for name, amounts in look.amounts.items()}
    return {"enough": look.satisfied, "explanation": look.judgement.text, "tables": tables}
