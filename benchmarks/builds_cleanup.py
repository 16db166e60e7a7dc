"""What planning a cleanup costs: 10 runs of 64 shards to delete beside 100 runs that are kept, and then beside 1,000.

Calls of the storage and statements of the store are counted, as they are the same on a busy machine; the time is only told.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.cleanup import cleanup
from airflow_snowpack.builds.json_format import checksum_of, to_json
from airflow_snowpack.builds.model import KeyType, Manifest, Retention, ShardAttemptResult, ShardFormat, Sharding
from airflow_snowpack.builds.publish import publish
from airflow_snowpack.builds.registry.model import RunHandle
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.store import Store, open_store
from benchmarks.results import Finding, Results

SHARDS, FEW, MANY, DELETED = 64, 100, 1_000, 10
DATASET = "features"
DATA = b"a shard"
RETENTION = Retention(keep_runs=10 * MANY)
MOST_CALLS, MOST_TIME = 1.0, 3.0


@dataclass(frozen=True)
class Cost:
    """One plan.

    :param deleted: runs that it would delete.
    """

    deleted: int
    storage_calls: int
    statements: int
    seconds: float


class Counting(Storage):
    calls = 0

    def _tried(self, *arguments: Any, **named: Any) -> Any:
        self.calls += 1
        return super()._tried(*arguments, **named)


class Clock:
    now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def run(results: Results, *, rounds: int) -> None:
    clock = Clock()
    with (
        tempfile.TemporaryDirectory(prefix="snowpack-bench-") as folder,
        open_store(f"sqlite:///{folder}/snowpack.db", clock=clock) as store,
    ):
        registry, storage = BuildRegistry(store), Counting(f"{folder}/features")
        _keep(registry, storage, clock, FEW)
        few = _measure(store, registry, storage, rounds)
        cleanup(registry, storage, DATASET, RETENTION)
        _keep(registry, storage, clock, MANY - FEW)
        many = _measure(store, registry, storage, rounds)
    assert few.deleted == many.deleted == DELETED
    for what, one, other, limit in (
        ("storage calls", few.storage_calls, many.storage_calls, MOST_CALLS),
        ("statements", few.statements, many.statements, MOST_CALLS),
        ("seconds", few.seconds, many.seconds, MOST_TIME),
    ):
        says = f"{other:.4g} : {one:.4g}, to delete {DELETED} runs of {SHARDS} shards"
        results.find(Finding(f"cleanup plan, {what} beside 1,000 kept runs / 100", other / one, at_most=limit, says=says))


def _measure(store: Store, registry: BuildRegistry, storage: Counting, rounds: int) -> Cost:
    for _ in range(DELETED):
        handle, _ = _written(registry, storage)
        registry.fail(handle, "it was no good")
    statements = [0]

    def count(*_arguments: Any) -> None:
        statements[0] += 1

    sa.event.listen(store.engine, "before_cursor_execute", count)
    storage.calls, times, plan = 0, [], []
    for _ in range(rounds):
        begin = time.perf_counter()
        plan = cleanup(registry, storage, DATASET, RETENTION, dry_run=True)
        times.append(time.perf_counter() - begin)
    sa.event.remove(store.engine, "before_cursor_execute", count)
    deleted = len({action.run_id for action in plan})
    return Cost(deleted, storage.calls // rounds, statements[0] // rounds, statistics.median(times))


def _keep(registry: BuildRegistry, storage: Counting, clock: Clock, runs: int) -> None:
    """Publish so many runs, and let cleanup have its two looks at each."""
    for _ in range(runs):
        clock.now += timedelta(hours=1)
        publish(registry, storage, *_written(registry, storage))
    for _ in range(2):
        clock.now += timedelta(days=2)
        cleanup(registry, storage, DATASET, RETENTION)


def _written(registry: BuildRegistry, storage: Storage) -> tuple[RunHandle, Manifest]:
    now = registry.store.clock()
    handle = registry.begin(DATASET, storage.url, as_of=now, num_shards=SHARDS)
    shards = tuple(_attempt(storage, handle.run_id, shard_id, now) for shard_id in range(SHARDS))
    manifest = Manifest(
        dataset=DATASET,
        run_id=handle.run_id,
        as_of=now,
        created_at=now,
        key_column="user_id",
        key_type=KeyType.INTEGER,
        sharding=Sharding.hash(SHARDS),
        shard_format=ShardFormat.SQLITE,
        columns=(("user_id", "int64"),),
        shards=shards,
    )
    return handle, manifest


def _attempt(storage: Storage, run_id: str, shard_id: int, now: datetime) -> ShardAttemptResult:
    folder = layout.attempt_folder(run_id, shard_id, 0, str(shard_id))
    url, size = f"{folder}shard.sqlite", len(DATA)
    attempt = ShardAttemptResult(run_id, shard_id, 0, shard_id, url, 1, size, 1, 1, checksum_of(DATA), now)
    # Straight to the disk and not synced: this is not what is measured.
    place = Path(storage.local_path(url))
    place.parent.mkdir(parents=True)
    place.write_bytes(DATA)
    place.with_name(layout.RECORD).write_bytes(to_json(attempt))
    return attempt
