"""Replay tables: the commits of their writers, with the passes of policies in between.

    history = read_history(table, since=now - timedelta(days=30))
    outcome = simulate(history, policy, passes(since, now, timedelta(days=1)), label="new.yaml")
    outcome.bytes_rewritten, outcome.points[-1].files

Plans are made by :func:`~airflow_snowpack.maintenance.planning.plan_table`, and rewrites select files by the rules of their
actions. ``docs/replay.md`` lists the approximations.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.humanize import sentence
from airflow_snowpack.iceberg import load_table
from airflow_snowpack.iceberg.catalog import unreadable_errors
from airflow_snowpack.iceberg.errors import CatalogUnreachable, TableUnreadable
from airflow_snowpack.iceberg.health import read_health
from airflow_snowpack.iceberg.table_properties import owner_properties
from airflow_snowpack.jobs.action_history import ActionHistory, ActionRecord
from airflow_snowpack.maintenance.planning import plan_table
from airflow_snowpack.maintenance.replay.health import health_of
from airflow_snowpack.maintenance.replay.history import read_history
from airflow_snowpack.maintenance.replay.model import Point, Replay, ReplayOutcome, SimulatedRun, TableReplay
from airflow_snowpack.maintenance.replay.state import SimulatedTable
from airflow_snowpack.maintenance.table_defaults import options_for

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from datetime import datetime, timedelta

    from pyiceberg.catalog import Catalog

    from airflow_snowpack.iceberg import TableName
    from airflow_snowpack.iceberg.health import TableHealth
    from airflow_snowpack.iceberg.metadata_reader import PartitionKey
    from airflow_snowpack.maintenance.planning.finding import Finding
    from airflow_snowpack.maintenance.policies import Policies, TablePolicy
    from airflow_snowpack.maintenance.replay.history import Commit, TableHistory


def replay_tables(
    catalog: Catalog,
    tables: Sequence[TableName],
    policies: Mapping[str, Policies],
    *,
    since: datetime,
    until: datetime,
    every: timedelta,
    progress: Callable[[int, str], None] = lambda _done, _table: None,
) -> Replay:
    """Replay tables one after the other; those that cannot be replayed become problems of the result.

    :param policies: by label.
    :param until: the time of the last pass.
    :param every: the time between passes over the fleet.
    :param progress: called after each table with the number done and the table's name.
    :raises CatalogUnreachable: the catalog does not answer.
    """
    found, problems, times = list[TableReplay](), dict[str, str](), passes(since, until, every)
    for done, name in enumerate(tables, start=1):
        try:
            found.append(_replay(catalog, name, policies, since, times))
        except CatalogUnreachable:
            raise
        except SnowpackError as problem:
            problems[name.dotted] = sentence(str(problem))
        except Exception as problem:  # noqa: BLE001 - metadata may contain anything; the other tables are replayed
            problems[name.dotted] = f"It cannot be simulated: {type(problem).__name__}: {problem}."
        progress(done, name.dotted)
    return Replay(since, until, len(times), tuple(found), problems)


def _replay(
    catalog: Catalog, name: TableName, policies: Mapping[str, Policies], since: datetime, times: Sequence[datetime]
) -> TableReplay:
    table, until = load_table(catalog, name), times[-1]
    try:
        history = read_history(table, since)
    except unreadable_errors() as error:
        raise TableUnreadable(name.dotted, error) from error
    merged = {label: each.of(name, owner_properties(table)) for label, each in policies.items()}
    health = read_health(table, now=until)
    return TableReplay(
        name.dotted,
        history.begin,
        until,
        sum(not commit.is_maintenance for commit in history.commits),
        recorded(history, until, maintained=True),
        recorded(history, until, maintained=False),
        tuple(simulate(history, policy, times, label=label, health=health) for label, policy in merged.items()),
        history.abandoned,
    )


def passes(since: datetime, until: datetime, every: timedelta) -> tuple[datetime, ...]:
    """Return the times of the passes over the fleet, counted back from the last one at ``until``."""
    number = int((until - since) / every)
    return tuple(until - every * back for back in range(number, -1, -1) if until - every * back > since)


def recorded(history: TableHistory, until: datetime, *, maintained: bool) -> ReplayOutcome:
    """Return the numbers of the table without simulated passes, with or without its real maintenance."""
    state = SimulatedTable(history)
    points = [state.point(history.begin)]
    for commit in history.commits:
        _apply(commit, state, points, maintained=maintained)
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
    real = health or read_health(history.table, now=passes[-1], bounds=policy.bounds)
    state, records, runs = SimulatedTable(history), dict[str, ActionRecord](), list[SimulatedRun]()
    points, commits = [state.point(history.begin)], deque(history.commits)
    for at in (each for each in passes if each > history.begin):
        while commits and commits[0].at <= at:
            _apply(commits.popleft(), state, points)
        runs += _pass(state, real, policy, records, at)
        points.append(state.point(at))
    return ReplayOutcome(label, tuple(points), tuple(runs))


def _apply(commit: Commit, state: SimulatedTable, points: list[Point], *, maintained: bool = False) -> None:
    if commit.is_maintenance and not maintained:
        state.skip(commit)
    else:
        state.write(commit)
        points.append(state.point(commit.at))


def _pass(
    state: SimulatedTable, real: TableHealth, policy: TablePolicy, records: dict[str, ActionRecord], now: datetime
) -> Iterator[SimulatedRun]:
    """Simulate one pass over the table, and update the records of its actions."""
    health, history = health_of(state, real, policy.bounds, now), ActionHistory(dict(records))
    plan = plan_table(health, policy, now=now, history=history)
    for action, finding in plan.findings.items():
        decision, record = plan.of(action), history.of(action)
        options = options_for(action, decision.options, health.properties, by_plan=True)
        done = options.simulate(state, now, _partitions(state, finding))
        records[action] = replace(record, last_run_at=now, last_success_at=now, runs=record.runs + 1)
        yield SimulatedRun(now, action, decision.evidence, done)


def _partitions(state: SimulatedTable, finding: Finding) -> Collection[PartitionKey] | None:
    """Return the keys of the partitions that a plan selects; ``None`` for all."""
    if finding.partitions is None:
        return None
    labels = {(each.spec_id, each.label) for each in finding.partitions}
    return {key for key in state.partition_keys() if (key[0], state.label(key)) in labels}
