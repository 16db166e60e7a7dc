"""Gives readers an earlier build again; nothing is written but the pointer.

RollbackBuildOperator(task_id="back", dataset="features_by_user", to="-1")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_snowpack.links import show_build
from airflow_snowpack.operators.build_report import run_report
from airflow_snowpack.operators.publishing import PublishesBuild

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context


class RollbackBuildOperator(PublishesBuild):
    """Publications the pointer of a dataset to an earlier build.

    :param dataset: of which dataset.
    :param to: a run's id, a manifest's path, or how many builds back: ``"-1"`` is the published one before the one
        that is served, in the order of their data.
    :param store_conn_id: the store's Airflow connection; ``None`` for the installation's. Likewise ``storage_conn_id``.

    Returns the publication. A later try, or a clear, of a task that has gone back by an offset goes no further back while readers
    are still given what it went back to; it returns the same. A build that was cleaned up, or never was, fails the task for good.
    """

    template_fields: Sequence[str] = ("dataset", "to", "store_conn_id", "storage_conn_id")

    def __init__(self, *, dataset: str, to: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset
        self.to = to
        self.declare_outlet(dataset)

    def execute(self, context: Context) -> dict[str, Any]:
        """Roll back."""
        from airflow_snowpack.builds.publish import rollback
        from airflow_snowpack.operators.base import owner_of

        show_build(self, context, self.dataset)
        with self.opened(self.dataset) as (registry, storage):
            outcome = rollback(registry, storage, self.dataset, str(self.to), by=owner_of(context), once=True)
            report = run_report(registry.run(self.dataset, outcome.run_id), outcome)
        show_build(self, context, self.dataset, outcome.run_id)
        self.leave_event(context, report)
        return report
