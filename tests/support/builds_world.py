"""Datasets with builds in every state, for the tests of their API, command line and pages.

    made = make_builds(world.store, tmp_path)
    made.registry.runs("flights")

Everything was written by the domain's own calls; the shards are a few bytes each.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from built_runs import DAY, MIDNIGHT, begun, built, write_attempt

from airflow_snowpack.builds.publish import outcome_of, publish
from airflow_snowpack.builds.registered import BuildPolicy
from airflow_snowpack.builds.registry import BuildRegistry
from airflow_snowpack.builds.rollback import rollback
from airflow_snowpack.builds.selection import keep_selection
from airflow_snowpack.builds.storage import Storage

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_snowpack.builds.model import Manifest
    from airflow_snowpack.builds.registered import PublishOutcome, RunHandle
    from airflow_snowpack.store import Store

FIRST, SECOND, THIRD = "20260101T000000Z", "20260102T000000Z", "20260103T000000Z"
FAILED, SELECTED, WRITING = "20260104T000000Z", "20260105T000000Z", "20260106T000000Z"
SHARDS = 4
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"


class Built:
    """The datasets.

    ``flights`` has three published runs, of which the second is current again and the third has losing attempts; one that failed,
    one whose winners are selected, and one that is being written. ``empty`` has never been published.
    """

    def __init__(self, store: Store, folder: Path) -> None:
        self.registry = BuildRegistry(store, BuildPolicy(lock_wait=timedelta(seconds=1)))
        self.storage = Storage(folder / "flights")
        self.other = Storage(folder / "empty")

    def published(self, days: int, *, losers: int = 0) -> RunHandle:
        """A run of the day so many days after the first."""
        handle, manifest = self.sized(days, losers=losers)
        publish(self.registry, self.storage, handle, manifest)
        return handle

    def sized(self, days: int, *, losers: int = 0, shards: int = SHARDS) -> tuple[RunHandle, Manifest]:
        """A run ready to be published, whose last shard has most rows."""
        owner = f"build_flights/run_{days}/build"
        handle, manifest = built(self.registry, self.storage, MIDNIGHT + days * DAY, shards=shards, owner=owner, losers=losers)
        sizes = [100 * (1 + 9 * (shard.shard_id == shards - 1)) for shard in manifest.shards]
        told = tuple(replace(shard, rows=rows) for shard, rows in zip(manifest.shards, sizes, strict=True))
        return handle, replace(manifest, shards=told)

    def outcome(self, run_id: str) -> PublishOutcome:
        """How the publication of a run ended."""
        found = outcome_of(self.registry, "flights", run_id)
        assert found is not None
        return found

    def make(self) -> None:
        for days, losers in ((0, 0), (1, 0), (2, 2)):
            self.published(days, losers=losers)
        rollback(self.registry, self.storage, "flights", SECOND, "ada")
        failed = begun(self.registry, self.storage, MIDNIGHT + 3 * DAY, shards=SHARDS)
        write_attempt(self.storage, failed.run_id, 0)
        self.registry.fail(failed, f"no space left on {HOSTILE}")
        _, manifest = self.sized(4)
        keep_selection(self.storage, manifest)
        writing = begun(self.registry, self.storage, MIDNIGHT + 5 * DAY, shards=SHARDS, owner="build_flights/run_5/build")
        write_attempt(self.storage, writing.run_id, 2)
        self.registry.begin("empty", self.other.url, as_of=MIDNIGHT, num_shards=1)


def make_builds(store: Store, folder: Path) -> Built:
    """Make them all."""
    made = Built(store, folder)
    made.make()
    return made
