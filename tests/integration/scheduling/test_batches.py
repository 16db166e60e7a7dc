"""Pending jobs are evaluated in batches: what is decided is the same as one after the other, at a fraction of the statements."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from query_plans import scans, sent_by

from airflow_snowpack.scheduling import (
    CustomEvents,
    Delay,
    MaxConcurrent,
    MaxRuns,
    PendingRun,
    PoolSlots,
    SinceLastRun,
)
from airflow_snowpack.scheduling.constraints.constraint import Constraint
from airflow_snowpack.scheduling.pending_runs import checker, evaluation
from airflow_snowpack.store import open_store

TABLES = ["events", "schedules", "pending_jobs", "pending_events", "schedule_runs", "launches"]
MANY = 80


def declare_many(scheduler: Any, number: int, *constraints: Constraint, **fields: Any) -> None:
    """Schedules of a DAG each, whose jobs are all due."""
    for each in range(number):
        scheduler.declare(f"s{each:03}", CustomEvents("go"), *constraints, **{"dag_id": f"dag_{each}", **fields})
    scheduler.send("go")
    scheduler.subscriber.step()


def declare_at_random(scheduler: Any, chance: random.Random) -> None:
    """Schedules that count the same DAGs, groups and pools, and whose jobs become due one after the other."""
    groups = [None, "g", "h"]
    for number in range(30):
        constraints: list[Constraint] = [MaxConcurrent(chance.randint(1, 3), group=chance.choice(groups))]
        others = [PoolSlots("spark", chance.randint(1, 2)), SinceLastRun("5m"), Delay("3s"), MaxRuns(1, "1m")]
        constraints += chance.sample(others, chance.randint(0, 2))
        priority, timeout = chance.choice([0, 0, 5]), chance.choice(["1d", "20s"])
        fields = {"dag_id": f"dag_{chance.randint(1, 8)}", "priority": priority, "timeout": timeout}
        scheduler.declare(f"s{number:02}", CustomEvents(f"go{number}"), *constraints, **fields)
    for number in range(30):
        scheduler.send(f"go{number}")
        scheduler.subscriber.step()
        scheduler.clock.move(milliseconds=10)


def standing(job: PendingRun) -> tuple[Any, ...]:
    met = [(reason.what, reason.met) for reason in job.reasons]
    return job.schedule, job.state, job.waits_for, met, job.triggered_at, job.expires_at


@pytest.mark.one_database
@pytest.mark.parametrize("number", range(1))
def test_a_batch_decides_what_its_jobs_would_decide_one_after_the_other(
    scheduler: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    clock = type(scheduler.clock)(scheduler.clock.now)
    with open_store(f"sqlite:///{tmp_path}/alone.db", clock=clock) as store:
        alone = type(scheduler)(store, clock)
        for one in (scheduler, alone):
            one.airflow.pools["spark"] = 4
            declare_at_random(one, random.Random(number))
        for turn in range(6):
            for one, size in ((scheduler, checker.BATCH_SIZE), (alone, 1)):
                monkeypatch.setattr(checker, "BATCH_SIZE", size)
                monkeypatch.setattr(checker, "SMALLEST_BATCH", size)
                while one.checker.step().evaluated:
                    pass
                one.launcher.step()
                for _ in range(turn % 3):
                    if len(one.started) > turn:
                        one.end_run(turn)
                one.clock.move(seconds=9)
            names = [f"s{each:02}" for each in range(30)]
            assert [standing(job) for name in names for job in scheduler.pending(name)] == [
                standing(job) for name in names for job in alone.pending(name)
            ]
            assert [launch.schedule for launch in scheduler.started] == [launch.schedule for launch in alone.started]
        assert len(alone.started) > 5


def test_what_waits_for_places_of_its_own_is_evaluated_in_fewer_statements_than_jobs(scheduler: Any) -> None:
    for each in range(MANY):
        scheduler.airflow.running[f"dag_{each}"] = {"manual"}
    declare_many(scheduler, MANY, MaxConcurrent(1))
    sent = sent_by(scheduler.store, lambda: [scheduler.checker.step() for _ in range(2)])
    assert {job.waits_for for each in (0, MANY - 1) for job in scheduler.pending(f"s{each:03}")} == {
        "dag:dag_0",
        f"dag:dag_{MANY - 1}",
    }
    assert len(sent) < MANY / 2
    assert scans(scheduler.store, sent, TABLES) == []


def test_many_runs_that_start_at_once_are_reserved_together(scheduler: Any) -> None:
    declare_many(scheduler, MANY)
    reports = []
    sent = sent_by(scheduler.store, lambda: reports.append(scheduler.checker.step()))
    assert len(reports[0].reserved) == MANY
    assert len(sent) < MANY / 2
    assert scans(scheduler.store, sent, TABLES) == []
    while scheduler.launcher.step().launched:
        pass
    assert {launch.schedule for launch in scheduler.started} == {f"s{each:03}" for each in range(MANY)}
    assert {launch.conf["snowpack"]["event_count"] for launch in scheduler.started} == {1}


def test_of_a_batch_that_counts_one_group_as_many_start_as_there_are_places(scheduler: Any) -> None:
    declare_many(scheduler, 20, MaxConcurrent(3, group="g"))
    assert len(scheduler.checker.step().reserved) == 3
    assert scheduler.checker.step().reserved == ()


@pytest.mark.one_database
def test_a_transaction_takes_a_limited_number_of_turns_and_the_next_goes_on(
    scheduler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "LOCK_LIMIT", 8)
    taken: list[int] = []
    monkeypatch.setattr(evaluation, "lock_keys", lambda _conn, keys: taken.append(len(keys)))
    declare_many(scheduler, 20, MaxConcurrent(1))
    assert len(scheduler.checker.step().reserved) == 20
    assert taken == [8, 8, 4]


@pytest.mark.one_database
def test_a_transaction_discards_a_limited_number_and_the_next_goes_on(scheduler: Any) -> None:
    over = evaluation.DISCARD_LIMIT + 20
    scheduler.airflow.pools["spark"] = 0
    declare_many(scheduler, over, PoolSlots("spark"), timeout="10s")
    scheduler.checker.step()
    scheduler.clock.move(seconds=11)
    commits: list[object] = []
    really = scheduler.store.transact
    scheduler.checker._store.transact = lambda work: commits.append(work) or really(work)
    assert len(scheduler.checker.step().discarded) == over
    assert len(commits) == 2
    assert {scheduler.history(f"s{each:03}")[-1] for each in range(over)} == {"timed_out"}


@pytest.mark.one_database
def test_a_run_of_a_dag_that_others_count_does_not_go_before_them(scheduler: Any) -> None:
    """It would take the place of one that has been due for longer."""
    scheduler.declare("counts", CustomEvents("first"), MaxConcurrent(1))
    scheduler.send("first")
    scheduler.subscriber.step()
    scheduler.clock.move(seconds=1)
    scheduler.declare("free", CustomEvents("second"))
    scheduler.send("second")
    scheduler.work()
    assert [launch.schedule for launch in scheduler.started] == ["counts", "free"]
