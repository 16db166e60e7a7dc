"""A gate inside of a DAG: it lets a run on when its constraints are met, by the same rules as schedules are launched.

    gate = Gate(store, airflow, GatePlace("maintain", run_id, "gate"), [MaxConcurrent(1)])
    run = gate.ask()
    if run.state is GateState.WAITING:
        ...                                  # until run.not_before, or until Line(…).calls()
    gate.time_out(GateState.PASSED)          # let it on all the same

The invariant: **counting and passing is one step.** A run is looked at in a transaction of its own, under the same locks as the
schedules' launches take, and counts from the commit on; so two runs at their gates, or a run and a launch, cannot both take the
last place. Asking again after a retry is harmless: a run that has passed has passed, until it has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from airflow_snowpack.scheduling.airflow_port import AirflowPort, Snapshot
from airflow_snowpack.scheduling.constraints.constraint import Constraint, RequiredFacts, counted_keys, dag_wait_key
from airflow_snowpack.scheduling.counted_period import remember_period
from airflow_snowpack.scheduling.launches.active_runs import launched_runs
from airflow_snowpack.scheduling.launches.slot_reservations import hold
from airflow_snowpack.scheduling.pending_runs.airflow_snapshot import SnapshotReader
from airflow_snowpack.scheduling.pending_runs.gate_facts import GateFacts, passed_runs, runs_that_passed_and_ended
from airflow_snowpack.scheduling.pending_runs.gated_runs import (
    GatedRun,
    GatePlace,
    GateState,
    active_gates,
    gated_run_from,
    read_gate,
)
from airflow_snowpack.scheduling.pending_runs.model import reasons_from_json, reasons_to_json
from airflow_snowpack.scheduling.pending_runs.rulings import rule_all
from airflow_snowpack.store import Store
from airflow_snowpack.store.advisory_locks import lock_keys
from airflow_snowpack.store.schedule_tables import gated_runs

NOT_IN_LINE: Mapping[str, Any] = {"not_before": None, "waits_for": None}


class Gate:
    """One run at its gate.

    :param airflow: how things stand in Airflow.
    :param constraints: what must be met, as schedules have it. ``MaxRuns`` counts who passed this gate, and ``Delay`` counts from
        when the run came to it.
    :param priority: it gives way to schedules of a higher one that wait for the same.
    """

    def __init__(
        self,
        store: Store,
        airflow: AirflowPort,
        place: GatePlace,
        constraints: Sequence[Constraint],
        *,
        priority: int = 0,
    ) -> None:
        self._store = store
        self._airflow = airflow
        self._asking = SnapshotReader(store, airflow, known=self._known)
        self._place = place
        self._constraints = tuple(constraints)
        self._priority = priority

    def ask(self) -> GatedRun:
        """Let the run on if its constraints are met; nobody is asked before the moment that a constraint has named."""
        arrived = self._store.transact(self._arrive)
        waits = arrived.not_before is not None and arrived.not_before > self._store.clock()
        if arrived.state is not GateState.WAITING or waits:
            return arrived
        snapshot = self._asking.ask([(self._place.dag_id, constraint) for constraint in self._constraints])
        reopened = self._reopened(snapshot)
        return self._store.transact(lambda conn: self._look(conn, snapshot, reopened))

    def stands(self) -> GatedRun:
        """How the run stood when it was asked for last; it has come here before."""
        run = read_gate(self._store, self._place)
        assert run is not None, "it is written down before anything is asked"
        return run

    def time_out(self, state: GateState) -> GatedRun:
        """Its time is up: let it on, turn it away, or take it out of the line; nothing is changed for one that has passed.

        :param state: how it is to stand from now on.
        """

        def write(conn: sa.Connection) -> GatedRun:
            lock_keys(conn, self._counted())
            run = gated_run_from(self._row(conn))
            return run if run.state is GateState.PASSED else self._write(conn, state, NOT_IN_LINE)

        return self._store.transact(write)

    def _arrive(self, conn: sa.Connection) -> GatedRun:
        """The run is at the gate: for the first time, again, or anew after it had ended or was turned away."""
        now = self._store.clock()
        seen = {"looked_at": now, "seen_at": now}
        declared = {
            "constraints": [constraint.to_json() for constraint in self._constraints],
            "group_names": sorted(RequiredFacts.of(self._constraints, self._place.dag_id).groups),
        }
        new = {"state": GateState.WAITING.value, "arrived_at": now, "reasons": [], "passed_at": None, "ended_at": None}
        insert = postgresql.insert if self._store.is_postgres else sqlite.insert
        named = {"dag_id": self._place.dag_id, "run_id": self._place.run_id, "task": self._place.task}
        remember_period(conn, self._constraints)
        conn.execute(insert(gated_runs).values(**named, **declared, **new, **seen).on_conflict_do_nothing())
        row = self._row(conn)
        if row.ended_at is not None or row.state == GateState.SKIPPED:
            changes = {**declared, **new, **NOT_IN_LINE}
        elif row.state == GateState.WAITING and row.constraints != declared["constraints"]:
            changes = {**declared, **NOT_IN_LINE, "reasons": []}  # what other constraints said says nothing about these
        else:
            changes = {}
        conn.execute(sa.update(gated_runs).where(self._place.row).values(**changes, **seen))
        return gated_run_from(self._row(conn))

    def _look(self, conn: sa.Connection, snapshot: Snapshot, reopened: Mapping[str, int]) -> GatedRun:
        lock_keys(conn, self._counted())
        row = self._row(conn)
        if row.state != GateState.WAITING:
            return gated_run_from(row)  # another try of the same task was faster
        now = self._store.clock()
        facts = GateFacts(
            conn,
            snapshot,
            now,
            self._place.dag_id,
            self._place.task,
            self._priority,
            triggered_at=row.arrived_at,
            place=self._place,
            reopened=reopened,
        )
        rulings = rule_all(self._constraints, facts, reasons_from_json(row.reasons))
        kept = {"reasons": reasons_to_json(rulings.reasons)}
        if rulings.skips:
            return self._write(conn, GateState.SKIPPED, {**kept, **NOT_IN_LINE})
        if rulings.all_met:
            return self._write(conn, GateState.PASSED, {**kept, **NOT_IN_LINE})
        waits = {"not_before": rulings.not_before, "waits_for": rulings.waits_for}
        return self._write(conn, GateState.WAITING, {**kept, **waits})

    def _write(self, conn: sa.Connection, state: GateState, changes: Mapping[str, Any]) -> GatedRun:
        passed = {"passed_at": self._store.clock()} if state is GateState.PASSED else {}
        if passed:
            hold(conn, self._constraints, self._place.dag_id, self._place.run_id)
        conn.execute(sa.update(gated_runs).where(self._place.row).values(state=state.value, **passed, **changes))
        return gated_run_from(self._row(conn))

    def _row(self, conn: sa.Connection) -> sa.Row[Any]:
        return conn.execute(sa.select(gated_runs).where(self._place.row).with_for_update()).one()

    def _counted(self) -> set[str]:
        """What its passing adds to, and what its constraints count."""
        return {dag_wait_key(self._place.dag_id), *counted_keys(self._place.dag_id, self._constraints)}

    def _known(self, conn: sa.Connection, dag_ids: Iterable[str]) -> dict[str, frozenset[str]]:
        """The runs whose end matters here: of DAGs with gates those that have passed, of others those that schedules launched."""
        known = launched_runs(conn, dag_ids)
        gated = passed_runs(active_gates(conn, dag_ids), but=self._place)
        return {dag_id: gated.get(dag_id, run_ids) for dag_id, run_ids in known.items()}

    def _reopened(self, snapshot: Snapshot) -> dict[str, int]:
        """How many runs are active again that had passed and ended: tasks of theirs were cleared, but not the gate."""
        if not snapshot.dag_runs:
            return {}
        ended = self._store.read(lambda conn: runs_that_passed_and_ended(conn, snapshot.dag_runs, but=self._place))
        return {dag_id: self._airflow.active_among(dag_id, run_ids) for dag_id, run_ids in ended.items() if run_ids}
