"""Publishing, rolling back and cleaning up on servers of object storages, also on one that fails each fifth request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import count
from typing import Any

import pytest
from built_runs import DATASET, DAY, MIDNIGHT, begun, built, current_run, everything, selected, unknown_folders, write_attempt
from clocks import MovedClock
from gcs_server import gcs_server
from s3_server import Request, s3_server

from airflow_snowpack.builds.cleanup import cleanup
from airflow_snowpack.builds.model import Retention
from airflow_snowpack.builds.publish import publish, rollback
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.store import open_store

RETENTION = Retention(keep_runs=2)


@pytest.fixture
def registry(sqlite_url: str) -> Iterator[BuildRegistry]:
    with open_store(sqlite_url, clock=MovedClock(MIDNIGHT)) as store:
        yield BuildRegistry(store, sleep=lambda _: None)


@pytest.mark.parametrize(("lake", "server"), [("s3://lake", s3_server), ("gs://lake", gcs_server)])
def test_builds_are_published_and_cleaned_up_and_nothing_else_is_touched(
    registry: BuildRegistry, lake: str, server: Callable[[], AbstractContextManager[dict[str, Any]]]
) -> None:
    with server() as options:
        storage, beside = Storage(f"{lake}/flights", options), Storage(f"{lake}/flights2", options)
        kept = write_attempt(beside, "20260101T000000Z", 0)
        for day in range(4):
            handle, manifest = built(registry, storage, MIDNIGHT + day * DAY, losers=1)
            publish(registry, storage, handle, manifest)
            assert current_run(storage) == handle.run_id
        like_the_winner = begun(registry, storage, MIDNIGHT + 4 * DAY, shards=1)
        for task in (10, 1, 100):
            write_attempt(storage, like_the_winner.run_id, 0, task=task)
        publish(registry, storage, like_the_winner, selected(storage, like_the_winner))
        failed, _ = built(registry, storage, MIDNIGHT + 5 * DAY)
        registry.fail(failed, "it was no good")

        planned = cleanup(registry, storage, DATASET, RETENTION, dry_run=True)
        assert cleanup(registry, storage, DATASET, RETENTION) == planned
        assert len(planned) == 4 * 2 + 2 + 1 + 3 * 2, "losers of five runs, a failed run, and three old ones with their manifests"
        assert current_run(storage) == like_the_winner.run_id
        assert rollback(registry, storage, DATASET, "-1", None).run_id == "20260104T000000Z"
        assert current_run(storage) == "20260104T000000Z"
        left = {found.path.split("/")[1] for found in storage.objects("data/")}
        assert left == {"20260104T000000Z", like_the_winner.run_id}
        assert sum(1 for _ in storage.objects(f"data/{like_the_winner.run_id}/")) == 2
        assert unknown_folders(registry, storage, DATASET) == []
        storage.write("data/unknown/shard=00000/attempt=00-1/shard.parquet", b"rows")
        assert unknown_folders(registry, storage, DATASET) == ["data/unknown/"]
        assert kept.url in everything(beside)


def test_a_server_that_fails_each_fifth_request_delays_and_loses_nothing(registry: BuildRegistry) -> None:
    asked = count(1)

    def four_of_five(_request: Request) -> bool:
        return next(asked) % 5 != 0

    with s3_server(four_of_five) as options:
        storage = Storage("s3://lake/flights", options, sleep=lambda _: None)
        for day in range(2):  # few, as the client itself waits between its tries
            handle, manifest = built(registry, storage, MIDNIGHT + day * DAY, shards=1, losers=day)
            publish(registry, storage, handle, manifest)
        cleanup(registry, storage, DATASET, Retention(keep_runs=1))
        assert current_run(storage) == "20260102T000000Z"
        assert sum(1 for _ in storage.objects("data/")) == 2
