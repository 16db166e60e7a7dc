"""The facts that constraints read, from a snapshot of Airflow before the transaction and the store within it, and their rulings.

    snapshot = take_snapshot(store, airflow, asked)         # everything at once, outside any transaction
    facts = ConstraintFacts(conn, snapshot, now)
    facts.read(schedules)                                   # a few statements, while the locks on what they count are held
    rulings = rule_all(constraints, facts.context(schedule, triggered_at, now))
    facts.reserve("maintain", run_id, constraints)          # counts for the next run of the batch

The invariant: **each run gets the facts that it would get if the runs before it in the batch were already written.** To take a
place that the batch counts, a process needs a lock that the transaction holds, so what was read stays true until it ends. A run
that ends meanwhile makes room, and wakes the next. And **no constraint is evaluated before its ruling's time**.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain, zip_longest
from typing import TypeVar

import sqlalchemy as sa

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.scheduling.airflow_port import NOT_YET, AirflowPort, AirflowSnapshot, DagRuns, FreeSlots, Unavailable
from airflow_snowpack.scheduling.constraints.constraint import (
    Constraint,
    ConstraintContext,
    FactUnavailable,
    RequiredFacts,
    Ruling,
    Verdict,
    counted_keys,
    dag_wait_key,
    group_wait_key,
    load_wait_key,
    pool_wait_key,
)
from airflow_snowpack.scheduling.events.event_log import last_number
from airflow_snowpack.scheduling.launches.active_runs import (
    ActiveRuns,
    Wanted,
    active_runs,
    amounts_of,
    dags_of_groups,
    held,
    note_shown,
)
from airflow_snowpack.scheduling.launches.run_ends import Runs
from airflow_snowpack.scheduling.pending_runs.gated_runs import GatePlace, passes_since
from airflow_snowpack.scheduling.pending_runs.model import Reason, is_open
from airflow_snowpack.scheduling.schedule import Schedule
from airflow_snowpack.store import Store
from airflow_snowpack.store.tables.schedules import dag_successes, pending_jobs, schedule_runs

log = logging.getLogger(__name__)
T = TypeVar("T")


def take_snapshot(
    store: Store, airflow: AirflowPort, asked: Sequence[tuple[str, Constraint]], *, at_gate: GatePlace | None = None
) -> AirflowSnapshot:
    """Read the state of Airflow that these constraints require, each paired with the DAG of its run.

    :param at_gate: the run at a gate that asks: in DAGs with a gate, only the ends of runs that passed it matter.
    :raises SnowpackError: Airflow does not answer a gate; for schedules, all of it is unavailable then.
    """
    required = RequiredFacts.merged(each.required_facts(dag_id) for dag_id, each in asked)
    taken_at, newest = store.clock(), store.read(last_number)
    members = store.read(lambda conn: dags_of_groups(conn, required.groups)) if required.groups else {}
    dag_ids = {dag_id for of_group in members.values() for dag_id in of_group}.union(required.dag_runs)
    answers = _Answers(raises=at_gate is not None)
    dag_runs = _dag_runs(store, airflow, dag_ids, at_gate, answers)
    free_slots = answers.to(sorted(required.pools), lambda pools: airflow.free_slots(pools))
    loads = airflow.loads(sorted(required.probes)) if required.probes else {}
    unread = _unread(dag_runs)
    groups = (group_wait_key(group) for group, of_group in members.items() if unread.intersection(of_group))
    snapshot = AirflowSnapshot(
        dag_runs=dag_runs,
        free_slots=free_slots,
        loads=loads,
        taken_at=taken_at,
        newest_event=newest,
        unread=frozenset(
            chain(map(dag_wait_key, unread), groups, map(pool_wait_key, _unread(free_slots)), map(load_wait_key, _unread(loads)))
        ),
        is_outage=answers.is_outage,
    )
    note_shown(store, snapshot)
    return snapshot


def _unread(found: Mapping[str, object]) -> set[str]:
    return {name for name, answer in found.items() if answer is NOT_YET}


class _Answers:
    """Airflow's answers for one snapshot; after an outage all are unavailable or, if ``raises``, the outage is raised."""

    def __init__(self, *, raises: bool) -> None:
        self._raises = raises
        self._outage: Unavailable | None = None

    @property
    def is_outage(self) -> bool:
        return self._outage is not None

    def to(self, names: Collection[str], ask: Callable[[list[str]], Mapping[str, T]]) -> dict[str, T | Unavailable]:
        """Return the answer for each name; :data:`NOT_YET` if there is none."""
        found: Mapping[str, T] = {}
        if names and self._outage is None:
            try:
                found = ask(list(names))
            except SnowpackError as outage:
                if self._raises:
                    raise
                log.warning("airflow_not_reached: what needs its answers waits: %s", outage)
                self._outage = Unavailable(str(outage).rstrip("."))
        return {name: found.get(name, self._outage or NOT_YET) for name in names}


