"""S3 and a REST catalog that are busy, slow, reset connections or end responses too early, while a table is maintained."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from catalog_servers import CatalogServers
from effort import rounds, seed
from faulty_proxy import Fault, FaultyProxy, faulty_proxy, no_fault
from spark_world import SparkWorld

from airflow_snowpack.iceberg import CatalogConfig, TableName, find_orphans
from airflow_snowpack.jobs import Attempt, Job, Jobs, JobStatus
from airflow_snowpack.maintenance import Action
from airflow_snowpack.maintenance.removals.records import Removals
from airflow_snowpack.store import Store, open_store
from examples.cluster.file_age import set_modified

if TYPE_CHECKING:
    from pyiceberg.table import Table

pytestmark = [pytest.mark.timeout(600), pytest.mark.one_database]

ROUNDS = rounds(2, soak=10)
KINDS = (Fault.BUSY, Fault.SLOW, Fault.RESET, Fault.LOST, Fault.TRUNCATED)
ACTIONS = (Action.REWRITE_DATA_FILES, Action.EXPIRE_SNAPSHOTS, Action.REMOVE_ORPHAN_FILES)
OPTIONS = {
    Action.REWRITE_DATA_FILES: {"min_input_files": 2, "only_if_needed": False},
    Action.EXPIRE_SNAPSHOTS: {"max_age": "PT0S", "retain_last": 1, "only_if_needed": False},
    Action.REMOVE_ORPHAN_FILES: {"only_if_needed": False},
}
FEW_RETRIES = {"s3.retry.num-retries": "2", "s3.retry.min-wait-ms": "10", "s3.retry.max-wait-ms": "50"}
"""By default, the client waits for 2 to 20 s between its tries."""
CAUSE = re.compile(r"S3|SlowDown|503|reset|closed|Premature|Connection|could not be|cannot be (read|reached)", re.IGNORECASE)
AGE_S = 10 * 86_400
FAR_FUTURE = datetime.max.replace(tzinfo=UTC)


@pytest.fixture
def proxies(servers: CatalogServers) -> Iterator[dict[str, FaultyProxy]]:
    with faulty_proxy(servers.s3.endpoint) as files, faulty_proxy(servers.s3.catalog_url) as catalog:
        yield {"S3": files, "the catalog": catalog}


@pytest.fixture
def store(sqlite_url: str) -> Iterator[Store]:
    with open_store(sqlite_url) as opened:
        yield opened


@pytest.fixture
def world(
    proxies: dict[str, FaultyProxy],
    world_of: Callable[[str | CatalogConfig], SparkWorld],
    servers: CatalogServers,
    store: Store,
) -> SparkWorld:
    """Tables that Spark and PyIceberg reach through the proxies."""
    rest = servers.catalog("rest")
    config = replace(
        rest,
        name="faulty",
        address=proxies["the catalog"].url,
        properties={**rest.properties, "s3.endpoint": proxies["S3"].url},
        spark_properties={**rest.spark_properties, **FEW_RETRIES},
    )
    world = world_of(servers.add_to_spark(config))
    world.removals = Removals(store)
    world.engine = world.new_engine()
    return world


@dataclass(frozen=True)
class RandomFaults:
    """Faults of some kinds, for a share of the requests after the first ones."""

    chance: random.Random
    requests: list[tuple[str, str]] = field(repr=False)
    kinds: list[Fault]
    rate: float
    after: int

    @classmethod
    def of(cls, chance: random.Random, proxy: FaultyProxy) -> RandomFaults:
        kinds = chance.sample(KINDS, k=chance.randint(1, 3))
        after = len(proxy.requests) + chance.randrange(20)
        return cls(chance, proxy.requests, kinds, chance.choice((0.1, 0.3, 0.7)), after)

    def __call__(self, method: str, path: str) -> Fault | None:
        is_faulty = len(self.requests) > self.after and self.chance.random() < self.rate
        return self.chance.choice(self.kinds) if is_faulty else None


def rows_at_each_snapshot(table: Table) -> dict[int, list[int]]:
    return {
        each.snapshot_id: sorted(table.scan(snapshot_id=each.snapshot_id).to_arrow()["id"].to_pylist())
        for each in table.metadata.snapshots
    }


def maintained(world: SparkWorld, jobs: Jobs, name: TableName) -> Job:
    return Attempt(jobs, jobs.submit_and_claim(name, ACTIONS, "w", options=OPTIONS), world.engine).run()


@pytest.mark.cell("Local Spark", "REST", "S3")
def test_faults_at_random_moments_cost_no_row_and_leave_no_lock_and_the_next_job_completes(
    world: SparkWorld,
    proxies: dict[str, FaultyProxy],
    store: Store,
    servers: CatalogServers,
    record_property: Callable[[str, object], None],
) -> None:
    jobs, faults, ended = Jobs(store), 0, dict.fromkeys(JobStatus, 0)
    for number in range(ROUNDS):
        chance = random.Random(seed(28) + number)
        name = world._made(commits=2, parts=1, deletes=1)
        before, rows = rows_at_each_snapshot(world.table(name)), world.content(name)
        seen: list[object] = [number]
        for place in chance.choice((["S3"], ["the catalog"], list(proxies))):
            proxies[place].fault = RandomFaults.of(chance, proxies[place])
            seen += [place, proxies[place].fault]
        job = maintained(world, jobs, name)
        for proxy in proxies.values():
            faults, proxy.faults, proxy.fault = faults + proxy.faults, 0, no_fault
        seen += [job.status, job.error]
        ended[job.status] += 1
        assert job.status is JobStatus.COMPLETED or (job.status is JobStatus.FAILED and CAUSE.search(job.error or "")), seen
        assert jobs.locks.get(name) is None, seen
        assert world.content(name) == rows, seen
        kept = rows_at_each_snapshot(world.table(name))
        assert all(kept[snapshot] == before[snapshot] for snapshot in kept.keys() & before.keys()), seen
        stored = [each.path for each in find_orphans(world.table(name), older_than=FAR_FUTURE)]
        set_modified(servers.s3.filer, (path.removeprefix("s3://") for path in stored), time.time() - AGE_S)
        again = maintained(world, jobs, name)
        assert (again.status, world.content(name)) == (JobStatus.COMPLETED, rows), (seen, again.error)
        assert not set(stored) & {each.path for each in find_orphans(world.table(name), older_than=FAR_FUTURE)}, seen
    record_property("faults", faults)
    record_property("measured", ", ".join(f"{count} {status}" for status, count in ended.items() if count))
    assert faults > 0
