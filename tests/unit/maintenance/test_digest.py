"""The digest of a night: what its sentence counts, which failures have one cause, and which of them can be run again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from health_pages_world import keep
from made_health import made_health, sick_health
from pages_world import World, compacted, did, expired, open_world

from airflow_snowpack.iceberg.health import SnapshotLog
from airflow_snowpack.inventory import TableScores
from airflow_snowpack.jobs import ActionOutcome, Job, JobStatus
from airflow_snowpack.jobs.withdrawal import withdraw
from airflow_snowpack.maintenance import Action, digest as module
from airflow_snowpack.maintenance.digest import Digest, group_failures, read_digest

TABLES = ("analytics.page_views", "analytics.sessions", "payments.refunds", "payments.transactions")
OUT_OF_MEMORY = (
    "Job aborted: task 41 of stage {} failed on 10.0.14.{}: OutOfMemoryError at s3://lake/{}/data/00{}.parquet\n  at java"
)


@pytest.fixture
def world(tmp_path: Path, sqlite_url: str) -> Iterator[World]:
    opened = open_world(tmp_path, tables=TABLES, url=sqlite_url)
    yield opened
    opened.close()


def fail(world: World, dotted: str, error: str) -> Job:
    job = world.submit(dotted)
    world.run(job, [did(Action.REWRITE_DATA_FILES, "Failed", 4, {}, ActionOutcome.FAILED, error)], error)
    return job


def digest(world: World) -> Digest:
    return read_digest(world.jobs, TableScores(world.store, world.inventory))


def test_a_night_is_told_in_one_sentence(world: World) -> None:
    for dotted in TABLES[:3]:
        world.run(world.submit(dotted), [compacted(1284, 93, 521, mib=400_000), expired(9, 30, 4)])
    for place, dotted in enumerate(TABLES[1:]):
        fail(world, dotted, OUT_OF_MEMORY.format(place, place, dotted, place))
    world.submit(TABLES[0])
    keep(world, "payments.refunds", sick_health(partitions=2, small=4_000))
    keep(world, "analytics.page_views", made_health())
    found = digest(world)
    files = 3 * (1284 + 30 + 3 + 18 + 9)
    expected = "6 jobs, 3 failed for one cause, 1.1 TiB rewritten, no table sick, 1 table fair, 2 tables not read yet"
    assert found.headline == expected
    assert (found.jobs, found.failed, found.active, found.files_removed) == (6, 3, 1, files)
    assert found.lines[-1] == "Not ended: 1 job waiting or running."
    assert found.lines[1].startswith(
        "Failed: 3 jobs: payments.transactions, payments.refunds and analytics.sessions: Job aborted"
    )
    assert found.text == "\n".join(found.lines)


def test_jobs_that_a_pass_withdrew_are_counted_apart_and_are_neither_failed_nor_cancelled(world: World) -> None:
    world.run(world.submit(TABLES[0]), [expired(9, 30, 4)])
    world.jobs.cancel(world.submit(TABLES[1]).job_id, actor=world.actor())
    waiting = [world.submit(dotted).job_id for dotted in TABLES[2:]]
    world.store.transact(lambda conn: withdraw(conn, waiting, "The time of the pass was over.", world.clock()))
    keep(world, "payments.refunds", made_health())
    found = digest(world)

    assert ", none failed, 2 withdrawn, " in found.headline
    assert found.lines[-1] == "Withdrawn: 2 jobs, which the next pass plans again."
    assert (found.jobs, found.withdrawn, found.ended[JobStatus.CANCELLED], found.active) == (2, 2, 1, 0)


def test_tables_that_are_still_sick_or_cannot_be_read_are_in_the_sentence(world: World) -> None:
    health = sick_health(partitions=2, small=4_000)
    for dotted in TABLES[:2]:
        keep(world, dotted, with_many_snapshots(health))
    world.installation.health_records.unreadable(world.table(TABLES[2]), "", "A manifest is missing.")
    assert digest(world).headline == "0 jobs, none failed, 2 tables still sick, 1 table cannot be read, 1 table not read yet"


def with_many_snapshots(health: object) -> object:

    many = 400
    log = SnapshotLog(tuple(range(many)), (None,) * many, tuple(range(1, many + 1)), ("append",) * many)
    return replace(health, snapshots=log, equality_delete_files=40)  # type: ignore[type-var]


def test_what_ended_before_and_dry_runs_are_left_out(world: World) -> None:
    fail(world, TABLES[0], "old")
    world.clock.move(hours=24, seconds=1)
    world.jobs.record_dry_run(world.table(TABLES[0]), [Action.REWRITE_DATA_FILES], [], actor=world.actor())
    assert digest(world).headline == "0 jobs, none failed, no table health stored yet"
    fail(world, TABLES[0], "new")
    assert digest(world).headline == "1 job, 1 failed for one cause, no table health stored yet"


def test_a_failure_that_a_newer_job_has_replaced_is_not_run_again(world: World) -> None:
    replaced, twice, alone = (fail(world, dotted, "Disk full on 10.0.0.7") for dotted in TABLES[:3])
    again = fail(world, TABLES[1], "Disk full on 10.0.0.8")
    world.run(world.submit(TABLES[0]), [compacted(10, 1, 2)])
    (failure,) = digest(world).failures
    assert failure.group.cause == "Disk full on …"
    assert set(failure.group.job_ids) == {replaced.job_id, twice.job_id, alone.job_id, again.job_id}
    assert set(failure.to_rerun) == {alone.job_id, again.job_id}
    assert failure.locked == ()


def test_a_locked_table_is_named(world: World) -> None:
    for dotted in TABLES[:2]:
        fail(world, dotted, "Disk full")
    world.jobs.locks.acquire(world.table(TABLES[1]), "etl/close", ttl=timedelta(hours=1))
    (failure,) = digest(world).failures
    assert (len(failure.to_rerun), failure.locked) == (2, (TABLES[1],))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Snapshot 8271223 of lake.analytics.page_views is gone", "Snapshot 11 of lake.analytics.sessions is gone"),
        ("Cannot open s3://lake/a/data/0001.parquet", "Cannot open s3a://other/b.avro"),
        ("No space left on /mnt/disk1/spark", "No space left on /data/tmp"),
        ("Job 4f1c2b9a6d0e4f1c2b9a6d0e4f1c2b9a was cancelled", "Job 9a6d0e4f1c2b9a4f1c2b9a6d0e4f1c2b was cancelled"),
        ("Column 'a' is not known\nTraceback: one", "Column 'b c' is not known\nTraceback: other"),
        ("Task 41.3 in stage 7.0 (TID 512) failed", "Task 2.0 in stage 11.1 (TID 9) failed"),
    ],
)
def test_errors_that_differ_in_ids_paths_and_numbers_have_one_cause(world: World, one: str, other: str) -> None:
    fail(world, TABLES[0], one)
    fail(world, TABLES[1], other)
    (failure,) = digest(world).failures
    assert len(failure.group.job_ids) == 2


def test_errors_of_other_causes_stay_apart_and_the_largest_group_comes_first(world: World) -> None:
    fail(world, TABLES[0], "The catalog is down")
    for dotted in TABLES[1:3]:
        fail(world, dotted, "Disk full")
    assert [(each.group.cause, len(each.group.tables)) for each in digest(world).failures] == [
        ("Disk full", 2),
        ("The catalog is down", 1),
    ]
    assert digest(world).headline.startswith("3 jobs, 3 failed for two causes")
    assert group_failures([]) == ()


def test_more_jobs_than_are_counted_are_told_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_JOBS", 2)
    for dotted in TABLES[:3]:
        world.run(world.submit(dotted), [compacted(10, 1, 2)])
        world.clock.move(seconds=1)
    assert digest(world).headline.startswith("2 jobs or more, none failed")


def test_a_line_of_the_digest_has_the_beginning_of_a_long_error(world: World) -> None:
    fail(world, TABLES[0], "x" * 10_000)
    failed = digest(world).failures[0]
    assert digest(world).lines[1] == f"Failed: 1 job: {TABLES[0]}: {'x' * 500}…"
    assert len(failed.group.example) == 10_000


def test_many_causes_are_counted_and_not_all_listed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CAUSES", 1)
    for dotted, error in zip(TABLES, ("Disk full", "Disk full", "The catalog is down", "No such file"), strict=True):
        fail(world, dotted, error)
    lines = digest(world).lines
    assert [line.partition(":")[0] for line in lines[1:]] == ["Failed", "Failed"]
    assert lines[-1] == "Failed: 2 jobs for 2 more causes."


def test_a_long_queue_hides_no_job_that_ended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_JOBS", 1)
    fail(world, TABLES[0], "Disk full")
    for dotted in TABLES[1:]:
        world.clock.move(seconds=1)
        world.submit(dotted)
    found = digest(world)
    assert found.headline.startswith("1 job, 1 failed for one cause")
    assert (found.active, found.is_capped) == (2, False)


def test_a_digest_takes_three_statements_whatever_happened(world: World) -> None:
    def statements() -> int:
        seen: list[str] = []
        listener = lambda conn, cursor, statement, *rest: seen.append(statement)  # noqa: E731
        sa.event.listen(world.store.engine, "before_cursor_execute", listener)
        digest(world)
        sa.event.remove(world.store.engine, "before_cursor_execute", listener)
        return len([each for each in seen if each.lstrip().upper().startswith("SELECT")])

    assert statements() == 2
    for place in range(12):
        fail(world, TABLES[place % 4], f"Cause {'abcdef'[place % 6]}")
    assert statements() == 3
