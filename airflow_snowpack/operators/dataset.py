"""What an operator needs that works on builds which are there: the registry, and the storage that the dataset stands on.

    class MyOperator(UsesDataset):
        def execute(self, context):
            with self.opened() as (registry, storage): ...

Where a dataset stands, the registry knows; only the way to get in there is said by a connection.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_snowpack.links import BuildRunLink
from airflow_snowpack.operators.base import refusals_are_final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_snowpack.builds.registry.runs import BuildRegistry
    from airflow_snowpack.builds.storage import Storage


class UsesDataset(BaseOperator):
    """The part of an operator that opens what a dataset consists of.

    :param store_conn_id: the store's Airflow connection; ``None`` for the installation's.
    :param storage_conn_id: the connection of the object storage; ``None`` for the installation's. See
        :class:`~airflow_snowpack.hooks.BuildStorageHook`.
    """

    ui_color = "#e4f3e1"
    operator_extra_links = (BuildRunLink(),)

    def __init__(self, *, store_conn_id: str | None = None, storage_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.store_conn_id = store_conn_id
        self.storage_conn_id = storage_conn_id

    @contextmanager
    def registry(self) -> Iterator[BuildRegistry]:
        """The registry; what a retry would meet again ends the task for good."""
        from airflow_snowpack.hooks.store import SnowpackHook

        with refusals_are_final(), SnowpackHook(self.store_conn_id) as hook:
            yield hook.builds()

    @contextmanager
    def opened(self, dataset: str) -> Iterator[tuple[BuildRegistry, Storage]]:
        """The registry, and the storage of a dataset that is there."""
        with self.registry() as registry:
            yield registry, self.storage_at(registry.dataset(dataset).url)

    def storage_at(self, url: str) -> Storage:
        """The storage at a dataset's root."""
        from airflow_snowpack.hooks.build_storage import BuildStorageHook

        return BuildStorageHook(self.storage_conn_id).storage(url)