def _dag_runs(
    store: Store, airflow: AirflowPort, dag_ids: Collection[str], at_gate: GatePlace | None, answers: _Answers
) -> dict[str, DagRuns | Unavailable]:
    """Read the runs of these DAGs, and record ends that were not reported."""
    if not dag_ids:
        return {}
    requested_at, known = store.clock(), dict[str, frozenset[str]]()
    for dag_id, active in store.read(lambda conn: active_runs(conn, dag_ids)).items():
        own = {at_gate.run_id} if at_gate is not None and at_gate.dag_id == dag_id else set()
        known[dag_id] = frozenset(active.passed - own if at_gate is not None and active.has_gate else active.started)
    found = answers.to(known, lambda _: airflow.dag_runs(known))
    for dag_id, runs in found.items():
        if isinstance(runs, Unavailable):
            if runs is not NOT_YET and not answers.is_outage:
                log.warning("runs_not_known: of the DAG %s, and what counts them waits: %s", dag_id, runs.why)
            continue
        for run_id, ended in runs.ended.items():
            seen_at = max(requested_at, ended.at)
            Runs(store).ended(dag_id, run_id, ended.state, ended.at, began_at=ended.began_at, seen_at=seen_at)
    return found


class ConstraintFacts:
    """What the store has about the constraints of some runs, updated while they are evaluated."""

    def __init__(self, conn: sa.Connection, snapshot: AirflowSnapshot, now: datetime) -> None:
        self.conn = conn
        self.snapshot = snapshot
        self.now = now
        self.members: dict[str, list[str]] = {}
        self.active: dict[str, ActiveRuns] = {}
        self.successes: dict[str, datetime | None] = {}
        self.launches: dict[str, list[datetime]] = {}
        self._held: dict[str, int] = {}
        self._active_by_group: dict[str, int] = {}
        self.more_urgent: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self._lowest_priority = 0

    def read(self, runs: Sequence[Schedule | Wanted]) -> None:
        required = {each.name: RequiredFacts.of(each.constraints, each.dag_id) for each in runs}
        together = RequiredFacts.merged(required.values())
        self.members = dags_of_groups(self.conn, together.groups)
        counted = {dag_id for dag_ids in self.members.values() for dag_id in dag_ids}.union(together.dag_runs)
        self.active = active_runs(self.conn, counted) if counted else {}
        self._read_successes(together.successes)
        self._read_launches([name for name, facts in required.items() if facts.launches_within], together.launches_within)
        self._lowest_priority = min((each.priority for each in runs), default=0)
        self._read_more_urgent({key for each in runs for key in counted_keys(each.dag_id, each.constraints)})

    def context(self, run: Schedule | Wanted, triggered_at: datetime, now: datetime) -> RunContext:
        return RunContext(self, run.dag_id, run.name, run.priority, triggered_at, now)

    def active_of_group(self, group: str) -> int:
        """:raises FactUnavailable: Airflow does not report the runs of a DAG of the group."""
        if group not in self._active_by_group:
            known = {dag_id: self.in_airflow(dag_id) for dag_id in self.members[group]}
            counted = (runs.others + len(self.active[one].counted_in_group - runs.ended.keys()) for one, runs in known.items())
            self._active_by_group[group] = sum(counted)
        return self._active_by_group[group]

    def held(self, key: str) -> int:
        """Return how much of a pool or a load is reserved."""
        if key not in self._held:
            self._held[key] = held(self.conn, key, self.snapshot.taken_at or self.now)
        return self._held[key]

    def reserve(self, dag_id: str, run_id: str, constraints: Iterable[Constraint]) -> None:
        """Count the run from now on, before it is written with the rest of the batch."""
        if dag_id in self.active:
            self.active[dag_id].every.add(run_id)
            self._active_by_group.clear()
        for key, amount in amounts_of(constraints).items():
            self._held[key] = self.held(key) + amount

    def move(self, priority: int, was: str | None, to: str | None) -> None:
        """Move a pending run of this priority from one wait key to another."""
        if priority <= self._lowest_priority:
            return
        if was is not None:
            self.more_urgent[was][priority] -= 1
        if to is not None:
            self.more_urgent[to][priority] += 1

    def in_airflow(self, dag_id: str) -> DagRuns:
        """:raises FactUnavailable: Airflow does not report the DAG's runs."""
        runs = self.snapshot.dag_runs.get(dag_id, DagRuns())
        if isinstance(runs, Unavailable):
            raise FactUnavailable(f"the runs of {dag_id} are not known: {runs.why}")
        return runs

    def _read_successes(self, dag_ids: Iterable[str]) -> None:
        wanted = sorted(set(dag_ids))
        if wanted:
            query = sa.select(dag_successes.c.dag_id, dag_successes.c.ended_at).where(dag_successes.c.dag_id.in_(wanted))
            self.successes = dict.fromkeys(wanted) | {row.dag_id: row.ended_at for row in self.conn.execute(query)}

    def _read_launches(self, names: Sequence[str], longest: timedelta) -> None:
        self.launches = {name: [] for name in names}
        runs = schedule_runs.c
        query = sa.select(runs.schedule, runs.reserved_at).order_by(runs.reserved_at)
        query = query.where(runs.schedule.in_(sorted(names)), runs.reserved_at > self.now - longest)
        for row in self.conn.execute(query) if names else ():
            self.launches[row.schedule].append(row.reserved_at)

    def _read_more_urgent(self, keys: Iterable[str]) -> None:
        wanted = sorted(keys)
        waiting = (pending_jobs.c.waits_for.in_(wanted), is_open, pending_jobs.c.priority > self._lowest_priority)
        columns = (pending_jobs.c.waits_for, pending_jobs.c.priority)
        query = sa.select(*columns, sa.func.count()).where(*waiting).group_by(*columns)
        for key, priority, number in self.conn.execute(query) if wanted else ():
            self.more_urgent[key][priority] = number


