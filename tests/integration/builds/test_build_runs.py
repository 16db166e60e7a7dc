"""A whole build: published when all is well, and otherwise failed with its reason, while readers keep what they had."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from bounded import PATIENCE_S, started
from built_runs import DAY, MIDNIGHT, built, current_run, folders
from clocks import MovedClock

from airflow_snowpack.builds.build import Build
from airflow_snowpack.builds.build_spec import BuildSpec
from airflow_snowpack.builds.errors import DatasetBusy, InvalidBuild, InvalidRowKey, ShardCoverageError, StaleBuild, TooManyKeys
from airflow_snowpack.builds.model import CleanupPhase, Retention, Sharding
from airflow_snowpack.builds.read.reader import SnapshotReader
from airflow_snowpack.builds.registry.model import BuildPolicy, RunStatus
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.write.attempt import AttemptPlace, ShardPlan, write_attempt
from airflow_snowpack.builds.write.rows_source import RowsSource
from airflow_snowpack.builds.write.selection import kept_selection
from airflow_snowpack.store import Store

SPEC = BuildSpec(dataset="flights", key="id", sharding=Sharding.hash(1), processes=1)
ROWS = RowsSource([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}], sources=({"file": "rows"},))


@pytest.fixture
def build(registry: BuildRegistry, storage: Storage) -> Build:
    return Build(registry, storage)


def status_of(registry: BuildRegistry, run_id: str) -> tuple[RunStatus, str | None]:
    run = registry.find_run("flights", run_id)
    assert run is not None
    return run.status, run.error


def test_a_build_is_published_and_read(build: Build, registry: BuildRegistry, storage: Storage) -> None:
    outcome = build.run(ROWS, SPEC, as_of=MIDNIGHT, owner="dag/run/task")
    assert (outcome.run_id, outcome.moved) == ("20260101T000000Z", True)
    assert status_of(registry, outcome.run_id) == (RunStatus.SUCCEEDED, None)
    with SnapshotReader(storage.url) as reader:
        assert reader.get(2) == {"id": 2, "name": "b"}
        assert reader.manifest.sources == ({"file": "rows"},)


@pytest.mark.one_database
def test_a_failed_build_has_its_reason_and_readers_keep_the_current_one(
    build: Build, registry: BuildRegistry, storage: Storage
) -> None:
    build.run(ROWS, SPEC, as_of=MIDNIGHT)
    with pytest.raises(InvalidRowKey):
        build.run(RowsSource([{"id": None}], pa.schema([("id", pa.int64())])), SPEC, as_of=MIDNIGHT + DAY)
    status, error = status_of(registry, "20260102T000000Z")
    assert status is RunStatus.FAILED
    assert "a key must not be null" in str(error)
    assert current_run(storage) == "20260101T000000Z"


@pytest.mark.one_database
def test_a_shard_without_an_attempt_ends_the_run(build: Build, registry: BuildRegistry, storage: Storage) -> None:
    handle = build.begin(SPEC, Sharding.hash(1), as_of=MIDNIGHT)
    written = build.write(handle, ROWS, SPEC, Sharding.hash(1))
    storage.delete(f"data/{handle.run_id}/")
    with pytest.raises(ShardCoverageError, match="no attempt at shard 0 succeeded"):
        build.select(handle, written, SPEC, Sharding.hash(1))
    assert status_of(registry, handle.run_id)[0] is RunStatus.FAILED


@pytest.mark.one_database
def test_a_build_whose_run_is_taken_over_stops_and_is_not_published(store: Store, storage: Storage) -> None:
    registry = BuildRegistry(store, BuildPolicy(heartbeat=timedelta(milliseconds=50)))
    build = Build(registry, storage)

    def rows() -> Iterator[dict[str, Any]]:
        yield {"id": 1}
        registry.begin("flights", storage.url, as_of=MIDNIGHT, num_shards=1, owner="dag/run/task")
        assert build.interrupt.stop.wait(PATIENCE_S)
        yield {"id": 2}

    with pytest.raises(StaleBuild, match="Another attempt has taken over the run 20260101T000000Z of flights"):
        build.run(RowsSource(rows()), SPEC, as_of=MIDNIGHT, owner="dag/run/task")
    assert status_of(registry, "20260101T000000Z") == (RunStatus.FAILED, "A later try of the same task has begun a new run.")
    assert status_of(registry, "20260101T000000Z.2")[0] is RunStatus.RUNNING
    assert current_run(storage) is None


@pytest.mark.one_database
def test_cleanup_follows_a_publication_and_cannot_fail_it(build: Build, registry: BuildRegistry, storage: Storage) -> None:
    spec = BuildSpec(dataset="flights", key="id", sharding=Sharding.hash(1), retention=Retention(keep_runs=1), processes=1)
    for day in range(2):
        build.run(RowsSource([{"id": day}]), spec, as_of=MIDNIGHT + day * DAY)
    assert folders(storage, "data/") == ["20260102T000000Z"]
    with registry.lock("flights", "another"):
        assert build.clean_up("flights", Retention()) == []


@pytest.mark.one_database
def test_an_attempt_that_ends_after_the_publication_does_no_harm(build: Build, storage: Storage, clock: MovedClock) -> None:
    outcome = build.run(ROWS, SPEC, as_of=MIDNIGHT)
    # It would have won, had it been there in time: Spark's task attempt ids come before the ids of those that have none.
    late = AttemptPlace(outcome.run_id, 0, 0, "0", task_attempt_id=0)
    write_attempt(storage, late, ShardPlan(pa.schema([("id", pa.int64())]), "id"), [])
    with SnapshotReader(storage.url) as reader:
        assert reader.get(2) == {"id": 2, "name": "b"}
    clock.move(2 * DAY)
    assert [action.path for action in build.clean_up("flights", Retention())] == [late.folder]
    with SnapshotReader(storage.url) as reader:
        assert reader.get(2) == {"id": 2, "name": "b"}


@pytest.mark.one_database
def test_as_many_shards_as_the_keys_need(build: Build, registry: BuildRegistry) -> None:
    spec = BuildSpec(dataset="flights", key="id", max_keys_per_shard=100, processes=1)
    table = pa.table({"id": pa.array([*range(250), *range(250)], pa.int64())})
    sharding = build.sharding(RowsSource(table), spec)
    assert 3 <= sharding.num_shards <= 6
    outcome = build.run(RowsSource(table), spec, as_of=MIDNIGHT)
    with SnapshotReader(build.storage.url) as reader:
        assert max(len({row["id"] for row in reader.scan(shard_id)}) for shard_id in range(sharding.num_shards)) <= 100
        assert reader.manifest.run_id == outcome.run_id
    with pytest.raises(InvalidBuild, match="only the keys of a table can be counted first"):
        build.sharding(RowsSource([{"id": 1}]), spec)
    with pytest.raises(InvalidBuild, match="set exactly one of sharding and max_keys_per_shard"):
        BuildSpec(dataset="flights", key="id")


@pytest.mark.one_database
def test_an_input_that_grew_after_it_was_counted_is_not_published(build: Build, registry: BuildRegistry) -> None:
    spec = BuildSpec(dataset="flights", key="id", max_keys_per_shard=100, processes=1)
    few, many = (RowsSource(pa.table({"id": pa.array([*range(keys), *range(keys)], pa.int64())})) for keys in (100, 101))
    sharding = build.sharding(few, spec)
    for source, run in ((few, RunStatus.RUNNING), (many, RunStatus.FAILED)):
        handle = build.begin(spec, sharding, as_of=MIDNIGHT)
        with nullcontext() if source is few else pytest.raises(TooManyKeys, match="more than max_keys_per_shard = 100"):
            build.write(handle, source, spec, sharding)
        assert registry.run("flights", handle.run_id).status is run


@pytest.mark.one_database
def test_a_driver_that_is_killed_while_it_writes_leaves_a_run_that_the_next_ones_clean_up(
    build: Build, registry: BuildRegistry, storage: Storage, clock: MovedClock, store_url: str
) -> None:
    build.run(ROWS, SPEC, as_of=MIDNIGHT - DAY)
    script = (
        "import sys; from datetime import *\n"
        "from airflow_snowpack.builds import *; from airflow_snowpack.store import open_store\n"
        "store = open_store(sys.argv[1], clock=lambda: datetime(2026, 1, 1, tzinfo=UTC))\n"
        "build = Build(BuildRegistry(store), Storage(sys.argv[2]))\n"
        "placed = Sharding.categories('id', (0, 1))\n"
        "spec = BuildSpec(dataset='flights', key='id', sharding=placed, processes=1, rows_per_second=50)\n"
        "rows = RowsSource([{'id': min(n, 1)} for n in range(10_000)])\n"
        "build.run(rows, spec, as_of=datetime(2026, 1, 1, tzinfo=UTC), owner='dag/run/task')"
    )
    with started([sys.executable, "-c", script, store_url, storage.url]) as driver:
        while not any(found.path.endswith("_ATTEMPT.json") for found in storage.objects("data/20260101T000000Z/")):
            assert driver.poll() is None
            time.sleep(0.05)
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    assert status_of(registry, "20260101T000000Z")[0] is RunStatus.RUNNING
    assert current_run(storage) == "20251231T000000Z"
    assert build.clean_up("flights", Retention()) == []  # it may be alive, for all that anybody knows
    outcome = build.run(ROWS, SPEC, as_of=MIDNIGHT, owner="dag/run/task")
    assert outcome.run_id == current_run(storage) == "20260101T000000Z.2"
    assert folders(storage, "data/") == ["20251231T000000Z", "20260101T000000Z.2"]
    clock.move(2 * DAY)
    assert [action for action in build.clean_up("flights", Retention()) if action.phase is not CleanupPhase.LOSERS] == []


@pytest.mark.one_database
def test_a_build_that_finds_the_dataset_busy_stays_whole_and_can_be_published_by_hand(store: Store, storage: Storage) -> None:
    registry = BuildRegistry(store, BuildPolicy(lock_wait=timedelta(0)))
    handle, manifest = built(registry, storage, MIDNIGHT)
    with registry.lock("flights", "another"), pytest.raises(DatasetBusy):
        Build(registry, storage).publish(handle, manifest)
    assert status_of(registry, handle.run_id) == (RunStatus.RUNNING, None)
    again = registry.resume("flights", handle.run_id)
    assert Build(registry, storage).publish(again, kept_selection(storage, "flights", handle.run_id)).moved
