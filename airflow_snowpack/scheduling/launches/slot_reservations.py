"""Slots of pools and shares of loads that are reserved for runs, until Airflow shows that they take them.

    reserve_slots(conn, schedule.constraints, dag_id, run_id)   # with the run, in one transaction
    held(conn, "pool:spark", snapshot.taken_at)        # how much is reserved for runs that a snapshot does not show

A run that is started, or that has passed its gate, takes its slots some seconds later, and changes the load later still. Until
then Airflow reports the same numbers to the next evaluation. The invariant: **a run counts from when it was reserved, and never
twice with what a snapshot shows of it.**
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import sqlalchemy as sa

from airflow_snowpack.scheduling.airflow_port import FreeSlots, Snapshot
from airflow_snowpack.scheduling.constraints.constraint import Constraint, pool_wait_key
from airflow_snowpack.store import Store
from airflow_snowpack.store.tables.schedules import gated_runs, schedule_runs, slot_holds

POOL_PERIOD = timedelta(minutes=15)
"""A run that was not seen in the pool so long after its launch has no slots reserved any more: its DAG does not use the pool."""
LOAD_PERIOD = timedelta(minutes=1)
"""A load shows a run that was launched so long ago."""

of_run = sa.and_(schedule_runs.c.dag_id == slot_holds.c.dag_id, schedule_runs.c.run_id == slot_holds.c.run_id)
of_gate = sa.and_(gated_runs.c.dag_id == slot_holds.c.dag_id, gated_runs.c.run_id == slot_holds.c.run_id)


def reserve_slots(conn: sa.Connection, constraints: Iterable[Constraint], dag_id: str, run_id: str) -> None:
    """Reserve what a run takes, in the transaction that reserves it or lets it pass its gate, in place of what it had before."""
    release_slots(conn, dag_id, run_id)
    for key, amount in sorted(amounts_of(constraints).items()):
        conn.execute(sa.insert(slot_holds).values(dag_id=dag_id, run_id=run_id, key=key, amount=amount))


def amounts_of(constraints: Iterable[Constraint]) -> dict[str, int]:
    """Return how much a run with these constraints takes of each pool and of each load."""
    amounts: dict[str, int] = {}
    for one in constraints:
        for key, amount in one.reserves().items():
            amounts[key] = max(amount, amounts.get(key, 0))
    return amounts


def held(conn: sa.Connection, key: str, taken_at: datetime, *, but: tuple[str, str] = ("", "")) -> int:
    """Return how much is reserved for runs that a snapshot of this moment does not show.

    :param but: the DAG and the id of a run that is evaluated itself.
    """
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


def note_shown(store: Store, snapshot: Snapshot) -> None:
    """Mark the runs that a snapshot shows in a pool: their slots are among those that it does not report as free."""
    seen = {pool: free.taken_by for pool, free in snapshot.free_slots.items() if isinstance(free, FreeSlots)}
    for pool, runs in seen.items():
        mine = sa.and_(slot_holds.c.key == pool_wait_key(pool), slot_holds.c.shown_at.is_(None))
        query = sa.select(slot_holds.c.dag_id, slot_holds.c.run_id).where(mine)
        shown = [row for row in store.read(lambda conn, query=query: conn.execute(query).all()) if tuple(row) in runs]  # type: ignore[misc]  # mypy takes the default for an argument
        if shown:
            these = sa.tuple_(slot_holds.c.dag_id, slot_holds.c.run_id).in_([tuple(row) for row in shown])
            change = sa.update(slot_holds).where(mine, these).values(shown_at=snapshot.taken_at)
            store.transact(lambda conn, change=change: conn.execute(change))  # type: ignore[misc]  # as above


def release_slots(conn: sa.Connection, dag_id: str, run_id: str) -> None:
    """Release what is reserved for a run that has ended, or that will not start after all."""
    conn.execute(sa.delete(slot_holds).where(slot_holds.c.dag_id == dag_id, slot_holds.c.run_id == run_id))
