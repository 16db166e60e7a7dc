"""Whether an actor may start the DAG of a schedule or a registered run.

    starts = StartPermission(Actor("vera", "api"), may_start=lambda dag_id: dag_id != "payroll")
    starts.transact(store, lambda conn: starts.require("payroll"))      # raises DagNotAllowed

Creating, changing, resuming and running what starts a DAG requires it; stopping does not. The DAG of a stored schedule is read in
the transaction that changes it, and another process may decide about the permission. A transaction that needs a decision is
therefore rolled back, gets it without holding locks, and is repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import sqlalchemy as sa

from airflow_snowpack.scheduling.errors import DagNotAllowed
from airflow_snowpack.store import Actor, Store

T = TypeVar("T")
MayStart = Callable[[str], bool]


class StartPermission:
    """Remembers for one request which DAGs its actor may start.

    :param may_start: whether the actor may start a DAG; ``None`` for any DAG, for files and the command line.
    """

    def __init__(self, actor: Actor | None, may_start: MayStart | None) -> None:
        self._actor = actor
        self._may_start = may_start
        self._allowed: set[str] = set()

    def require(self, *dag_ids: str) -> None:
        """Require that the actor may start these DAGs; call it in :meth:`transact`."""
        for dag_id in dag_ids:
            if self._may_start is not None and dag_id not in self._allowed:
                raise _PermissionUnknown(dag_id)

    def transact(self, store: Store, work: Callable[[sa.Connection], T]) -> T:
        """Run a transaction that may require permissions.

        :raises DagNotAllowed: the actor may not start a DAG that it requires; nothing was changed.
        """
        while True:
            try:
                return store.transact(work)
            except _PermissionUnknown as unanswered:
                dag_id = unanswered.dag_id
            if self._may_start is None or not self._may_start(dag_id):
                raise DagNotAllowed("An unknown user" if self._actor is None else self._actor.name, dag_id)
            self._allowed.add(dag_id)


class _PermissionUnknown(Exception):
    def __init__(self, dag_id: str) -> None:
        self.dag_id = dag_id
        super().__init__(dag_id)
