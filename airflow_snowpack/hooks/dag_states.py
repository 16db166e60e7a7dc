"""How DAGs stand in Airflow, read from its database, for a process that has it at hand: the API server.

    dag_states(["snowpack_sweep"])                   # {'snowpack_sweep': DagState.PAUSED}
    DagStatesInTime()(["snowpack_sweep"])            # the same, or {} when Airflow's database does not answer soon

A page and a probe must not fail or hang because of what they would only add to a banner.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooSlow
from datetime import timedelta
from typing import TYPE_CHECKING

from airflow_snowpack.api.roles import DagState

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from airflow_snowpack.api.roles import DagStates

log = logging.getLogger(__name__)

PATIENCE = timedelta(seconds=1)


def dag_states(dag_ids: Collection[str]) -> Mapping[str, DagState]:
    """Return the state of each DAG; nothing where Airflow's database cannot be read from here."""
    try:
        import sqlalchemy as sa
        from airflow.models.dag import DagModel
        from airflow.utils.session import create_session

        with create_session() as session:
            query = sa.select(DagModel.dag_id, DagModel.is_paused).where(DagModel.dag_id.in_(dag_ids), ~DagModel.is_stale)
            found = {row.dag_id: DagState.PAUSED if row.is_paused else DagState.ACTIVE for row in session.execute(query)}
    except Exception as problem:  # noqa: BLE001 - Airflow raises anything here; then it is not known which DAGs are paused
        log.info("Which DAGs are paused is not known: %s", problem)
        return {}
    return {dag_id: found.get(dag_id, DagState.MISSING) for dag_id in dag_ids}


class DagStatesInTime:
    """Reads the states in a thread of its own, one reading at a time.

    :param patience: no call waits longer; while a reading hangs, further calls return at once.
    """

    def __init__(self, read: DagStates = dag_states, patience: timedelta = PATIENCE) -> None:
        self._read = read
        self._patience_s = patience.total_seconds()
        self._reading: Future[Mapping[str, DagState]] | None = None

    def __call__(self, dag_ids: Collection[str]) -> Mapping[str, DagState]:
        if self._reading is not None and not self._reading.done():
            return {}
        reading: Future[Mapping[str, DagState]] = Future()
        self._reading = reading
        # A daemon, which keeps no process from its end: a database may hang for minutes.
        threading.Thread(target=self._answer, args=(reading, dag_ids), name="snowpack-dag-states", daemon=True).start()
        try:
            return reading.result(self._patience_s)
        except TooSlow:
            return {}

    def _answer(self, reading: Future[Mapping[str, DagState]], dag_ids: Collection[str]) -> None:
        try:
            reading.set_result(self._read(dag_ids))
        except BaseException as problem:
            reading.set_exception(problem)
            raise
