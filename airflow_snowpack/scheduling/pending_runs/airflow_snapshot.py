"""Reads from Airflow what constraints require: everything at once, and outside of any transaction.

    snapshot = take_snapshot(store, airflow, [("maintain_page_views", MaxConcurrent(1))])

The invariant: the end of a run that was not reported to the store is recorded here, so that no run counts as active for ever.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module

from airflow_snowpack.scheduling.airflow_port import AirflowPort, DagRuns, Snapshot, Unavailable
from airflow_snowpack.scheduling.constraints.constraint import Constraint, RequiredFacts
from airflow_snowpack.scheduling.events.event_log import last_number
from airflow_snowpack.scheduling.launches.active_runs import active_runs, dags_of_groups, note_shown
from airflow_snowpack.scheduling.launches.run_ends import Runs
from airflow_snowpack.scheduling.pending_runs.gated_runs import GatePlace
from airflow_snowpack.store import Store

log = logging.getLogger(__name__)


def take_snapshot(
    store: Store, airflow: AirflowPort, asked: Sequence[tuple[str, Constraint]], *, at_gate: GatePlace | None = None
) -> Snapshot:
    """Read the state of Airflow that these constraints require, each with the DAG whose run it is about.

    :param at_gate: the run at a gate that asks: in DAGs with a gate, only the ends of runs that passed it matter.
    """
    required = RequiredFacts.merged(each.required_facts(dag_id) for dag_id, each in asked)
    taken_at, newest = store.clock(), store.read(last_number)
    members = store.read(lambda conn: dags_of_groups(conn, required.groups)) if required.groups else {}
    dag_ids = {dag_id for of_group in members.values() for dag_id in of_group}.union(required.dag_runs)
    snapshot = Snapshot(
        dag_runs=_dag_runs(store, airflow, dag_ids, at_gate) if dag_ids else {},
        free_slots=airflow.free_slots(sorted(required.pools)) if required.pools else {},
        loads={probe: _load(probe) for probe in sorted(required.probes)},
        taken_at=taken_at,
        newest_event=newest,
    )
    note_shown(store, snapshot)
    return snapshot


def _dag_runs(
    store: Store, airflow: AirflowPort, dag_ids: Iterable[str], at_gate: GatePlace | None
) -> Mapping[str, DagRuns | Unavailable]:
    """Read the runs of these DAGs, and record the ends that were not reported."""
    asked_at, known = store.clock(), {}
    for dag_id, active in store.read(lambda conn: active_runs(conn, dag_ids)).items():
        own = {at_gate.run_id} if at_gate is not None and at_gate.dag_id == dag_id else set()
        known[dag_id] = frozenset(active.passed - own if at_gate is not None and active.has_gate else active.started)
    found = airflow.dag_runs(known)
    for dag_id, runs in found.items():
        if isinstance(runs, Unavailable):
            log.warning("runs_not_known: of the DAG %s, and what counts them waits: %s", dag_id, runs.why)
            continue
        for run_id, ended in runs.ended.items():
            seen_at = max(asked_at, ended.at)
            Runs(store).ended(dag_id, run_id, ended.state, ended.at, began_at=ended.began_at, seen_at=seen_at)
    return found


def _load(probe: str) -> float:
    module, _, function = probe.partition(":")
    try:
        return float(getattr(import_module(module), function)())
    except Exception:  # the installation's own code: whatever it is, what counts the load waits
        log.warning("The load probe %s failed; runs that need it wait", probe, exc_info=True)
        return float("inf")
