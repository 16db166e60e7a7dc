"""Asking Airflow what constraints want to know of it: everything at once, and outside of any transaction.

    snapshot = SnapshotReader(store, airflow).ask([("maintain_page_views", MaxConcurrent(1))])

The invariant: the end of a run that nobody told the store of is told now, so that no run holds its place for ever.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

import sqlalchemy as sa

from airflow_snowpack.scheduling.airflow_port import AirflowPort, DagRuns, Snapshot, Unavailable, ask_probe
from airflow_snowpack.scheduling.constraints.constraint import Constraint, RequiredFacts
from airflow_snowpack.scheduling.events.event_log import last_number
from airflow_snowpack.scheduling.launches.active_runs import dags_of_group, launched_runs
from airflow_snowpack.scheduling.launches.runs import Runs
from airflow_snowpack.scheduling.launches.slot_reservations import note_shown
from airflow_snowpack.store import Store

log = logging.getLogger(__name__)

Known = Callable[[sa.Connection, Iterable[str]], Mapping[str, frozenset[str]]]


class SnapshotReader:
    """Asks for some constraints.

    :param airflow: how things stand in Airflow.
    :param known: which runs of some DAGs the store takes for active and can tell apart from others.
    """

    def __init__(self, store: Store, airflow: AirflowPort, known: Known = launched_runs) -> None:
        self._store = store
        self._airflow = airflow
        self._known = known
        self._runs = Runs(store)

    def ask(self, asked: Sequence[tuple[str, Constraint]]) -> Snapshot:
        """How things stand for these constraints, each with the DAG whose run it is about."""
        required = RequiredFacts.merged(each.required_facts(dag_id) for dag_id, each in asked)
        dag_ids, pools = set(required.dag_runs), required.pools
        taken_at, newest = self._store.clock(), self._store.read(last_number)
        for group in required.groups:
            dag_ids.update(self._store.read(lambda conn, group=group: dags_of_group(conn, group)))  # type: ignore[misc]  # mypy takes the default for an argument
        snapshot = Snapshot(
            dag_runs=self._ask_for_runs(dag_ids) if dag_ids else {},
            free_slots=self._airflow.free_slots(sorted(pools)) if pools else {},
            loads={probe: _load(probe) for probe in sorted(required.probes)},
            taken_at=taken_at,
            newest_event=newest,
        )
        note_shown(self._store, snapshot)
        return snapshot

    def _ask_for_runs(self, dag_ids: Iterable[str]) -> Mapping[str, DagRuns | Unavailable]:
        """The runs of these DAGs; the end of one that nobody told the store of is told now."""
        asked_at = self._store.clock()
        known = self._store.read(lambda conn: self._known(conn, dag_ids))
        found = self._airflow.dag_runs(known)
        for dag_id, runs in found.items():
            if isinstance(runs, Unavailable):
                log.warning("runs_not_known: of the DAG %s, and what counts them waits: %s", dag_id, runs.why)
                continue
            for run_id, ended in runs.ended.items():
                seen_at = max(asked_at, ended.at)
                self._runs.ended(dag_id, run_id, ended.state, ended.at, began_at=ended.began_at, seen_at=seen_at)
        return found


def _load(probe: str) -> float:
    try:
        return ask_probe(probe)
    except Exception:  # the installation's own code: whatever it is, what asks it waits
        log.warning("The load probe %s failed; what asks it waits", probe, exc_info=True)
        return float("inf")