@dataclass
class RunContext:
    """The facts about one run; a :class:`~airflow_snowpack.scheduling.constraints.constraint.ConstraintContext`."""

    facts: ConstraintFacts
    dag_id: str
    schedule: str
    priority: int
    triggered_at: datetime
    now: datetime

    def active_runs(self, dag_id: str) -> int:
        runs = self.facts.in_airflow(dag_id)
        return runs.others + len(self.facts.active[dag_id].every - runs.ended.keys())

    def active_runs_of_group(self, group: str) -> int:
        return self.facts.active_of_group(group)

    def last_success(self, dag_id: str) -> datetime | None:
        return self.facts.successes[dag_id]

    def launches_since(self, moment: datetime) -> tuple[datetime, ...]:
        launches = self.facts.launches[self.schedule]
        return tuple(launches[bisect_right(launches, moment) :])

    def free_slots(self, pool: str) -> int | None:
        slots = self.facts.snapshot.free_slots.get(pool)
        if isinstance(slots, Unavailable):
            raise FactUnavailable(f"the free slots of pool {pool} are not known: {slots.why}")
        return slots.free if isinstance(slots, FreeSlots) else slots

    def load(self, probe: str) -> float:
        load = self.facts.snapshot.loads[probe]
        if isinstance(load, Unavailable):
            raise FactUnavailable(f"the load {probe} is not known: {load.why}")
        return load

    def held(self, key: str) -> int:
        return self.facts.held(key)

    def more_urgent(self, key: str) -> int:
        return sum(number for other, number in self.facts.more_urgent[key].items() if other > self.priority)


