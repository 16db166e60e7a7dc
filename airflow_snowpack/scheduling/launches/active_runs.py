"""Which runs of DAGs are active according to the store, and what they have reserved of pools and loads.

    reserve_runs(conn, store, [Reservation(schedule, pending_id, run_id, why)])      # for the launcher, which starts them
    active_runs(conn, ["maintain_page_views"])       # runs that schedules reserved or started, and runs at gates
    runs_that_count(conn, "group:compaction")        # runs that count against the limit of a wait key
    held(conn, "pool:spark", snapshot.taken_at)      # what is reserved for runs that a snapshot does not show

Only Airflow tracks other active runs (manual runs, backfills). A run takes its slots some seconds after it starts or passes its
gate, and changes the load later still. The invariant: **a run counts from the commit that reserved it until its end is recorded,
and never twice with what a snapshot shows of it.** Its pending run, active run, slots and launch exist together or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.airflow_port import AirflowSnapshot, FreeSlots
from airflow_snowpack.scheduling.constraints.constraint import Constraint, dag_wait_key, group_wait_key, pool_wait_key
from airflow_snowpack.scheduling.pending_runs.gated_runs import GateState, active_gates, dags_with_gates
from airflow_snowpack.scheduling.schedule import Schedule
from airflow_snowpack.store import Store
from airflow_snowpack.store.dialect import insert
from airflow_snowpack.store.tables.schedules import gated_runs, launches, run_places, schedule_groups, schedule_runs, slot_holds


@dataclass(slots=True)
class ActiveRuns:
    """The ids of the active runs of one DAG.

    :param every: all of them. ``started``: those in Airflow. ``passed``: those that passed a gate.
    :param has_gate: whether one of them reached a gate.
    """

    every: set[str] = field(default_factory=set)
    started: set[str] = field(default_factory=set)
    passed: set[str] = field(default_factory=set)
    at_gates: set[str] = field(default_factory=set)
    has_gate: bool = False

    @property
    def counted_in_group(self) -> set[str]:
        """Runs that count against the limit of a group: a run that waits at its own gate takes no place from other DAGs."""
        return self.every - (self.at_gates - self.passed)


def active_runs(conn: sa.Connection, dag_ids: Iterable[str]) -> dict[str, ActiveRuns]:
    """Return the active runs of each of these DAGs, in two statements."""
    found = {dag_id: ActiveRuns() for dag_id in sorted(set(dag_ids))}
    query = sa.select(schedule_runs.c.dag_id, schedule_runs.c.run_id, schedule_runs.c.launched_at)
    for row in conn.execute(query.where(schedule_runs.c.dag_id.in_(found), schedule_runs.c.ended_at.is_(None))):
        found[row.dag_id].every.add(row.run_id)
        if row.launched_at is not None:
            found[row.dag_id].started.add(row.run_id)
    for gated in active_gates(conn, found):
        runs = found[gated.dag_id]
        runs.has_gate = True
        for ids in (runs.every, runs.started, runs.passed if gated.state == GateState.PASSED else runs.at_gates):
            ids.add(gated.run_id)
    return found


def dags_of_groups(conn: sa.Connection, groups: Iterable[str]) -> dict[str, list[str]]:
    """Return the DAGs whose schedules or gates name each group, in two statements."""
    found: dict[str, set[str]] = {group: set() for group in groups}
    query = sa.select(schedule_groups.c.group_name, schedule_groups.c.dag_id)
    named = conn.execute(query.where(schedule_groups.c.group_name.in_(sorted(found)))).all() if found else []
    for group, dag_id in [*named, *(dags_with_gates(conn) if found else [])]:
        if group in found:
            found[group].add(dag_id)
    return {group: sorted(dag_ids) for group, dag_ids in found.items()}


def runs_that_count(conn: sa.Connection, key: str, *, at_gate_of: str | None = None) -> frozenset[tuple[str, str]]:
    """Return the runs, as DAG and run id, that count against the limits of a DAG's or a group's wait key.

    :param at_gate_of: count as for runs of this DAG at a gate: in DAGs with a gate, only runs that passed it.
    """
    _, _, name = key.partition(":")
    of_group = key == group_wait_key(name)
    dag_ids = dags_of_groups(conn, [name])[name] if of_group else [name] if key == dag_wait_key(name) else []
    counted = set()
    for dag_id, runs in active_runs(conn, dag_ids).items() if dag_ids else ():
        if at_gate_of is not None and (runs.has_gate or dag_id == at_gate_of):
            ids = runs.passed
        else:
            ids = runs.counted_in_group if of_group else runs.every
        counted |= {(dag_id, run_id) for run_id in ids}
    return frozenset(counted)


POOL_PERIOD = timedelta(minutes=15)
"""How long after its launch a run that was not seen in the pool keeps its slots: after that, its DAG does not use the pool."""
LOAD_PERIOD = timedelta(minutes=1)
"""How long after its launch a run shows in a load."""
LAUNCHED_INTERVAL = timedelta(minutes=5)
"""How often a DAG is polled for the ends of its runs if it only has launched runs."""

of_run = sa.and_(schedule_runs.c.dag_id == slot_holds.c.dag_id, schedule_runs.c.run_id == slot_holds.c.run_id)
of_gate = sa.and_(gated_runs.c.dag_id == slot_holds.c.dag_id, gated_runs.c.run_id == slot_holds.c.run_id)


def reserve_slots(conn: sa.Connection, constraints: Iterable[Constraint], dag_id: str, run_id: str) -> None:
    """Replace what a run has reserved, in the transaction that reserves the run or lets it pass its gate."""
    release_slots(conn, dag_id, run_id)
    for key, amount in sorted(amounts_of(constraints).items()):
        conn.execute(sa.insert(slot_holds).values(dag_id=dag_id, run_id=run_id, key=key, amount=amount))


def amounts_of(constraints: Iterable[Constraint]) -> dict[str, int]:
    """Return how much a run with these constraints takes of each pool and each load."""
    amounts: dict[str, int] = {}
    for one in constraints:
        for key, amount in one.reserves().items():
            amounts[key] = max(amount, amounts.get(key, 0))
    return amounts


def held(conn: sa.Connection, key: str, taken_at: datetime, *, but: tuple[str, str] = ("", "")) -> int:
    """Return how much is reserved for runs that a snapshot of this time does not show, except the run ``but`` (DAG and id)."""
    before = taken_at - (POOL_PERIOD if key.startswith(pool_wait_key("")) else LOAD_PERIOD)
    launched = sa.or_(schedule_runs.c.launched_at.is_(None), schedule_runs.c.launched_at > before)
    scheduled = sa.exists().where(of_run, schedule_runs.c.ended_at.is_(None), launched)
    gated = sa.exists().where(of_gate, gated_runs.c.ended_at.is_(None), gated_runs.c.passed_at > before)
    query = (
        sa.select(sa.func.coalesce(sa.func.sum(slot_holds.c.amount), 0))
        .where(slot_holds.c.key == key, sa.or_(scheduled, gated))
        .where(sa.or_(slot_holds.c.shown_at.is_(None), slot_holds.c.shown_at > taken_at))
        .where(sa.not_(sa.and_(slot_holds.c.dag_id == but[0], slot_holds.c.run_id == but[1])))
    )
    return int(conn.execute(query).scalar_one())


def note_shown(store: Store, snapshot: AirflowSnapshot) -> None:
    """Mark the runs that a snapshot shows in a pool: the slots that it reports as free exclude theirs."""
    seen = {pool: free.taken_by for pool, free in snapshot.free_slots.items() if isinstance(free, FreeSlots)}
    for pool, runs in seen.items():
        mine = sa.and_(slot_holds.c.key == pool_wait_key(pool), slot_holds.c.shown_at.is_(None))
        query = sa.select(slot_holds.c.dag_id, slot_holds.c.run_id).where(mine)
        shown = [run for row in store.all(query) if (run := tuple(row)) in runs]
        if shown:
            these = sa.tuple_(slot_holds.c.dag_id, slot_holds.c.run_id).in_(shown)
            store.execute(sa.update(slot_holds).where(mine, these).values(shown_at=snapshot.taken_at))


def release_slots(conn: sa.Connection, dag_id: str, run_id: str) -> None:
    """Release what is reserved for a run that has ended or will not start."""
    conn.execute(sa.delete(slot_holds).where(slot_holds.c.dag_id == dag_id, slot_holds.c.run_id == run_id))


@dataclass(frozen=True, slots=True)
class Wanted:
    """A run to start, or to let continue at a gate, that no schedule describes.

    :param name: of its registered run, or of the task of its gate.
    :param constraints: what it waits for, and reserves of pools and loads until Airflow shows it.
    """

    name: str
    dag_id: str
    conf: Mapping[str, Any]
    constraints: Sequence[Constraint] = ()
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Reservation:
    """One run to reserve.

    :param why: goes into the run's ``conf`` under ``snowpack``.
    :param absorbs: whether further events of its schedule join it until a launcher claims it.
    """

    wanted: Schedule | Wanted
    pending_id: str
    run_id: str
    why: Mapping[str, Any]
    absorbs: bool = False

    @property
    def run(self) -> dict[str, str]:
        """The columns that identify the run, among the active runs and in its launch."""
        return {"dag_id": self.wanted.dag_id, "run_id": self.run_id, "schedule": self.wanted.name}


def reserve_runs(conn: sa.Connection, store: Store, reservations: Sequence[Reservation]) -> None:
    """Reserve runs in as many statements as for one, except for their slots; the caller restarts their schedules' periods."""
    now = store.clock()
    conn.execute(sa.insert(schedule_runs), [{**one.run, "reserved_at": now} for one in reservations])
    for one in reservations:
        if amounts_of(one.wanted.constraints):
            reserve_slots(conn, one.wanted.constraints, one.wanted.dag_id, one.run_id)
    watch_runs(conn, {one.wanted.dag_id for one in reservations}, now=now, look_at=now + LAUNCHED_INTERVAL)
    claimable = {"enqueued_at": now, "visible_at": now, "attempt_count": 0}
    rows = []
    for one in reservations:
        conf = {**one.wanted.conf, "snowpack": dict(one.why)}
        rows.append({"pending_id": one.pending_id, **one.run, "conf": conf, **claimable, "absorbs": one.absorbs})
    conn.execute(sa.insert(launches), rows)


def watch_runs(conn: sa.Connection, dag_ids: Iterable[str], *, now: datetime, look_at: datetime) -> None:
    """Poll the ends of these DAGs' runs from now on."""
    # In the same order in every transaction, because an insert waits for rows that another transaction has inserted.
    rows = [{"dag_id": dag_id, "since": now, "look_at": look_at, "mark": {}} for dag_id in sorted(dag_ids)]
    if rows:
        conn.execute(insert(run_places).on_conflict_do_nothing(), rows)


def run_id_of(schedule: str, pending_id: str, created_at: datetime) -> str:
    """Return the id of the DAG run of a pending run: readable and deterministic."""
    return f"snowpack__{schedule[:100]}__{created_at:%Y%m%dT%H%M%S}__{pending_id[:12]}"
