"""A gate inside a DAG: a pending run whose DAG run already exists, and whose launch lets the waiting task continue.

    gate = Gate(store, airflow, GatePlace("maintain", run_id, "gate"), [MaxConcurrent(1)])
    run = gate.ask()
    if run.state is GateState.WAITING:
        ...                                  # until run.not_before, or until gate_is_due(…)
    gate.time_out(GateState.PASSED)          # let it continue anyway

It waits in the same queue as the pending runs of schedules, and is evaluated on the same facts under the same locks, but by its
own task. The invariant: **counting and passing is one step.** A run is evaluated in a separate transaction, and counts from the
commit on; so two runs at their gates, or a run and a launch, cannot both take the last place. Asking again after a retry is
harmless: a run that has passed stays passed until it ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.airflow_port import AirflowPort, AirflowSnapshot
from airflow_snowpack.scheduling.constraints.constraint import Constraint, RequiredFacts, counted_keys, dag_wait_key
from airflow_snowpack.scheduling.launches.active_runs import Wanted, reserve_slots
from airflow_snowpack.scheduling.pending_runs.constraint_context import ConstraintFacts, GateContext, rule_all, take_snapshot
from airflow_snowpack.scheduling.pending_runs.gated_runs import (
    GatedRun,
    GatePlace,
    GateState,
    gated_run_from,
    passed_and_ended,
    read_gate,
)
from airflow_snowpack.scheduling.pending_runs.model import reasons_from_json, reasons_to_json
from airflow_snowpack.scheduling.pending_runs.wait_queue import wake_next
from airflow_snowpack.scheduling.retention import remember_period
from airflow_snowpack.store import Store
from airflow_snowpack.store.dialect import insert, lock_keys
from airflow_snowpack.store.tables.schedules import gated_runs

NOT_QUEUED: Mapping[str, Any] = {"not_before": None, "waits_for": None}


class Gate:
    """One run at its gate.

    :param constraints: as for schedules. ``MaxRuns`` counts the runs that passed this gate, ``Delay`` counts from the arrival.
    :param priority: schedules with a higher priority go first, gates with a lower one later.
    """

    def __init__(
        self, store: Store, airflow: AirflowPort, place: GatePlace, constraints: Sequence[Constraint], *, priority: int = 0
    ) -> None:
        self._store = store
        self._airflow = airflow
        self._place = place
        self._run = Wanted(place.task, place.dag_id, {}, tuple(constraints), priority)

    def ask(self) -> GatedRun:
        """Let the run continue if its constraints are met; none is evaluated before the time that it named."""
        arrived = self._store.transact(self._arrive)
        waits = arrived.not_before is not None and arrived.not_before > self._store.clock()
        if arrived.state is not GateState.WAITING or waits:
            return arrived
        asked = [(self._place.dag_id, constraint) for constraint in self._run.constraints]
        snapshot = take_snapshot(self._store, self._airflow, asked, at_gate=self._place)
        reopened = self._reopened(snapshot)
        return self._store.transact(lambda conn: self._evaluate(conn, snapshot, reopened))

    def last(self) -> GatedRun:
        """Return the run as last evaluated; it must have arrived before."""
        run = read_gate(self._store, self._place)
        assert run is not None, "it is written down before anything is asked"
        return run

    def time_out(self, state: GateState) -> GatedRun:
        """End the wait: let the run continue, skip it, or remove it from the queue. A run that has passed is unchanged."""

        def write(conn: sa.Connection) -> GatedRun:
            lock_keys(conn, self._counted())
            row = self._row(conn)
            return gated_run_from(row) if row.state == GateState.PASSED else self._write(conn, row, state, NOT_QUEUED)

        return self._store.transact(write)

    def _arrive(self, conn: sa.Connection) -> GatedRun:
        """Record that the run is at the gate: for the first time, again, or after it had ended or was skipped."""
        now, constraints = self._store.clock(), self._run.constraints
        seen = {"evaluated_at": now, "seen_at": now, "priority": self._run.priority}
        declared = {
            "constraints": [constraint.to_json() for constraint in constraints],
            "group_names": sorted(RequiredFacts.of(constraints, self._place.dag_id).groups),
        }
        new = {"state": GateState.WAITING.value, "arrived_at": now, "reasons": [], "passed_at": None, "ended_at": None}
        named = {"dag_id": self._place.dag_id, "run_id": self._place.run_id, "task": self._place.task}
        remember_period(conn, constraints)
        conn.execute(insert(gated_runs).values(**named, **declared, **new, **seen).on_conflict_do_nothing())
        row = self._row(conn)
        if row.ended_at is not None or row.state == GateState.SKIPPED:
            changes = {**declared, **new, **NOT_QUEUED}
        elif row.state == GateState.WAITING and row.constraints != declared["constraints"]:
            changes = {**declared, **NOT_QUEUED, "reasons": []}  # the results of other constraints do not apply
        else:
            changes = {}
        conn.execute(sa.update(gated_runs).where(self._place.row).values(**changes, **seen))
        self._wake_next(conn, row, changes.get("waits_for", row.waits_for))
        return gated_run_from(self._row(conn))

    def _evaluate(self, conn: sa.Connection, snapshot: AirflowSnapshot, reopened: Mapping[str, int]) -> GatedRun:
        lock_keys(conn, self._counted())
        row = self._row(conn)
        if row.state != GateState.WAITING:
            return gated_run_from(row)  # another try of the same task was faster
        now, run = self._store.clock(), self._run
        facts = ConstraintFacts(conn, snapshot, now)
        facts.read([run])
        context = GateContext(facts, run.dag_id, run.name, run.priority, row.arrived_at, now, self._place, reopened)
        rulings = rule_all(run.constraints, context, reasons_from_json(row.reasons))
        state = GateState.SKIPPED if rulings.skips else GateState.PASSED if rulings.all_met else GateState.WAITING
        waits = {"not_before": rulings.not_before, "waits_for": rulings.waits_for}
        return self._write(conn, row, state, {"reasons": reasons_to_json(rulings.reasons), **waits})

    def _write(self, conn: sa.Connection, row: sa.Row[Any], state: GateState, changes: Mapping[str, Any]) -> GatedRun:
        passed = {"passed_at": self._store.clock()} if state is GateState.PASSED else {}
        if passed:
            reserve_slots(conn, self._run.constraints, self._place.dag_id, self._place.run_id)
        conn.execute(sa.update(gated_runs).where(self._place.row).values(state=state.value, **passed, **changes))
        self._wake_next(conn, row, changes["waits_for"])
        return gated_run_from(self._row(conn))

    def _wake_next(self, conn: sa.Connection, row: sa.Row[Any], waits_for: str | None) -> None:
        """Wake the next run of the queue that this run leaves for the one of ``waits_for``."""
        if row.waits_for not in (None, waits_for):
            wake_next(conn, [row.waits_for], self._store.clock(), skip_locked=True)

    def _row(self, conn: sa.Connection) -> sa.Row[Any]:
        return conn.execute(sa.select(gated_runs).where(self._place.row).with_for_update()).one()

    def _counted(self) -> set[str]:
        """Return the wait keys under which its passing counts, and those that its constraints count."""
        return {dag_wait_key(self._place.dag_id), *counted_keys(self._place.dag_id, self._run.constraints)}

    def _reopened(self, snapshot: AirflowSnapshot) -> dict[str, int]:
        """Count runs that are active again after they passed and ended, because tasks other than the gate were cleared."""
        if not snapshot.dag_runs:
            return {}
        ended = self._store.read(lambda conn: passed_and_ended(conn, snapshot.dag_runs, but=self._place))
        return {dag_id: self._airflow.active_among(dag_id, run_ids) for dag_id, run_ids in ended.items() if run_ids}