@dataclass
class GateContext(RunContext):
    """The facts about one run at its gate.

    In a DAG with a gate, a run counts once it has passed: all runs of the DAG reach the gate, and none may wait for a run that
    waits itself or is still on its way. So only runs that have passed count, and not this one.

    :param reopened: by DAG, the number of runs that had passed and ended, and are active again.
    """

    place: GatePlace
    reopened: Mapping[str, int] = field(default_factory=dict)

    def active_runs(self, dag_id: str) -> int:
        runs = self.facts.active[dag_id]
        if not runs.has_gate and dag_id != self.place.dag_id:
            return super().active_runs(dag_id)
        own = {self.place.run_id} if dag_id == self.place.dag_id else set()
        return len(runs.passed - own) + self.reopened.get(dag_id, 0)

    def active_runs_of_group(self, group: str) -> int:
        return sum(self.active_runs(dag_id) for dag_id in self.facts.members[group])

    def launches_since(self, moment: datetime) -> tuple[datetime, ...]:
        return passes_since(self.facts.conn, self.place, moment)

    def held(self, key: str) -> int:
        own = (self.place.dag_id, self.place.run_id)
        return held(self.facts.conn, key, self.facts.snapshot.taken_at or self.now, but=own)

    def more_urgent(self, key: str) -> int:
        """Return 0 for runs of this DAG: a schedule counts them from their start, and would wait for this very run."""
        return 0 if key == dag_wait_key(self.place.dag_id) else super().more_urgent(key)


WOKEN = (dag_wait_key(""), group_wait_key(""))


@dataclass(frozen=True, slots=True)
class Rulings:
    each: tuple[tuple[Constraint, Ruling], ...]

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The rulings as stored and displayed."""
        return tuple(
            Reason(constraint.kind, ruling.text, ruling.verdict is Verdict.MET, ruling.not_before)
            for constraint, ruling in self.each
        )

    @property
    def all_met(self) -> bool:
        return all(ruling.verdict is Verdict.MET for _, ruling in self.each)

    @property
    def skips(self) -> tuple[str, ...]:
        """Why the run is to be skipped; empty while it waits for another constraint, because it could not start anyway."""
        return () if self._later else tuple(ruling.text for _, ruling in self.each if ruling.verdict is Verdict.NEVER)

    @property
    def not_before(self) -> datetime | None:
        """The latest time of the rulings, since all must be met; ``None`` without one."""
        return max((ruling.not_before for ruling in self._later if ruling.not_before is not None), default=None)

    @property
    def waits_for(self) -> str | None:
        """The key of its queue, ends of runs before free slots, which must be polled for; ``None`` while it waits for a time."""
        if self.not_before is not None:
            return None
        keys = [ruling.waits_for for ruling in self._later if ruling.waits_for is not None]
        return min(keys, key=lambda key: not key.startswith(WOKEN), default=None)

    @property
    def _later(self) -> list[Ruling]:
        return [ruling for _, ruling in self.each if ruling.verdict is Verdict.LATER]


def rule_all(constraints: Sequence[Constraint], context: ConstraintContext, before: Sequence[Reason] = ()) -> Rulings:
    """Evaluate the constraints; ``before`` has the results of the last evaluation in the same order, if any."""
    rulings = []
    for constraint, earlier in zip_longest(constraints, before[: len(constraints)]):
        if earlier is None or earlier.met or earlier.not_before is None or earlier.not_before <= context.now:
            rulings.append((constraint, constraint.rule(context)))
        else:  # its time has not come
            rulings.append((constraint, Ruling(Verdict.LATER, earlier.text, earlier.not_before)))
    return Rulings(tuple(rulings))
