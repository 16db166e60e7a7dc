"""How DAGs stand in Airflow, read from its database, for a process that has it at hand: the API server.

dag_states(["snowpack_sweep"])      # {'snowpack_sweep': DagState.PAUSED}
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_snowpack.api.roles import DagState

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

log = logging.getLogger(__name__)


def dag_states(dag_ids: Collection[str]) -> Mapping[str, DagState]:
    """Return the state of each DAG; nothing where Airflow's database cannot be read from here."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        import sqlalchemy as sa
        from airflow.models.dag import DagModel
        from airflow.utils.session import create_session

        with create_session() as session:
            query = sa.select(DagModel.dag_id, DagModel.is_paused).where(DagModel.dag_id.in_(dag_ids), ~DagModel.is_stale)
            found = {row.dag_id: DagState.PAUSED if row.is_paused else DagState.ACTIVE for row in session.execute(query)}
    except (ImportError, RuntimeError, SQLAlchemyError) as problem:
        log.info("Which DAGs are paused is not known: %s", problem)
        return {}
    return {dag_id: found.get(dag_id, DagState.MISSING) for dag_id in dag_ids}
