"""Why a schedule has not run is told in words, at any moment."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.scheduling import (
    BytesAdded,
    ClusterLoad,
    Constraint,
    Cron,
    CustomEvents,
    Delay,
    MaxConcurrent,
    PartitionsAdded,
    PoolSlots,
    Schedule,
    Timeout,
    TimeWindow,
    explain,
)
from airflow_snowpack.scheduling.airflow_port import NotStarted
from airflow_snowpack.scheduling.sources.source import ProblemKind, SourceProblem, dag_source, write_problem
from airflow_snowpack.scheduling.triggers.trigger import table_key
from airflow_snowpack.store.signs_of_life import Role, SignOfLife
from airflow_snowpack.store.tables.schedules import schedules

GO = CustomEvents("go")

pytestmark = pytest.mark.one_database


def create(scheduler: Any, **changes: Any) -> None:
    trigger = PartitionsAdded("web.page_views", 5) & BytesAdded("web.page_views", "100GB")
    scheduler.schedules.create(
        Schedule(**{"name": "nightly", "dag_id": "maintain", "trigger": trigger, "enabled": True} | changes)
    )


def said(scheduler: Any) -> list[str]:
    return explain(scheduler.schedules, "nightly").sentences()


def test_a_trigger_tells_its_progress_with_the_events_that_no_check_has_counted_yet(scheduler: Any) -> None:
    create(scheduler)
    scheduler.arrive(partitions=3, bytes=41_000_000_000)
    scheduler.subscriber.step()
    for role in (Role.SCHEDULER, Role.POLLER):
        SignOfLife(scheduler.store, role).beat()

    assert said(scheduler) == [
        "nightly is enabled and starts maintain.",
        "Its trigger is not satisfied: 3 of 5 partitions of web.page_views and 38.2 GiB of 93.1 GiB of web.page_views.",
        "The table web.page_views has not been read yet.",
        "It has not launched yet.",
    ]


def test_each_constraint_that_blocks_is_named_with_its_moment(scheduler: Any) -> None:
    create(scheduler, trigger=PartitionsAdded("web.page_views"), constraints=[TimeWindow("22:00", "06:00"), Delay("10m")])
    scheduler.arrive()
    scheduler.work()

    assert said(scheduler)[2:] == [
        "It waits: outside of 22:00 to 06:00 UTC, until 2026-11-21 22:00:00 UTC.",
        "It waits: delayed by 10 min, until 2026-11-21 12:10:00 UTC.",
        "Its constraints are next evaluated at 2026-11-21 22:00:00 UTC.",
        "If it still waits at 2026-11-22 12:00:00 UTC, it is discarded.",
        "The table web.page_views has not been read yet.",
        "To start a run now without its constraints: `airflow snowpack schedules run nightly`.",
        "It has not launched yet.",
    ]


def test_a_run_that_cannot_be_started_says_why(scheduler: Any) -> None:
    create(scheduler, trigger=PartitionsAdded("web.page_views"))
    scheduler.airflow.refusal = NotStarted("the DAG maintain is paused")
    scheduler.arrive()
    scheduler.work()

    lines = said(scheduler)
    (line,) = [each for each in lines if each.startswith("Run ")]
    assert line.endswith("could not be started: the DAG maintain is paused. The next attempt is at 2026-11-21 12:00:05 UTC.")
    assert lines[lines.index(line) + 1 :][:2] == ["It has 1 event.", "Further events join this run until it starts."]


def test_a_full_group_names_the_runs_that_take_its_places(scheduler: Any) -> None:
    create(scheduler, name="first", dag_id="other", trigger=GO, constraints=[MaxConcurrent(1, group="etl")])
    create(scheduler, trigger=PartitionsAdded("web.page_views"), constraints=[MaxConcurrent(1, group="etl")])
    scheduler.send("go")
    scheduler.work()
    scheduler.arrive()
    scheduler.work()

    (run,) = scheduler.started
    assert f"The places are taken by {run.run_id} of other. It starts when one of them ends." in said(scheduler)


def test_a_run_that_expires_before_its_window_opens_is_named(scheduler: Any) -> None:
    window = TimeWindow("02:00", "03:00")
    create(scheduler, trigger=PartitionsAdded("web.page_views"), constraints=[window], timeout=Timeout("1h"))
    scheduler.arrive()
    scheduler.work()

    assert "It cannot run before that. Give the schedule a longer timeout, or another constraint." in said(scheduler)


def test_a_missing_poller_is_named_for_schedules_of_tables_while_a_scheduler_runs(scheduler: Any) -> None:
    create(scheduler, trigger=PartitionsAdded("web.page_views"))
    create(scheduler, name="by_hand", trigger=GO)
    scheduler.work()
    assert not any("poller" in line for line in said(scheduler))

    scheduler.clock.move(minutes=6)
    SignOfLife(scheduler.store, Role.SCHEDULER).beat()
    expected = (
        "No table poller is running: the last one ran at 2026-11-21 12:00:00 UTC. It runs inside the scheduler: search its "
    )
    assert f"{expected}log for tables_not_polled, or restart it." in said(scheduler)
    assert not any("poller" in line for line in str(explain(scheduler.schedules, "by_hand")).splitlines())


def suspended(scheduler: Any) -> None:
    scheduler.schedules.suspend("nightly")


def unreadable(scheduler: Any) -> None:
    change = sa.update(schedules).values(definition={"trigger": "of a later version"})
    scheduler.store.transact(lambda conn: conn.execute(change))


def without_a_scheduler(scheduler: Any) -> None:
    scheduler.clock.move(minutes=6)


def without_a_poller(scheduler: Any) -> None:
    scheduler.clock.move(minutes=6)
    SignOfLife(scheduler.store, Role.SCHEDULER).beat()


def table_is(kind: ProblemKind, problem: str = "") -> Callable[[Any], None]:
    def write(scheduler: Any) -> None:
        key = table_key(TableName.parse("web.page_views", catalog="lake"))
        found = SourceProblem.found(kind, scheduler.clock(), problem)
        scheduler.store.transact(lambda conn: write_problem(conn, key, found, None))

    return write


def its_dag_is_gone(scheduler: Any) -> None:
    key = dag_source("maintain")
    found = SourceProblem.found(ProblemKind.MISSING, scheduler.clock())
    scheduler.store.transact(lambda conn: write_problem(conn, key, found, None))


def not_started(reason: str) -> Callable[[Any], None]:
    def refuse(scheduler: Any) -> None:
        scheduler.airflow.refusal = NotStarted(reason)
        scheduler.arrive()
        scheduler.work()

    return refuse


def waits_for(constraint: Constraint, **changes: Any) -> Callable[[Any], None]:
    def block(scheduler: Any) -> None:
        scheduler.airflow.running["maintain"] = {"manual__1"}
        scheduler.schedules.update(replace(scheduler.schedules.get("nightly").schedule, constraints=(constraint,), **changes))
        scheduler.arrive()
        scheduler.work()

    return block


START = "airflow snowpack schedules run nightly"
DOCTOR = "airflow snowpack doctor"


@pytest.mark.parametrize(
    ("becomes_stuck", "command"),
    [
        (suspended, "airflow snowpack schedules resume nightly"),
        (unreadable, "airflow snowpack schedules show nightly"),
        (without_a_scheduler, "airflow snowpack scheduler"),
        (without_a_poller, DOCTOR),
        (table_is(ProblemKind.MISSING), DOCTOR),
        (table_is(ProblemKind.UNREADABLE, "it took longer than 30 s"), DOCTOR),
        (its_dag_is_gone, "airflow dags list-import-errors"),
        (not_started("the DAG maintain is paused"), "airflow dags unpause maintain"),
        (not_started("Airflow's API does not answer"), DOCTOR),
        (waits_for(TimeWindow("22:00", "06:00")), START),
        (waits_for(TimeWindow("22:00", "06:00"), timeout=Timeout("1h")), START),
        (waits_for(Delay("10m")), START),
        (waits_for(MaxConcurrent(1)), START),
        (waits_for(PoolSlots("no_such_pool")), START),
        (waits_for(ClusterLoad("broken")), START),
    ],
)
def test_a_schedule_that_is_stuck_names_one_command_that_helps(
    scheduler: Any, becomes_stuck: Callable[[Any], None], command: str
) -> None:
    create(scheduler, trigger=PartitionsAdded("web.page_views"))
    scheduler.work()
    assert "`" not in str(explain(scheduler.schedules, "nightly")), "nothing is wrong yet"

    becomes_stuck(scheduler)
    assert re.findall("`(.*?)`", str(explain(scheduler.schedules, "nightly"))) == [command]


def test_no_secret_in_the_reason_of_a_launch_is_shown(scheduler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_AIRFLOW", "http://u:tok-en-n3xt@airflow")
    create(scheduler, trigger=PartitionsAdded("web.page_views"))
    scheduler.airflow.refusal = NotStarted("http://u:other@airflow/runs?a=b refused tok-en-n3xt\0")
    scheduler.arrive()
    scheduler.work()

    history = str(scheduler.entries("nightly"))
    assert any("http://airflow/runs refused ***\N{REPLACEMENT CHARACTER}." in line for line in said(scheduler))
    assert "http://airflow/runs refused ***" in history
    assert "tok-en" not in history


def test_a_suspended_schedule_says_so_and_what_it_did_before(scheduler: Any) -> None:
    create(scheduler, trigger=PartitionsAdded("web.page_views"))
    scheduler.arrive()
    scheduler.work()
    scheduler.schedules.suspend("nightly")

    first, _, third = said(scheduler)
    assert first.startswith("nightly is suspended")
    assert third == f"2026-11-21 12:00:00 UTC: launched {scheduler.started[0].run_id}."


def test_a_clock_tells_when_it_comes_next(scheduler: Any) -> None:
    create(scheduler, trigger=Cron("0 2 * * *"))

    assert "Its clock is next due at 2026-11-22 02:00:00 UTC." in said(scheduler)
