"""The asset of a dataset, at an operator that may move its pointer.

    class MyOperator(PublishesBuild):
        def execute(self, context):
            self.leave_event(context, report)          # an event if the pointer has moved, none if it has not

The invariant: an event says that readers are given another build. A run that went into history leaves none, and a DAG that is
scheduled on the dataset that it publishes does not start itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_snowpack.assets import (
    declare_outlet,
    publication_outlet,
    published_builds,
    record_publication,
    withhold_event,
)
from airflow_snowpack.operators.base import ReportsLineage
from airflow_snowpack.operators.dataset import UsesDataset

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Asset, AssetAlias, Context

EVENT = ("run_id", "publication", "rows", "as_of")


class PublishesBuild(ReportsLineage, UsesDataset):
    """The part of an operator that leaves the events of a dataset."""

    _outlet: Asset | AssetAlias | None = None

    def declare_outlet(self, dataset: object) -> None:
        """Declare what events may come.

        :param dataset: its name as the DAG file has it; a template, or ``None``, for one that is known when the task runs.
        """
        self._outlet = declare_outlet(self, publication_outlet(dataset), published_builds())

    def leave_event(self, context: Context, report: Mapping[str, Any]) -> None:
        """Leave the event of a pointer that has moved.

        :param report: what the task returns.
        """
        if self._outlet is None:
            return
        if report["moved"]:
            record_publication(context, self._outlet, report["dataset"], {name: report[name] for name in EVENT})
        else:
            withhold_event(context, self._outlet)
