"""Waits until readers of a dataset are given a build that is recent enough.

    BuildPublishedSensor(task_id="features", dataset="features_by_user")                        # of this run's interval, or later
    BuildPublishedSensor(task_id="next", dataset="features_by_user", newer_than="{{ params.publication }}")

What counts is what is served: after a rollback to older data it waits, and a newer build than the one asked for is as good.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.exceptions import AirflowException

from airflow_snowpack.links import BuildRunLink, show_build
from airflow_snowpack.operators.refusals import refusals_are_final
from airflow_snowpack.operators.rendered import read_moment, read_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from airflow_snowpack.builds.registry.current_build import Awaited


class BuildPublishedSensor(BaseSensorOperator):
    """Waits for a publication.

    :param dataset: of which dataset.
    :param as_of: data of this moment or later: ISO 8601 text with a time zone, or a ``datetime``. ``None``, without
        ``newer_than``: of the end of the run's data interval; in a run that has none, whatever is published.
    :param newer_than: a publication after this number, such as the one that another sensor returned.
    :param store_conn_id: the store's Airflow connection; ``None`` for the installation's.
    :param deferrable: wait in the triggerer, without a worker's slot; the default.

    Returns what is served: ``dataset``, ``run_id``, ``publication``, ``as_of`` and ``rows``.
    """

    template_fields: Sequence[str] = ("dataset", "as_of", "newer_than", "store_conn_id")
    ui_color = "#e6f1f2"
    operator_extra_links = (BuildRunLink(),)

    def __init__(
        self,
        *,
        dataset: str,
        as_of: datetime | str | None = None,
        newer_than: int | str | None = None,
        store_conn_id: str | None = None,
        deferrable: bool = True,
        poke_interval: timedelta | float = timedelta(seconds=10),
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, **kwargs)
        self.dataset = dataset
        self.as_of = as_of
        self.newer_than = newer_than
        self.store_conn_id = store_conn_id
        self.deferrable = deferrable

    def execute(self, context: Context) -> Any:
        """Look once, and wait in the triggerer if it is not there."""
        if not self.deferrable:
            return super().execute(context)
        looked = self.poke(context)
        if looked.is_done:
            return looked.xcom_value
        self._wait(context)
        return None

    def poke(self, context: Context) -> PokeReturnValue:
        """Look at what is served."""
        from airflow_snowpack.builds.registry.current_build import served_build
        from airflow_snowpack.hooks.store import SnowpackHook

        with refusals_are_final(), SnowpackHook(self.store_conn_id) as hook:
            awaited = self._awaited(context)
            served = served_build(hook.store(), self.dataset)
        if served is None or not awaited.is_met(served):
            self.log.info("%s", awaited.unmet(served))
            return PokeReturnValue(is_done=False)
        show_build(self, context, served.dataset, served.run_id)
        return PokeReturnValue(
            is_done=True,
            xcom_value={
                "dataset": served.dataset,
                "run_id": served.run_id,
                "publication": served.publication,
                "as_of": served.as_of.isoformat(),
                "rows": served.rows,
            },
        )

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """The trigger saw it; a rollback may have come since."""
        if problem := event.get("problem"):
            raise AirflowException(problem)
        looked = self.poke(context)
        if looked.is_done:
            return looked.xcom_value
        self._wait(context)
        return None

    def _wait(self, context: Context) -> None:
        from airflow_snowpack.triggers.build_published import BuildPublishedTrigger

        awaited = self._awaited(context)
        trigger = BuildPublishedTrigger(
            self.dataset,
            awaited.as_of.isoformat() if awaited.as_of else None,
            awaited.newer_than,
            self.store_conn_id,
            self.poke_interval,
        )
        self.defer(trigger=trigger, method_name="execute_complete", timeout=timedelta(seconds=self.timeout))

    def _awaited(self, context: Context) -> Awaited:
        from airflow_snowpack.builds.registry.current_build import Awaited

        as_of, newer_than = read_moment("as_of", self.as_of), read_number("newer_than", self.newer_than)
        if as_of is None and newer_than is None:
            as_of = context.get("data_interval_end")
        return Awaited(self.dataset, as_of, newer_than)
