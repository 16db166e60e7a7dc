"""What the routes work with: the jobs, the tables, and the installation's order of actions.

They are opened with the first request that needs them, and tried again by the next one when the store was down: the app starts
without it and recovers by itself.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.inventory import Inventory
from airflow_snowpack.jobs import Actor, Desk, Jobs
from airflow_snowpack.maintenance import Action


@dataclass(frozen=True, slots=True)
class Services:
    """The open store and what stands on it.

    :param order: the installation's order of actions.
    """

    jobs: Jobs
    inventory: Inventory
    order: tuple[Action, ...]

    def table(self, database: str, table: str) -> TableName:
        """:raises InvalidTableName: it is not a name."""
        return TableName(self.inventory.catalog_name, database, table)

    def desk(self, name: str, via: str) -> Desk:
        """The desk of one user."""
        return Desk(self.jobs, Actor(name, via))

    def close(self) -> None:
        self.jobs.close()


class LazyServices:
    """Opens the services once, when they are first needed.

    :param open_services: may raise, as while the store is down; the next request tries again.
    """

    def __init__(self, open_services: Callable[[], Services]) -> None:
        self._open = open_services
        self._services: Services | None = None
        self._guard = threading.Lock()

    def get(self) -> Services:
        """:raises SnowpackError: whatever keeps them from being opened."""
        if self._services is None:
            with self._guard:
                if self._services is None:
                    self._services = self._open()
        return self._services

    def close(self) -> None:
        with self._guard:
            services, self._services = self._services, None
        if services is not None:
            services.close()


def _opened(request: Request) -> Services:
    lazy: LazyServices = request.app.state.services
    return lazy.get()


Open = Annotated[Services, Depends(_opened)]
