"""Replay the commits of writers, with the passes of a policy in between."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg.health import read_health
from airflow_snowpack.jobs.action_history import ActionHistory, ActionRecord
from airflow_snowpack.maintenance.planning import plan_table
from airflow_snowpack.maintenance.replay.health import health_of
from airflow_snowpack.maintenance.replay.model import Point, ReplayOutcome, SimulatedRun
from airflow_snowpack.maintenance.replay.state import SimulatedTable
from airflow_snowpack.maintenance.table_defaults import options_for

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import datetime, timedelta

    from airflow_snowpack.iceberg.health import TableHealth
    from airflow_snowpack.iceberg.metadata_reader import PartitionKey
    from airflow_snowpack.maintenance.planning.finding import Finding
    from airflow_snowpack.maintenance.policies import TablePolicy
    from airflow_snowpack.maintenance.replay.history import TableHistory


def passes(since: datetime, until: datetime, every: timedelta) -> tuple[datetime, ...]:
    """Return the times of the passes over the fleet, counted back from the last one at ``until``."""
    number = int((until - since) / every)
    return tuple(until - every * back for back in range(number, -1, -1) if until - every * back > since)


def recorded(history: TableHistory, until: datetime, *, maintained: bool) -> ReplayOutcome:
    """Return the numbers of the table without simulated passes, with or without its real maintenance."""
    state = SimulatedTable(history)
    points = [state.point(history.begin)]
    for commit in history.commits:
        if maintained or not commit.is_maintenance:
            state.write(commit)
            points.append(state.point(commit.at))
        else:
            state.skip(commit)
    label = "as it was" if maintained else "without maintenance"
    return ReplayOutcome(label, (*points, replace(points[-1], at=max(until, points[-1].at))))


def simulate(
    history: TableHistory,
    policy: TablePolicy,
    passes: Sequence[datetime],
    *,
    label: str,
    health: TableHealth | None = None,
) -> ReplayOutcome:
    """Return what would have happened to the table with this policy and passes at these times.

    :param label: of the policy.
    :param health: of the real table now, if it has been read.
    """
    return _Simulation(history, policy, label, health or read_health(history.table, now=passes[-1], bounds=policy.bounds)).run(
        passes
    )


class _Simulation:
    def __init__(self, history: TableHistory, policy: TablePolicy, label: str, real: TableHealth) -> None:
        self._history = history
        self._policy = policy
        self._label = label
        self._real = real
        self._state = SimulatedTable(history)
        self._records: dict[str, ActionRecord] = {}
        self._points: list[Point] = [self._state.point(history.begin)]
        self._runs: list[SimulatedRun] = []

    def run(self, passes: Sequence[datetime]) -> ReplayOutcome:
        commits = iter((*self._history.commits, None))
        commit = next(commits)
        for at in (each for each in passes if each > self._history.begin):
            while commit is not None and commit.at <= at:
                if commit.is_maintenance:
                    self._state.skip(commit)
                else:
                    self._state.write(commit)
                    self._points.append(self._state.point(commit.at))
                commit = next(commits)
            self._runs += self._pass(at)
            self._points.append(self._state.point(at))
        return ReplayOutcome(self._label, tuple(self._points), tuple(self._runs))

    def _pass(self, now: datetime) -> Iterator[SimulatedRun]:
        health, history = health_of(self._state, self._real, self._policy.bounds, now), ActionHistory(dict(self._records))
        plan = plan_table(health, self._policy, now=now, history=history)
        for action, finding in plan.findings.items():
            decision, record = plan.of(action), history.of(action)
            options = options_for(action, decision.options, health.properties, by_plan=True)
            done = options.simulate(self._state, now, self._partitions(finding))
            self._records[action] = replace(record, last_run_at=now, last_success_at=now, runs=record.runs + 1)
            yield SimulatedRun(now, action, decision.evidence, done)

    def _partitions(self, finding: Finding) -> Collection[PartitionKey] | None:
        """Return the keys of the partitions that a plan selects; ``None`` for all."""
        if finding.partitions is None:
            return None
        labels = {(each.spec_id, each.label) for each in finding.partitions}
        return {key for key in self._state.partition_keys() if (key[0], self._state.label(key)) in labels}
