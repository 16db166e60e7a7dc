"""The checker: evaluates the pending runs that are due, and reserves those whose trigger and constraints are satisfied.

    Checker(store, airflow).step()              # all that is due
    for report in checker.parts(): ...               # the same, part by part, to start runs in between

Nothing is evaluated before the time that its last evaluation named. The invariant: **checking and reserving is one step.**
Pending runs are evaluated in batches, each in one transaction, under locks on what their constraints count, and a run counts from
the commit on; so two schedules, or two processes, cannot both take the last place.

Runs do not block each other, however many wait: runs that need no answer from Airflow or a load probe come first, then those that
take no place from others, and of the rest, at equal priority, those due for the longest time. A missing answer from Airflow
delays only the runs that need it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.airflow_port import AirflowPort, AirflowSnapshot
from airflow_snowpack.scheduling.constraints.constraint import (
    Constraint,
    RequiredFacts,
    counted_keys,
    dag_wait_key,
    group_wait_key,
    usable_constraint,
)
from airflow_snowpack.scheduling.pending_runs.constraint_context import take_snapshot
from airflow_snowpack.scheduling.pending_runs.evaluation import Evaluation, Outcomes
from airflow_snowpack.scheduling.pending_runs.model import PendingState, RoundReport, is_open
from airflow_snowpack.scheduling.schedule import Definitions
from airflow_snowpack.store import Store, StoreError
from airflow_snowpack.store.tables.schedules import pending_jobs, schedule_groups, schedules

log = logging.getLogger(__name__)

SNAPSHOT_SIZE = 2_000
"""How many pending runs are evaluated on one snapshot of Airflow, which is some seconds old at the end."""
BATCH_SIZE, SMALLEST_BATCH = 500, 50
"""How many pending runs are evaluated in one transaction: a process that wants one of them waits until it ends."""
REQUEST_LIMIT = 250
"""The most DAGs or groups whose runs are read from Airflow in one round; each DAG is a request."""


class Checker:
    def __init__(self, store: Store, airflow: AirflowPort) -> None:
        self._store = store
        self._airflow = airflow

    def step(self, limit: int | None = None) -> RoundReport:
        """Evaluate the pending runs that are due now, or only the ``limit`` most urgent ones."""
        return sum(self.parts(limit), RoundReport())

    def parts(self, limit: int | None = None) -> Iterator[RoundReport]:
        """Do the same part by part; what a part has reserved can be launched before the next one."""
        free, others = _in_order(self._find(limit))
        at_once = [run for run in free if not _needs_answers(run)]
        for runs in (at_once, [run for run in free if _needs_answers(run)], others):
            for start in range(0, len(runs), SNAPSHOT_SIZE):
                outcomes = self._evaluate(runs[start : start + SNAPSHOT_SIZE])
                yield RoundReport(
                    evaluated=sum(outcome is not None for outcome in outcomes.values()),
                    reserved=tuple(key for key, outcome in outcomes.items() if outcome is PendingState.LAUNCH),
                    discarded=tuple(key for key, outcome in outcomes.items() if outcome is PendingState.DISCARDED),
                )

    def _find(self, limit: int | None) -> Sequence[sa.Row[Any]]:
        names = ("pending_id", "schedule", "dag_id", "priority", "created_at", "next_check_at")
        # Step by step: Postgres plans for an unknown time, for which it expects a third of all pending runs to be due, and would
        # scan all schedules to join them.
        due = sa.select(*(pending_jobs.c[name] for name in names))
        cte = due.where(pending_jobs.c.next_check_at <= self._store.clock(), is_open).cte("due")
        cte = cte.prefix_with("MATERIALIZED", dialect="postgresql")
        first = sa.select(cte).order_by(*_by_turn(cte)).limit(limit).subquery()
        # Subqueries instead of joins, for the same reason. A pending run that began while its schedule was deleted has none, and
        # is discarded here.
        declared = sa.select(schedules.c.definition["constraints"]).where(schedules.c.name == first.c.schedule).scalar_subquery()
        is_grouped = sa.exists().where(schedule_groups.c.dag_id == first.c.dag_id)
        query = sa.select(
            first.c.pending_id, first.c.schedule, first.c.dag_id, declared.label("constraints"), is_grouped.label("is_grouped")
        )
        return self._store.all(query.order_by(*_by_turn(first)))

    def _evaluate(self, runs: Sequence[sa.Row[Any]]) -> Outcomes:
        named = sa.select(schedules.c.name, schedules.c.definition).where(schedules.c.name.in_([run.schedule for run in runs]))
        definitions = Definitions((row.name, row.definition) for row in self._store.all(named))
        asked = [(one.dag_id, each) for one in definitions.readable for each in one.constraints]
        snapshot = take_snapshot(self._store, self._airflow, asked)
        outcomes: Outcomes = {}
        # Runs whose answer is still missing stay due, and come first in a later round.
        left, most = [run.pending_id for run in runs if not snapshot.unread.intersection(_waits_for(run))], BATCH_SIZE
        while left:
            batch = left[:most]
            done = self._evaluate_batch(batch, snapshot, definitions)
            outcomes |= done
            left = [pending_id for pending_id in batch if pending_id not in done] + left[most:]
            most = min(BATCH_SIZE, max(SMALLEST_BATCH, 2 * len(done)))  # lock no more than the last transaction evaluated
        return outcomes

    def _evaluate_batch(self, batch: Sequence[str], snapshot: AirflowSnapshot, definitions: Definitions) -> Outcomes:
        """Evaluate these pending runs, or the first ones of them.

        An error in one evaluation rolls all of them back. The batch is therefore halved until the faulty run is found and set
        aside, so that it does not block the others for ever.
        """
        try:
            return self._store.transact(lambda conn: Evaluation(self._store, conn, snapshot).evaluate(batch, definitions))
        except StoreError:
            raise  # an error of the store, not of a pending run
        except Exception as problem:
            if len(batch) > 1:
                return self._evaluate_batch(batch[: len(batch) // 2], snapshot, definitions)
            log.exception("job_not_evaluated: the pending run %s is set aside", batch[0])
            failed = {batch[0]: problem}
        return self._store.transact(lambda conn: Evaluation(self._store, conn, snapshot).evaluate(batch, definitions, failed))


def _by_turn(due: sa.FromClause) -> tuple[sa.ColumnElement[Any], ...]:
    return (due.c.priority.desc(), due.c.next_check_at, due.c.created_at, due.c.pending_id)


def _in_order(due: Sequence[sa.Row[Any]]) -> tuple[list[sa.Row[Any]], list[sa.Row[Any]]]:
    """Return the runs that take no place from any other due run, and the others by turn, within :data:`REQUEST_LIMIT`."""
    declared = {run.pending_id: _constraints(run) for run in due}
    usable = {pending_id: [one for one in constraints if one is not None] for pending_id, constraints in declared.items()}
    taking = [run for run in due if None in declared[run.pending_id] or counted_keys(run.dag_id, usable[run.pending_id])]
    dags_taking = {run.dag_id for run in taking}
    free, others, asked = [], [], set[str]()
    for run in due:
        if run.dag_id not in dags_taking and not (run.is_grouped and taking):
            free.append(run)
        elif len(asked) <= REQUEST_LIMIT:
            asked |= _queried_keys(run.dag_id, usable[run.pending_id])
            if len(asked) <= REQUEST_LIMIT:
                others.append(run)
    return free, others


def _constraints(run: sa.Row[Any]) -> list[Constraint | None]:
    """Return its constraints, with ``None`` for unusable ones; empty if the schedule is gone."""
    return [usable_constraint(one, run.dag_id) for one in run.constraints] if isinstance(run.constraints, list) else []


def _needs_answers(run: sa.Row[Any]) -> bool:
    """Return whether a usable constraint reads something from Airflow or a load probe."""
    required = RequiredFacts.of([one for one in _constraints(run) if one is not None], run.dag_id)
    return bool(required.dag_runs or required.groups or required.pools or required.probes)


def _waits_for(run: sa.Row[Any]) -> set[str]:
    return counted_keys(run.dag_id, [one for one in _constraints(run) if one is not None])


def _queried_keys(dag_id: str, constraints: Iterable[Constraint]) -> set[str]:
    """Return the groups, or else the DAGs, whose runs these constraints count."""
    keys: set[str] = set()
    for facts in (each.required_facts(dag_id) for each in constraints):
        keys |= {group_wait_key(group) for group in facts.groups} or {dag_wait_key(counted) for counted in facts.dag_runs}
    return keys
