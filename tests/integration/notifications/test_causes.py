"""What people have to know is found by reading the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from made_health import made_health, sick_health
from pages_world import TABLES, World
from planned_removals import plan_removal
from query_plans import scans, sent_by
from wrong_things import entry, fail, heal, run_pass, sicken, succeed

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import JobStatus
from airflow_snowpack.maintenance.fleet.budget import Budget
from airflow_snowpack.maintenance.fleet.model import EntryState
from airflow_snowpack.maintenance.policies import Policies, Rule
from airflow_snowpack.notifications import NotificationCause, find_causes
from airflow_snowpack.scheduling import Cron, Schedule
from airflow_snowpack.store import Actor

VIEWS, SESSIONS, REFUNDS = "analytics.page_views", "analytics.sessions", "payments.refunds"
REFUSED = "Connection to 'sc://spark:secret@10.0.0.7:15002/;token=t0k3n' refused with /etc/keys/spark.jks after 3 tries."


def found(world: World, policies: Policies | None = None) -> list[NotificationCause]:
    return find_causes(world.store, policies, score_below=80)


def sentences(world: World, policies: Policies | None = None) -> list[str]:
    return [each.sentence for each in found(world, policies)]


@contextmanager
def counted(world: World) -> Iterator[list[str]]:
    seen: list[str] = []

    def note(conn: object, cursor: object, statement: str, *rest: object) -> None:
        seen.append(statement)

    sa.event.listen(world.store.engine, "before_cursor_execute", note)
    yield seen
    sa.event.remove(world.store.engine, "before_cursor_execute", note)


def test_a_store_in_which_nothing_is_wrong_has_no_causes(world: World) -> None:
    succeed(world, VIEWS)
    heal(world, VIEWS)
    assert found(world) == []


def test_equal_errors_of_many_tables_are_one_cause_without_secrets_and_paths(world: World) -> None:
    for number, dotted in enumerate(TABLES[:5]):
        fail(world, dotted, REFUSED.replace("10.0.0.7", f"10.0.0.{number}"))
    (cause,) = found(world)
    assert cause.sentence == (
        "5 tables failed: logistics.shipments, analytics.funnels_daily, analytics.events_raw and 2 more: "
        "Connection to … refused with … after … tries."
    )
    newest = world.jobs.list()[0]
    assert cause.path == f"/jobs/{newest.job_id}"


def test_the_newest_ended_job_of_a_table_decides_whether_it_fails(world: World) -> None:
    fail(world, VIEWS, "No space left.")
    world.clock.move(seconds=1)
    waiting = world.submit(VIEWS)
    (before,) = found(world)
    world.jobs.cancel(waiting.job_id)
    fail(world, VIEWS, "The bucket is gone.")
    (after,) = found(world)
    assert [before.sentence, after.sentence] == [
        f"1 table failed: {VIEWS}: No space left.",
        f"1 table failed: {VIEWS}: The bucket is gone.",
    ]
    succeed(world, VIEWS)
    assert found(world) == []


def test_owners_come_from_table_properties_and_policies_and_separate_causes(world: World) -> None:
    sicken(world, VIEWS)
    sicken(world, SESSIONS, owner="spark", **{"snowpack.owner": "ana"})
    sicken(world, REFUNDS, owner="etl")
    by_table = {each.path: each.owner for each in found(world)}
    assert by_table == {
        "/tables/analytics/page_views": "", "/tables/analytics/sessions": "ana", "/tables/payments/refunds": "etl",
    }  # fmt: skip
    policies = Policies([Rule("payments.*", owner="payments"), Rule("analytics.*", owner="analytics")])
    assert [each.owner for each in found(world, policies)] == ["analytics", "ana", "payments"]


def test_the_owner_of_a_failed_table_is_that_of_its_own_catalog(world: World) -> None:
    for catalog_id, owner in (("c0ffee", "ana"), ("decade", "ben")):
        table, health = TableName.parse(VIEWS, catalog="lake", catalog_id=catalog_id), made_health(properties={"owner": owner})
        world.installation.health_records.put(table, health)
    job = world.jobs.submit(TableName.parse(VIEWS, catalog="lake", catalog_id="decade"), ["expire_snapshots"])
    claim = world.jobs.claim("worker", job_id=job.job_id, catalog_id="decade")
    assert claim is not None
    world.jobs.finish(claim, JobStatus.FAILED, [], "No space left.")
    assert [each.owner for each in found(world)] == ["ben"]


def test_a_table_that_left_the_catalog_is_no_cause(world: World) -> None:
    for dotted in (VIEWS, "analytics.dropped"):
        sicken(world, dotted)
        fail(world, dotted, "No space left.")
    assert "dropped" not in " ".join(sentences(world))
    world.clock.move(days=2)  # an old list of the catalog does not show that a table is gone
    assert "analytics.dropped" in " ".join(sentences(world))


def test_unreadable_tables_are_grouped_and_sick_ones_are_not(world: World) -> None:
    for number, dotted in enumerate((VIEWS, SESSIONS)):
        world.installation.health_records.unreadable(world.table(dotted), "", f"The file s3://lake/{number}.avro is missing.")
    sicken(world, REFUNDS)
    sicken(world, TABLES[2])
    assert sentences(world) == [
        "analytics.events_raw has a score of 56, below 80.",
        "payments.refunds has a score of 56, below 80.",
        f"2 tables cannot be read: {VIEWS} and {SESSIONS}: The file … is missing.",
    ]


@pytest.mark.one_database
def test_a_table_with_the_longest_name_of_a_catalog_with_a_short_one_is_a_cause(world: World) -> None:
    table = TableName("x", "payments", "r" * 244)
    world.installation.health_records.put(table, sick_health())
    (cause,) = found(world)
    assert cause.sentence.startswith(f"{table.dotted} has a score of ")


def test_a_missed_deadline_lasts_while_the_next_pass_maintains_the_table(world: World) -> None:
    hour = timedelta(hours=1)
    waits, is_not_due = entry(world, VIEWS, EntryState.WAITING, due=hour), entry(world, SESSIONS, EntryState.FAILED, due=-hour)
    run_pass(world, [waits, is_not_due], Budget())
    (missed,) = found(world)
    assert missed.sentence == f"{VIEWS} has missed its deadline, 2026-11-21 05:00:00 UTC: it waits for the next pass."
    run_pass(world, [entry(world, VIEWS, EntryState.CHOSEN, due=hour)], Budget())
    (again,) = found(world)
    assert (again.key, again.opens, missed.opens) == (missed.key, False, True)
    run_pass(world, [entry(world, VIEWS, EntryState.MAINTAINED, due=hour)], Budget())
    assert found(world) == []


def test_a_pass_is_over_its_budget_by_what_it_used_and_by_what_did_not_fit(world: World) -> None:
    budget = Budget(gb_hours=2, time=timedelta(hours=1))
    run_pass(
        world,
        [entry(world, VIEWS, EntryState.WAITING, runs=True), entry(world, SESSIONS, EntryState.WAITING)],
        budget,
        {"spent": {"gb_hours": 2.5, "bytes": 0, "seconds": 60.0}, "seconds": 7_200, "text": "", "counts": {}},
    )
    assert sentences(world) == [
        "The last pass over lake is over its budget: 2.5 GB·h of 2 GB·h used, 2 h of 1 h used and 1 table did not fit."
    ]
    run_pass(world, [], budget, {"spent": {"gb_hours": 1, "bytes": 0}, "seconds": 3_630, "text": "", "counts": {}})
    assert found(world) == []


def test_a_removal_is_a_cause_until_it_is_decided_or_expires(world: World) -> None:
    first, second = (plan_removal(world.store, world.table(dotted), first="a.parquet") for dotted in (VIEWS, REFUNDS))
    text = "the removal of 3 orphan files (3.0 KiB) waits for an approval until 2026-11-28 06:00:00 UTC."
    assert sorted(sentences(world)) == [f"{VIEWS}: {text}", f"{REFUNDS}: {text}"]
    world.installation.removals.approve(first.removal_id, actor=Actor("vera", "page"))
    assert [each.path for each in found(world)] == [f"/removals/{second.removal_id}"]
    world.clock.move(days=7)
    assert found(world) == []


def test_schedules_are_late_when_no_scheduler_evaluates_them(world: World) -> None:
    for number in range(5):
        schedule = Schedule(f"hourly_{number}", "score", Cron("0 * * * *"), enabled=True)
        world.installation.schedules(Actor("vera", "api")).create(schedule)
    world.clock.move(minutes=70)
    assert found(world) == []
    world.clock.move(minutes=10)
    (cause,) = found(world)
    assert cause.sentence == "No scheduler evaluates 5 due schedules: hourly_0, hourly_1, hourly_2 and 2 more."


@pytest.mark.parametrize("problem", [None, "the DAG 'score' is paused"])
def test_runs_that_nothing_starts_are_one_cause_for_each_problem(world: World, problem: str | None) -> None:
    for number in range(3):
        launch(world, f"run_{number}", {"schedule": f"hourly_{number % 2}", "problem": problem})
    world.clock.move(minutes=20)
    why = "no launcher has started them" if problem is None else "the DAG … is paused"
    assert sentences(world) == [f"Not started for 20 min: 3 runs of hourly_0 and hourly_1: {why}."]


def launch(world: World, pending_id: str, values: Mapping[str, Any]) -> None:
    from airflow_snowpack.store.tables.schedules import launches

    now = world.clock()
    row = {"pending_id": pending_id, "dag_id": "score", "run_id": pending_id, "conf": {}, "enqueued_at": now, "visible_at": now}
    world.store.execute(sa.insert(launches).values(**row, attempt_count=0, absorbs=False, **values))


def test_a_run_that_timed_out_is_a_cause_until_the_next_one_ends(world: World) -> None:
    from airflow_snowpack.store.tables.schedules import pending_jobs

    def ended(pending_id: str, state: str, why: str | None) -> None:
        world.clock.move(minutes=1)
        row = {"pending_id": pending_id, "schedule": "hourly", "generation": "g", "dag_id": "score", "priority": 0}
        more = {"created_at": world.clock(), "counted_to": 0, "progress": {}, "reasons": [], "ended_at": world.clock()}
        world.store.execute(sa.insert(pending_jobs).values(**row, **more, state=state, ended_because=why))

    ended("a", "discarded", "its constraints were not met within 1 d: the pool s3://secret is full")
    assert sentences(world) == ["hourly: a run of score was discarded, because its constraints were not met in time."]
    ended("b", "launched", None)
    assert found(world) == []


def test_the_number_of_statements_does_not_grow_with_tables_and_jobs(world: World) -> None:
    numbers = []
    for tables in (TABLES[:1], TABLES):
        for dotted in tables:
            sicken(world, dotted, owner="ana")
            fail(world, dotted, f"Connection refused by {dotted}")
        with counted(world) as seen:
            found(world)
        numbers.append(len(seen))
        assert all(each.startswith("SELECT") for each in seen)
    assert numbers == [8, 8]


def test_no_job_event_or_run_of_a_schedule_is_walked_over(world: World) -> None:
    for dotted in TABLES:
        fail(world, dotted, "No space left.")
    sent = sent_by(world.store, lambda: found(world))
    assert scans(world.store, sent, ["jobs", "pending_jobs", "inventory_tables", "removals", "fleet_entries"]) == []
