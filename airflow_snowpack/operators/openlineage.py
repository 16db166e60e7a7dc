"""What an operator tells OpenLineage: the tables that this very try of its task read and wrote, with their snapshots.

    class MyOperator(LineageFacets, BaseOperator):
        store_conn_id: str | None
        catalog_conn_id: str | None

Airflow's provider for OpenLineage asks for it when the task has ended, however it ended: what a try that failed had committed is
in the tables all the same. The answer comes from the operations that the work itself has recorded in the store, so an operator
that was deferred or that ran a whole queue of jobs needs to remember nothing. Without the provider nobody asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

    from airflow_snowpack.store.operation import DatasetAt, TableAt


class LineageFacets:
    """The part of an operator that answers OpenLineage."""

    def read_and_written(self) -> tuple[Sequence[TableAt | DatasetAt], Sequence[TableAt | DatasetAt]]:
        """Inputs and outputs that no operation of this task tells of, for an operator that knows more."""
        return (), ()

    def get_openlineage_facets_on_complete(self, task_instance: RuntimeTaskInstanceProtocol) -> OperatorLineage[Any, Any] | None:
        """The datasets of a task that has succeeded."""
        from airflow_snowpack.hooks.openlineage import lineage_of

        store_conn_id, catalog_conn_id = getattr(self, "store_conn_id", None), getattr(self, "catalog_conn_id", None)
        return lineage_of(task_instance, self.read_and_written(), store_conn_id=store_conn_id, catalog_conn_id=catalog_conn_id)

    def get_openlineage_facets_on_failure(self, task_instance: RuntimeTaskInstanceProtocol) -> OperatorLineage[Any, Any] | None:
        """The same of one that has failed: whatever it had committed is there."""
        return self.get_openlineage_facets_on_complete(task_instance)
