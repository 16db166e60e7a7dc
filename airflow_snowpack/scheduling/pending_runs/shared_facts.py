"""The facts for the constraints of a batch of pending jobs: the store is read once for all of them.

    shared = SharedFacts(conn, snapshot, now)
    shared.read(schedules)                                  # after the turns are held: a handful of statements
    rulings = rule_all(constraints, BatchFacts(…, shared=shared))
    shared.reserve("maintain", run_id, constraints)         # what is decided counts for the next job of the batch

The invariant: **each job gets the facts that it would get if those before it had been written.** Whatever takes a place that the
batch counts needs a turn that the transaction holds, so that what was read stays true until it ends; a run that ends meanwhile
only makes room, and wakes the next in line.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from airflow_snowpack.scheduling.airflow_port import Snapshot
from airflow_snowpack.scheduling.constraints.constraint import Constraint, RequiredFacts, counted_keys
from airflow_snowpack.scheduling.launches.active_runs import dags_of_groups, reserved_runs
from airflow_snowpack.scheduling.launches.slot_reservations import amounts_of, held
from airflow_snowpack.scheduling.pending_runs.facts import StoredFacts
from airflow_snowpack.scheduling.pending_runs.gated_runs import runs_at_gates
from airflow_snowpack.scheduling.pending_runs.model import is_open
from airflow_snowpack.scheduling.schedule import Schedule
from airflow_snowpack.store.schedule_tables import dag_successes, pending_jobs, schedule_runs


class SharedFacts:
    """What the store says, as it changes while a batch of jobs is evaluated.

    :param snapshot: how things stood in Airflow before the transaction.
    """

    def __init__(self, conn: sa.Connection, snapshot: Snapshot, now: datetime) -> None:
        self.conn = conn
        self.snapshot = snapshot
        self.now = now
        self.members: dict[str, list[str]] = {}
        self.reserved: dict[str, frozenset[str]] = {}
        self.at_gates: dict[str, frozenset[str]] = {}
        self.successes: dict[str, datetime] = {}
        self._launches: defaultdict[str, list[datetime]] = defaultdict(list)
        self._held: dict[str, int] = {}
        self._of_group: dict[str, int] = {}
        self._more_urgent: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self._lowest = 0

    def read(self, schedules: Sequence[Schedule]) -> None:
        """Read what the constraints of these schedules may ask about."""
        required = {each.name: RequiredFacts.of(each.constraints, each.dag_id) for each in schedules}
        together = RequiredFacts.merged(required.values())
        self.members = dags_of_groups(self.conn, together.groups)
        in_groups = {dag_id for dag_ids in self.members.values() for dag_id in dag_ids}
        if counted := in_groups.union(together.dag_runs):
            self.reserved = reserved_runs(self.conn, counted)
        if in_groups:
            self.at_gates = runs_at_gates(self.conn, in_groups)
        self._read_successes(together.successes)
        self._read_launches([name for name, facts in required.items() if facts.launches_within], together.launches_within)
        keys = {key for schedule in schedules for key in counted_keys(schedule.dag_id, schedule.constraints)}
        self._lowest = min((schedule.priority for schedule in schedules), default=0)
        self._read_more_urgent(keys)

    def active_of_group(self, group: str, facts: StoredFacts) -> int:
        """How many runs of the group's DAGs are active.

        :raises FactUnavailable: Airflow does not say how many runs one of them has.
        """
        if group not in self._of_group:
            self._of_group[group] = facts.count_of_group(self.members[group], self.reserved, self.at_gates)
        return self._of_group[group]

    def launches_since(self, schedule: str, moment: datetime) -> tuple[datetime, ...]:
        """When the schedule launched after it, oldest first."""
        launches = self._launches[schedule]
        return tuple(launches[bisect_right(launches, moment) :])

    def held(self, key: str) -> int:
        """How much is promised of a pool or of a load."""
        if key not in self._held:
            self._held[key] = held(self.conn, key, self.snapshot.taken_at or self.now)
        return self._held[key]

    def more_urgent(self, key: str, priority: int) -> int:
        """How many jobs of a higher priority wait for it."""
        return sum(number for other, number in self._more_urgent[key].items() if other > priority)

    def reserve(self, dag_id: str, run_id: str, constraints: Iterable[Constraint]) -> None:
        """The run counts from now on, though it is written with the rest of the batch."""
        if dag_id in self.reserved:
            self.reserved[dag_id] |= {run_id}
            self._of_group.clear()
        for key, amount in amounts_of(constraints).items():
            self._held[key] = self.held(key) + amount

    def move(self, priority: int, was: str | None, to: str | None) -> None:
        """A job of this priority leaves a line, and enters another one."""
        if priority <= self._lowest:
            return
        if was is not None:
            self._more_urgent[was][priority] -= 1
        if to is not None:
            self._more_urgent[to][priority] += 1

    def _read_successes(self, dag_ids: Iterable[str]) -> None:
        wanted = sorted(set(dag_ids))
        if wanted:
            query = sa.select(dag_successes.c.dag_id, dag_successes.c.ended_at).where(dag_successes.c.dag_id.in_(wanted))
            self.successes = {row.dag_id: row.ended_at for row in self.conn.execute(query)}

    def _read_launches(self, names: Sequence[str], longest: timedelta) -> None:
        if not names:
            return
        runs = schedule_runs.c
        query = sa.select(runs.schedule, runs.reserved_at).order_by(runs.reserved_at)
        query = query.where(runs.schedule.in_(sorted(names)), runs.reserved_at > self.now - longest)
        for row in self.conn.execute(query):
            self._launches[row.schedule].append(row.reserved_at)

    def _read_more_urgent(self, keys: Iterable[str]) -> None:
        wanted = sorted(set(keys))
        if not wanted:
            return
        waiting = (pending_jobs.c.waits_for.in_(wanted), is_open, pending_jobs.c.priority > self._lowest)
        columns = (pending_jobs.c.waits_for, pending_jobs.c.priority)
        for key, priority, number in self.conn.execute(sa.select(*columns, sa.func.count()).where(*waiting).group_by(*columns)):
            self._more_urgent[key][priority] = number


@dataclass
class BatchFacts(StoredFacts):
    """The facts for one pending job of a batch."""

    shared: SharedFacts

    def active_runs(self, dag_id: str) -> int:
        return self.count_of_dag(dag_id, self.shared.reserved)

    def active_runs_of_group(self, group: str) -> int:
        return self.shared.active_of_group(group, self)

    def last_success(self, dag_id: str) -> datetime | None:
        return self.shared.successes.get(dag_id)

    def launches_since(self, moment: datetime) -> tuple[datetime, ...]:
        return self.shared.launches_since(self.schedule, moment)

    def held(self, key: str) -> int:
        return self.shared.held(key)

    def more_urgent(self, key: str) -> int:
        return self.shared.more_urgent(key, self.priority)
