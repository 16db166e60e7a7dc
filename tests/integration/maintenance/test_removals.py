"""The records of removals on both databases: the plan, the decision, the fence, and what is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import pyarrow as pa
import pytest
from clocks import MovedClock

from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.installation import Installation, retained_rows
from airflow_snowpack.jobs import Claim, Jobs
from airflow_snowpack.maintenance.action_run import ActionRun
from airflow_snowpack.maintenance.options import parse_options
from airflow_snowpack.maintenance.removals.errors import RemovalNotFound, RemovalNotPossible, RemovalRefused, RemovalTakenOver
from airflow_snowpack.maintenance.removals.model import (
    VALID_FOR,
    ItemOutcome,
    Removal,
    RemovalItem,
    RemovalKind,
    RemovalState,
)
from airflow_snowpack.maintenance.removals.of_job import JobRemovals
from airflow_snowpack.maintenance.removals.records import Removals
from airflow_snowpack.maintenance.removals.running import carry_out
from airflow_snowpack.maintenance.removals.snapshots import Snapshots, planned_snapshots
from airflow_snowpack.spark import SparkWork
from airflow_snowpack.store import Actor, AuditTrail, Store, open_store
from airflow_snowpack.store.retention import Pruner

if TYPE_CHECKING:
    from pyiceberg.table import Table

NOW = datetime(2026, 11, 23, 3, 0, tzinfo=UTC)
TABLE = TableName("lake", "db", "orders", "0f0f0f0f0f0f")
VERA, ANN = Actor("vera", "page"), Actor("ann", "cli")
PATHS = [f"s3://lake/orders/data/{number}.parquet" for number in range(2_500)]


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock(NOW)


@pytest.fixture
def store(store_url: str, clock: MovedClock) -> Iterator[Store]:
    with open_store(store_url, clock=clock) as store:
        yield store


@pytest.fixture
def removals(store: Store) -> Removals:
    return Installation(store).removals


def draft(clock: MovedClock, *, job_id: str = "planner", kind: RemovalKind = RemovalKind.ORPHANS) -> Removal:
    return Removal(
        removal_id=uuid4().hex,
        table=TABLE,
        kind=kind,
        state=RemovalState.PLANNED,
        planned_at=clock(),
        expires_at=clock() + VALID_FOR,
        planned_by_job=job_id,
        table_uuid="u",
        metadata_location="m",
        location="s3://lake/orders",
        settings={"older_than": "3d"},
    )


def planned(
    removals: Removals, clock: MovedClock, paths: list[str] = PATHS[:3], *, approval: bool = True, job_id: str = "j"
) -> Removal:
    items = (RemovalItem(path, 10, NOW - timedelta(days=9, microseconds=7)) for path in paths)
    removal = removals.plan(draft(clock, job_id=job_id), items, needs_approval=lambda _: approval)
    assert removal is not None
    return removal


@pytest.fixture
def jobs(store: Store) -> Iterator[Jobs]:
    jobs = Jobs(store)
    yield jobs
    jobs.flush()


def claimed(jobs: Jobs) -> Claim:
    jobs.submit(TABLE, ["remove_orphan_files"])
    claim = jobs.claim("w", catalog_id=TABLE.catalog_id)
    assert claim is not None
    return claim


def test_a_list_comes_back_as_it_was_planned_in_bounded_parts(removals: Removals, clock: MovedClock) -> None:
    strange = [
        "file:/lake/a b#c?d%20é.parquet",
        "file:/lake/new\nline",
        "file:/lake/nul\x00",
        "file:/lake/half\udcff",
        "file:/l/'\";--",
    ]
    removal = planned(removals, clock, [*PATHS, *strange])

    assert (removal.state, removal.item_count, removal.bytes) == (RemovalState.AWAITING_APPROVAL, 2_505, 25_050)
    assert [item.name for item in removals.items(removal.removal_id)] == [*PATHS, *strange]
    assert {item.at for item in removals.items(removal.removal_id)} == {NOW - timedelta(days=9, microseconds=7)}
    assert len(removals.part_numbers(removal.removal_id)) == 3
    assert [item.name for item in removals.some_items(removal.removal_id, start=995, limit=1_010)] == PATHS[995:2_005]
    assert [item.name for item in removals.some_items(removal.removal_id, start=2_500)] == strange
    assert removals.some_items(removal.removal_id, start=9_999) == []
    assert removals.planned_by("j") == [removal]


def test_a_plan_that_ends_after_a_later_attempt_has_planned_leaves_nothing(
    removals: Removals, clock: MovedClock, store: Store
) -> None:
    later: list[Removal] = []

    def slow() -> Iterator[RemovalItem]:
        yield from (RemovalItem(path, 10, NOW) for path in PATHS[:1_000])  # the first part, which is written then
        later.append(planned(removals, clock, job_id="j"))

    late = draft(clock, job_id="j")
    with pytest.raises(RemovalTakenOver):
        removals.plan(late, slow(), needs_approval=lambda _: True)

    (left,) = removals.list().items
    assert (left.removal_id, left.state) == (later[0].removal_id, RemovalState.AWAITING_APPROVAL)
    assert removals.part_numbers(late.removal_id) == []


def test_an_attempt_that_loses_its_job_while_it_plans_leaves_nothing(removals: Removals, clock: MovedClock, jobs: Jobs) -> None:
    claim = claimed(jobs)
    late = replace(draft(clock, job_id=claim.job.job_id), attempt_id=claim.attempt_id)

    def slow() -> Iterator[RemovalItem]:
        yield from (RemovalItem(path, 10, NOW) for path in PATHS[:1_000])  # the first part, which is written then
        clock.now += timedelta(hours=1)
        jobs.sweep()
        clock.now += timedelta(hours=1)
        again = jobs.claim("w2", job_id=claim.job.job_id, catalog_id=TABLE.catalog_id)
        assert again is not None
        second = replace(draft(clock, job_id=claim.job.job_id), attempt_id=again.attempt_id)
        removals.plan(second, [RemovalItem(PATHS[0], 10, NOW)], needs_approval=lambda _: True)
        yield from (RemovalItem(path, 10, NOW) for path in PATHS[1_000:])

    with pytest.raises(RemovalTakenOver):
        removals.plan(late, slow(), needs_approval=lambda _: True)

    assert removals.part_numbers(late.removal_id) == []


def test_a_plan_without_items_is_no_removal(removals: Removals, clock: MovedClock) -> None:
    assert removals.plan(draft(clock), [], needs_approval=lambda _: True) is None
    assert removals.list().items == ()


def test_an_approval_is_audited_once_and_only_its_actor_may_repeat_it(
    removals: Removals, clock: MovedClock, store: Store
) -> None:
    removal = planned(removals, clock)

    for _ in range(2):
        approved = removals.approve(removal.removal_id, actor=VERA, comment="looked at all three")
    with pytest.raises(RemovalNotPossible, match=r"cannot be approved: it was approved by vera\."):
        removals.approve(removal.removal_id, actor=ANN)

    assert (approved.state, approved.decided_by, approved.decided_at) == (RemovalState.APPROVED, "vera", NOW)
    (entry,) = AuditTrail(store).of(f"removal:{removal.removal_id}")
    assert (entry.actor, entry.change) == ("vera", "approve_removal")
    assert entry.detail["items"] == 3
    assert removals.reject(removal.removal_id, actor=ANN).state is RemovalState.REJECTED
    with pytest.raises(RemovalNotPossible, match="was rejected by ann"):
        removals.approve(removal.removal_id, actor=VERA)
    with pytest.raises(RemovalNotFound):
        removals.approve("nope", actor=VERA)


def test_a_plan_expires_without_any_process(removals: Removals, clock: MovedClock, store: Store) -> None:
    removal = planned(removals, clock)
    clock.now += VALID_FOR

    assert removals.get(removal.removal_id).state is RemovalState.EXPIRED
    assert [each.removal_id for each in removals.list(state=RemovalState.EXPIRED).items] == [removal.removal_id]
    assert removals.list(state=RemovalState.AWAITING_APPROVAL).items == ()
    with pytest.raises(RemovalNotPossible, match="has expired, plan it again"):
        removals.approve(removal.removal_id, actor=VERA)
    assert AuditTrail(store).latest() == []


def test_an_approval_expires_too(removals: Removals, clock: MovedClock, jobs: Jobs) -> None:
    removal = planned(removals, clock)
    removals.approve(removal.removal_id, actor=VERA)
    clock.now += VALID_FOR
    claim = claimed(jobs)

    with pytest.raises(RemovalNotPossible, match="has expired"):
        removals.begin(removal.removal_id, claim.job.job_id, claim.attempt_id)


def test_a_newer_plan_replaces_one_that_awaits_approval(removals: Removals, clock: MovedClock) -> None:
    first, approved = planned(removals, clock), planned(removals, clock)
    assert removals.get(first.removal_id).error == f"a newer plan replaces it: removal {approved.removal_id}"
    removals.approve(approved.removal_id, actor=VERA)
    last = planned(removals, clock)

    states = {each.removal_id: each.state for each in removals.list(table=TABLE).items}
    assert states == {
        first.removal_id: RemovalState.EXPIRED,
        approved.removal_id: RemovalState.APPROVED,
        last.removal_id: RemovalState.AWAITING_APPROVAL,
    }


def test_what_a_killed_plan_left_is_replaced_by_the_next_attempt_at_its_job(removals: Removals, clock: MovedClock) -> None:
    left = draft(clock, job_id="j")
    with pytest.raises(RuntimeError):
        removals.plan(left, ends_early(), needs_approval=lambda _: True)
    assert removals.get(left.removal_id).state is RemovalState.PLANNED

    removal = planned(removals, clock)

    assert [each.removal_id for each in removals.list().items] == [removal.removal_id]
    assert removals.part_numbers(left.removal_id) == []


def test_a_list_that_no_attempt_deletes_to_its_end_is_replaced_by_the_next_plan(
    removals: Removals, clock: MovedClock, jobs: Jobs
) -> None:
    claim = claimed(jobs)
    left = planned(removals, clock, approval=False, job_id=claim.job.job_id)
    removals.begin(left.removal_id, claim.job.job_id, claim.attempt_id)
    planned(removals, clock, approval=False, job_id="while it runs")
    clock.now += timedelta(hours=1)
    jobs.sweep()
    planned(removals, clock, approval=False, job_id="before its next attempt")
    assert removals.get(left.removal_id).state is RemovalState.DELETING

    jobs.cancel(claim.job.job_id)
    later = planned(removals, clock, approval=False, job_id="after its job")

    ended = removals.get(left.removal_id)
    assert (ended.state, ended.error) == (RemovalState.FAILED, f"a newer plan replaces it: removal {later.removal_id}")


def ends_early() -> Iterator[RemovalItem]:
    yield from (RemovalItem(path) for path in PATHS[:1_500])
    raise RuntimeError("killed")


def test_only_the_attempt_that_has_the_job_deletes(removals: Removals, clock: MovedClock, jobs: Jobs) -> None:
    removal = planned(removals, clock)
    claim = claimed(jobs)
    with pytest.raises(RemovalNotPossible, match="cannot be run: it awaits approval"):
        removals.begin(removal.removal_id, claim.job.job_id, claim.attempt_id)
    removals.approve(removal.removal_id, actor=VERA)
    with pytest.raises(RemovalTakenOver):
        removals.begin(removal.removal_id, claim.job.job_id, "another attempt")

    begun = removals.begin(removal.removal_id, claim.job.job_id, claim.attempt_id)
    assert begun.state is RemovalState.DELETING
    with pytest.raises(RemovalNotPossible, match=f"cannot be rejected: it is being deleted by job {claim.job.job_id}"):
        removals.reject(removal.removal_id, actor=ANN)

    items = [replace(item, outcome=ItemOutcome.DELETED) for item in removals.items(removal.removal_id)]
    stale = replace(begun, attempt_id="an earlier attempt")
    with pytest.raises(RemovalTakenOver):
        removals.record(stale, {0: items}, {ItemOutcome.DELETED: 3})
    with pytest.raises(RemovalTakenOver):
        removals.end(stale, RemovalState.DELETED)
    assert {item.outcome for item in removals.items(removal.removal_id)} == {None}

    removals.record(begun, {0: items}, {ItemOutcome.DELETED: 3})
    done = removals.end(begun, RemovalState.DELETED)
    assert (done.state, done.deleted_count, done.ended_at) == (RemovalState.DELETED, 3, NOW)
    assert removals.end(begun, RemovalState.DELETED) == done, "the answer to the first try may have been lost"


def test_the_next_attempt_continues_and_two_jobs_never_delete_one_removal(
    removals: Removals, clock: MovedClock, jobs: Jobs
) -> None:
    removal, claim = planned(removals, clock), claimed(jobs)
    removals.approve(removal.removal_id, actor=VERA)
    first = removals.begin(removal.removal_id, claim.job.job_id, claim.attempt_id)
    other = jobs.submit(replace(TABLE, table="other"), ["remove_orphan_files"])
    elsewhere = jobs.claim("w", job_id=other.job_id, catalog_id=TABLE.catalog_id)
    assert elsewhere is not None
    with pytest.raises(RemovalNotPossible, match="is being deleted by job"):
        removals.begin(removal.removal_id, other.job_id, elsewhere.attempt_id)

    clock.now += timedelta(hours=1)
    jobs.sweep()
    clock.now += timedelta(hours=1)
    again = jobs.claim("w2", job_id=claim.job.job_id, catalog_id=TABLE.catalog_id)
    assert again is not None
    second = removals.begin(removal.removal_id, again.job.job_id, again.attempt_id)

    with pytest.raises(RemovalTakenOver):
        removals.record(first, {}, {})
    assert removals.end(second, RemovalState.APPROVED, "Spark failed").error == "Spark failed"
    assert removals.begin(removal.removal_id, again.job.job_id, again.attempt_id).started_at == NOW


@dataclass(frozen=True)
class Shelf:
    """Deletes everything of a list but what is stuck, one part at a time."""

    stuck: set[str]
    kind: RemovalKind = RemovalKind.ORPHANS
    batch_parts: int = 1
    files: Mapping[str, int] = field(default_factory=dict)

    def guard(self, run: ActionRun, removal: Removal, table: Table, items: Sequence[RemovalItem]) -> list[RemovalItem]:
        return [replace(item, outcome=ItemOutcome.STARTED) for item in items]

    def delete(self, run: ActionRun, removal: Removal, items: Sequence[RemovalItem]) -> list[RemovalItem]:
        return [item if item.name in self.stuck else replace(item, outcome=ItemOutcome.DELETED) for item in items]


@pytest.mark.one_database
def test_a_removal_that_is_continued_counts_what_earlier_attempts_have_deleted(
    removals: Removals, jobs: Jobs, clock: MovedClock, tmp_path: Path
) -> None:
    catalog, nothing = CatalogConfig.embedded(tmp_path).load(), cast("Any", None)  # what deletes here needs no session
    catalog.create_namespace("db")
    table = catalog.create_table("db.orders", pa.schema([("id", pa.int64())]))
    of_job = JobRemovals(removals, claimed(jobs).job)
    items = (RemovalItem(path, 10, NOW - timedelta(days=9)) for path in PATHS)
    removal = of_job.plan(RemovalKind.ORPHANS, table, items, settings={"approve_above_files": 0})
    assert removal is not None
    removals.approve(removal.removal_id, actor=VERA)
    run = ActionRun("job", TABLE, "remove_orphan_files", nothing, SparkWork(), catalog, clock(), 1, removals=of_job)

    first = carry_out(run, removal.removal_id, Shelf(stuck={PATHS[0]}))
    second = carry_out(run, removal.removal_id, Shelf(stuck=set()))

    assert first.error == "1 file of the list could not be deleted. Run the removal again."
    assert (first.message, second.message) == ("Removed 2,499 orphan files", "Removed 2,500 orphan files")


@pytest.mark.one_database
def test_a_snapshot_that_passes_the_age_of_its_branch_while_a_list_is_deleted_is_listed_or_stops_the_removal(
    removals: Removals, jobs: Jobs, clock: MovedClock, tmp_path: Path
) -> None:
    clock.now = datetime.now(UTC) + timedelta(minutes=1)
    catalog, nothing, hour = CatalogConfig.embedded(tmp_path).load(), cast("Any", None), 3_600_000
    catalog.create_namespace("db")
    table = catalog.create_table("db.orders", pa.schema([("id", pa.int64())]))
    for _ in range(3):
        table.append(pa.table({"id": [1]}))
    first, second, last = table.snapshots()
    table.manage_snapshots().create_branch(last.snapshot_id, "main", max_snapshot_age_ms=hour, min_snapshots_to_keep=1).commit()
    of_job = JobRemovals(removals, claimed(jobs).job)
    run = ActionRun("job", TABLE, "expire_snapshots", nothing, SparkWork(), catalog, clock(), 1, removals=of_job)
    settings = {"retain_last": 3, "expired_refs": [], "committed_before": clock().isoformat()}

    def guarded(planned_at: datetime, settings: dict[str, Any] = settings) -> list[ItemOutcome | None]:
        items = planned_snapshots(table.metadata, [first], planned_at)
        removal = of_job.plan(RemovalKind.SNAPSHOTS, table, items, settings=settings)
        assert removal is not None
        return [item.outcome for item in Snapshots(lambda *_: {}).guard(run, removal, table, items)]

    assert guarded(clock()) == [ItemOutcome.LEFT_OUT] * 2
    clock.now += timedelta(hours=1)
    assert guarded(run.now) == [ItemOutcome.STARTED] * 2
    with pytest.raises(RemovalRefused, match=f"The snapshot {second.snapshot_id} of db.orders is past its own age now"):
        guarded(run.now - timedelta(hours=1))
    del settings["committed_before"], settings["expired_refs"]
    with pytest.raises(RemovalRefused, match=r"planned without committed_before and expired_refs, .* Plan the removal again\."):
        guarded(run.now)


@pytest.mark.one_database
def test_a_list_of_snapshots_is_refused_when_the_owner_has_changed_the_retention_since_the_plan(
    removals: Removals, jobs: Jobs, clock: MovedClock, tmp_path: Path
) -> None:
    clock.now = datetime.now(UTC) + timedelta(days=10)
    catalog, nothing, keep = CatalogConfig.embedded(tmp_path).load(), cast("Any", None), "history.expire.min-snapshots-to-keep"
    catalog.create_namespace("db")
    table = catalog.create_table("db.orders", pa.schema([("id", pa.int64())]), properties={keep: "1"})
    for _ in range(3):
        table.append(pa.table({"id": [1]}))
    run = ActionRun(
        "job",
        TABLE,
        "expire_snapshots",
        nothing,
        SparkWork(),
        catalog,
        clock(),
        1,
        removals=JobRemovals(removals, claimed(jobs).job),
    )
    options = parse_options("expire_snapshots", {"approve_above_files": 0, "retain_last": 1})
    effect = options.run(run)
    (planned,) = removals.list(state=RemovalState.AWAITING_APPROVAL).items
    assert (planned.item_count, f"removal {planned.removal_id}" in effect.message) == (2, True)

    def guarded() -> list[ItemOutcome | None]:
        now = catalog.load_table("db.orders")
        items = list(removals.items(planned.removal_id))
        return [item.outcome for item in Snapshots(lambda *_: {}).guard(run, planned, now, items)]

    assert guarded() == [ItemOutcome.STARTED] * 2
    with table.transaction() as change:
        change.set_properties({keep: "50"})
    with pytest.raises(RemovalRefused, match=r"history\.expire\.\* of db\.orders were changed after .* Plan the removal again"):
        guarded()


def test_an_attempt_that_has_lost_its_job_plans_nothing(removals: Removals, clock: MovedClock, jobs: Jobs) -> None:
    claim, waiting = claimed(jobs), planned(removals, clock, job_id="of another job")
    live = replace(draft(clock, job_id=claim.job.job_id), attempt_id=claim.attempt_id)
    stale = replace(live, removal_id=uuid4().hex, attempt_id="an earlier attempt")

    def cancelled_meanwhile() -> Iterator[RemovalItem]:
        yield from (RemovalItem(path, 10, NOW) for path in PATHS[:1_000])
        jobs.cancel(claim.job.job_id, by="vera")

    for lost, items in ((stale, iter([RemovalItem(PATHS[0], 10, NOW)])), (live, cancelled_meanwhile())):
        with pytest.raises(RemovalTakenOver):
            removals.plan(lost, items, needs_approval=lambda _: True)

    assert removals.list(state=RemovalState.AWAITING_APPROVAL).items == (removals.get(waiting.removal_id),)


def test_what_a_killed_worker_was_deleting_can_be_rejected_when_its_job_is_cancelled(
    removals: Removals, clock: MovedClock, jobs: Jobs
) -> None:
    removal, claim = planned(removals, clock), claimed(jobs)
    removals.approve(removal.removal_id, actor=VERA)
    begun = removals.begin(removal.removal_id, claim.job.job_id, claim.attempt_id)
    with pytest.raises(RemovalNotPossible, match="is being deleted by job"):
        removals.reject(removal.removal_id, actor=ANN)

    jobs.cancel(claim.job.job_id)
    with pytest.raises(RemovalNotPossible, match="cannot be approved"):
        removals.approve(removal.removal_id, actor=ANN)
    assert removals.reject(removal.removal_id, actor=ANN).state is RemovalState.REJECTED
    with pytest.raises(RemovalTakenOver):
        removals.record(begun, {}, {})


def test_old_removals_go_with_their_lists_and_one_that_is_being_deleted_stays(
    removals: Removals, clock: MovedClock, store: Store, jobs: Jobs
) -> None:
    old, claim = planned(removals, clock), claimed(jobs)
    abandoned = planned(removals, clock, approval=False, job_id=claim.job.job_id)
    removals.begin(abandoned.removal_id, claim.job.job_id, claim.attempt_id)
    jobs.cancel(claim.job.job_id)
    clock.now += timedelta(hours=1)
    claim = claimed(jobs)
    running = planned(removals, clock, approval=False, job_id=claim.job.job_id)
    removals.begin(running.removal_id, claim.job.job_id, claim.attempt_id)
    clock.now += timedelta(days=31)
    kept = planned(removals, clock, PATHS)
    clock.now += timedelta(days=1)

    rows = Pruner(store, retained_rows(store), older_than=timedelta(days=7)).run(sleep=lambda _: None)

    assert (rows["removals"], rows["removal_parts"]) == (2, 2)
    assert {each.removal_id for each in removals.list().items} == {running.removal_id, kept.removal_id}
    assert removals.part_numbers(old.removal_id) == removals.part_numbers(abandoned.removal_id) == []
