"""Records of builds are deleted when cleanup is through with a run, and never while readers or cleanup may need them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from clocks import MovedClock
from published_builds import publish_build
from query_plans import scans, sent_by

from airflow_snowpack.builds.cleanup import Retention, cleanup
from airflow_snowpack.builds.publish import rollback
from airflow_snowpack.builds.registry.retention import KINDS
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.store import Store
from airflow_snowpack.store.retention import Pruner
from airflow_snowpack.store.tables.builds import build_publications, build_runs

DAY = datetime(2026, 1, 1, tzinfo=UTC)


def prune(store: Store, *, dry_run: bool = False) -> dict[str, int]:
    pruner = Pruner(store, KINDS, older_than=timedelta(days=180), dry_run=dry_run, batch_size=2)
    return dict(pruner.run(sleep=lambda _seconds: None))


def test_records_of_deleted_runs_are_deleted_and_the_current_build_is_read_as_before(
    registry: BuildRegistry, storage: Storage, store: Store, clock: MovedClock
) -> None:
    runs = [
        publish_build(registry, storage, "flights", as_of=DAY + timedelta(days=day), rows={"a": day}).run_id for day in range(5)
    ]
    failed = registry.begin("flights", storage.url, as_of=DAY + timedelta(days=9), num_shards=2, storage=storage)
    registry.fail(failed, "boom")
    clock.move(timedelta(days=30))
    cleanup(registry, storage, "flights", Retention(keep_runs=2))
    clock.move(timedelta(days=100))
    assert prune(store) == {"build_runs": 0, "build_publications": 0}, "nothing is old enough"

    clock.move(timedelta(days=100))
    planned = prune(store, dry_run=True)
    sent = sent_by(store, lambda: prune(store))
    assert planned == {"build_runs": 4, "build_publications": 4}, "all moves but the current one; the two runs that are kept stay"
    assert scans(store, sent, ["build_runs", "build_publications"]) == []
    listing = BuildRegistry(store)
    assert [run.run_id for run in listing.runs("flights").items] == [runs[4], runs[3]]
    assert [move.run_id for move in listing.publications("flights")] == [runs[4]]

    rollback(registry, storage, "flights", to="-1", by=None)
    cleanup(registry, storage, "flights", Retention(keep_runs=2))
    assert listing.dataset("flights").current_run == runs[3]
    assert publish_build(registry, storage, "flights", as_of=DAY + timedelta(days=10), rows={"a": 1}).publication == 7


def test_what_cleanup_has_not_finished_stays_on_record(
    registry: BuildRegistry, storage: Storage, store: Store, clock: MovedClock
) -> None:
    for day in range(2):
        publish_build(registry, storage, "flights", as_of=DAY + timedelta(days=day), rows={"a": day})
    running = registry.begin("flights", storage.url, as_of=DAY + timedelta(days=2), num_shards=2, storage=storage)
    failed = registry.begin("flights", storage.url, as_of=DAY + timedelta(days=3), num_shards=2, storage=storage)
    registry.fail(failed, "its files are still there")
    first = sa.and_(build_runs.c.run_id != running.run_id, build_runs.c.run_id != failed.run_id)
    begun = {"deleted_at": clock(), "cleanup_at": clock()}  # as a cleanup leaves a run that it could not delete whole
    store.transact(lambda conn: conn.execute(sa.update(build_runs).where(first).values(begun)))
    open_move = {"done_at": None}
    store.transact(lambda conn: conn.execute(sa.update(build_publications).values(open_move)))
    clock.move(timedelta(days=400))

    assert prune(store) == {"build_runs": 0, "build_publications": 0}
