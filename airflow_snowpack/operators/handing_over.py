"""Hands interim tables over inside of a task, and leaves them tidy when Airflow ends the task.

class MyOperator(HandsOver):
    def execute(self, context):
        with self.handing_over(context) as handover:
            session = self.spark_session()
            handed = handover.run(session, lambda: handover.give(handover.read(ref, session).distinct()))
        return handed.to_json()
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_snowpack.durations import parse_duration
from airflow_snowpack.interim.names import Scope
from airflow_snowpack.operators.base import ReportsLineage, StopsWhenKilled
from airflow_snowpack.operators.consumers import consumers_of
from airflow_snowpack.operators.refusals import refusals_are_final
from airflow_snowpack.operators.table_name import refuse_shared_name
from airflow_snowpack.preservation import Preservation, parse_preservation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import timedelta

    from airflow.sdk import Context
    from pyspark.sql import SparkSession

    from airflow_snowpack.interim.handover import Handover, Keeping
    from airflow_snowpack.interim.model import Holder
    from airflow_snowpack.settings import Settings


class HandsOver(ReportsLineage, StopsWhenKilled):
    """The part of an operator that reads and writes interim tables.

    :param name: what the table that this task hands on can be found by, beside its reference. (templated) On a mapped task it
        has a template that tells the instances apart.
    :param scope: where the name is known: ``run`` or ``global``.
    :param preservation: ``FULL`` keeps what this task hands on when nobody needs it any more, ``NONE`` lets it go; without it the
        run decides, then the environment variable ``SNOWPACK_DEFAULT_PRESERVATION_MODE``, then ``NONE`` holds.
    :param ttl: for how long it is preserved, or keeps its global name, such as ``"7d"``; without it, without end.
    :param spark_conn_id: see :class:`~airflow_snowpack.hooks.IcebergSparkHook`.
    :param catalog_conn_id: the installation's own, if any: in another catalog nobody would drop the tables. Likewise
        ``store_conn_id``.
    :raises ValueError: the scope or the time is none.
    :raises InvalidPreservation: the preservation is none.
    """

    template_fields: Sequence[str] = ("name",)

    def __init__(
        self,
        *,
        name: str | None = None,
        scope: Scope | str = Scope.RUN,
        preservation: Preservation | str | None = None,
        ttl: timedelta | str | None = None,
        spark_conn_id: str | None = None,
        catalog_conn_id: str | None = None,
        store_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.name = self._name_as_written = name
        self.scope = Scope(scope).value
        self.preservation = parse_preservation(preservation, "preservation")
        self.ttl = None if ttl is None else parse_duration(ttl)
        self.spark_conn_id = spark_conn_id
        self.catalog_conn_id = catalog_conn_id
        self.store_conn_id = store_conn_id

    _handover: Handover | None = None

    @contextmanager
    def handing_over(self, context: Context) -> Iterator[Handover]:
        """This attempt at the task; at the end of a block that ends well, everything that was given is handed on.

        :raises AirflowFailException: a retry would meet the same error again.
        """
        from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
        from airflow_snowpack.hooks.store import SnowpackHook
        from airflow_snowpack.interim.handover import Handover

        catalog = IcebergCatalogHook(self.catalog_conn_id)
        try:
            with refusals_are_final(), SnowpackHook(self.store_conn_id) as hook:
                self._refuse_elsewhere(hook.settings)
                self._handover = Handover(
                    hook.interim(),
                    lambda: catalog.catalog,
                    holder_of(context),
                    catalog_name=catalog.settings.catalog_name,
                    consumers=consumers_of(self),
                    keeping=self._keeping(context),
                )
                with self._handover as handover:
                    yield handover
        finally:
            self._handover = None

    def spark_session(self) -> SparkSession:
        """The session that the arguments lead to.

        :raises SparkUnavailable: this machine has no Spark.
        """
        from airflow_snowpack.hooks.iceberg_spark import IcebergSparkHook

        return IcebergSparkHook(self.spark_conn_id, self.catalog_conn_id).session()

    def abandon(self, reason: str) -> None:
        """Stop Spark, and give up what was written."""
        if (handover := self._handover) is not None:
            handover.interrupt()
            handover.abandon(reason)

    def _refuse_elsewhere(self, settings: Settings) -> None:
        """:raises OtherInstallation: the collector would not look there."""
        from airflow_snowpack.hooks.errors import OtherInstallation

        own = {"catalog_conn_id": settings.catalog_conn_id, "store_conn_id": settings.store_conn_id}
        for argument, known in own.items():
            given = getattr(self, argument)
            if given not in (None, known):
                raise OtherInstallation(argument, given, known)

    def _keeping(self, context: Context) -> Keeping:
        from airflow_snowpack.interim.handover import Keeping
        from airflow_snowpack.interim.preservation import resolve_preservation

        refuse_shared_name(self, self._name_as_written, context["ti"].map_index)
        preservation = resolve_preservation(self.preservation, context["dag_run"].conf, os.environ)
        return Keeping(self.name or None, Scope(self.scope), preservation, self.ttl)


def holder_of(context: Context) -> Holder:
    """This attempt at the task, as the store knows it."""
    from airflow_snowpack.interim.model import Holder, TaskKey

    instance = context["ti"]
    map_index = -1 if instance.map_index is None else instance.map_index
    task = TaskKey(instance.dag_id, instance.run_id, instance.task_id, map_index)
    return Holder(task, str(instance.id), instance.try_number, instance.start_date)
