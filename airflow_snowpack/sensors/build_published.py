"""Wait until the current build of a dataset is recent enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import PokeReturnValue

from airflow_snowpack.links import BuildRunLink, show_build
from airflow_snowpack.operators.arguments import read_moment, read_number
from airflow_snowpack.sensors.base import WaitingSensor

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from airflow.sdk import Context

    from airflow_snowpack.builds.registry.current_build import WantedBuild
    from airflow_snowpack.triggers import BuildPublishedTrigger


class BuildPublishedSensor(WaitingSensor):
    """Waits until the current build of a dataset is recent enough.

        BuildPublishedSensor(task_id="features", dataset="features_by_user")

    Only the current build counts: after a rollback to older data the sensor waits.

    :param dataset: the name of the dataset.
    :param as_of: data as of this time or later: a ``datetime``, or ISO 8601 text with a time zone. ``None``, without
        ``newer_than``: as of the end of the run's data interval; a run without one accepts any build.
    :param newer_than: a publication after this number, such as one that another sensor returned.
    :param store_conn_id: the Airflow connection of the store; ``None`` for the installation's.
    :param deferrable: wait in the triggerer, which uses no worker slot; ``False`` pokes in the worker.
    :param poke_interval: the time between two checks.

    Returns the current build: ``dataset``, ``run_id``, ``publication``, ``as_of`` and ``rows``.
    """

    template_fields: Sequence[str] = ("dataset", "as_of", "newer_than", "store_conn_id")
    operator_extra_links = (BuildRunLink(),)

    def __init__(
        self, *, dataset: str, as_of: datetime | str | None = None, newer_than: int | str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset
        self.as_of = as_of
        self.newer_than = newer_than

    def poke(self, context: Context) -> PokeReturnValue:
        from airflow_snowpack.builds.registry.current_build import current_build

        with self.installation() as hook:
            awaited = self._awaited(context)
            current = current_build(hook.store(), self.dataset)
        if current is None or not awaited.is_met(current):
            self.log.info("%s", awaited.unmet(current))
            return PokeReturnValue(is_done=False)
        show_build(self, context, current.dataset, current.run_id)
        xcom = {
            "dataset": current.dataset,
            "run_id": current.run_id,
            "publication": current.publication,
            "as_of": current.as_of.isoformat(),
            "rows": current.rows,
        }
        return PokeReturnValue(is_done=True, xcom_value=xcom)

    def question(self, context: Context, until: datetime) -> BuildPublishedTrigger:
        from airflow_snowpack.triggers import BuildPublishedTrigger

        awaited = self._awaited(context)
        as_of = awaited.as_of.isoformat() if awaited.as_of else None
        return BuildPublishedTrigger(self.dataset, as_of, awaited.newer_than, self.store_conn_id, self.poke_interval)

    def _awaited(self, context: Context) -> WantedBuild:
        from airflow_snowpack.builds.registry.current_build import WantedBuild

        as_of, newer_than = read_moment("as_of", self.as_of), read_number("newer_than", self.newer_than)
        if as_of is None and newer_than is None:
            as_of = context.get("data_interval_end")
        return WantedBuild(self.dataset, as_of, newer_than)
