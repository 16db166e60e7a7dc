"""Datasets with builds in every state, for the tests of their API, command line and pages.

    made = make_builds(world.store, tmp_path)
    made.registry.runs("flights")

Everything was written by the domain's own calls; the shards are a few bytes each.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from built_runs import DAY, MIDNIGHT, begun, built, write_attempt
from page_reading import HOSTILE

from airflow_snowpack.builds.model import Manifest
from airflow_snowpack.builds.publish import outcome_of, publish, rollback
from airflow_snowpack.builds.registry.model import BuildPolicy, PublishOutcome, RunHandle
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.write.selection import keep_selection
from airflow_snowpack.store import Store, upgrade_schema, utc_now
from airflow_snowpack.store.opening import open_engine
from airflow_snowpack.store.tables.builds import build_datasets, build_publications, build_runs

FOLDER = tempfile.TemporaryDirectory(prefix="snowpack-builds-")
TABLES = (build_datasets, build_runs, build_publications)
FIRST, SECOND, THIRD = "20260101T000000Z", "20260102T000000Z", "20260103T000000Z"
FAILED, SELECTED, WRITING = "20260104T000000Z", "20260105T000000Z", "20260106T000000Z"
SHARDS = 4
MADE = utc_now()


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
        resized = tuple(replace(shard, rows=rows) for shard, rows in zip(manifest.shards, sizes, strict=True))
        return handle, replace(manifest, shards=resized)

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


@cache
def _migrated() -> Path:
    file = Path(FOLDER.name) / "empty.db"
    with Store(open_engine(f"sqlite:///{file}")) as store:
        upgrade_schema(store)
    return file


def empty_store(folder: Path) -> str:
    """The URL of a store in a folder that has its tables already: to migrate one takes longer than most tests."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(_migrated(), folder / "pages.db")
    return f"sqlite:///{folder / 'pages.db'}"


@cache
def _template() -> tuple[Path, dict[str, list[dict[str, Any]]]]:
    """The datasets, made once: their folder, and the rows of their tables. It takes longer than most tests that look at them."""
    folder = Path(FOLDER.name)
    with Store(open_engine(empty_store(folder / "store")), clock=lambda: MADE) as store:
        Built(store, folder / "made").make()
        rows = {table.name: [dict(row._mapping) for row in store.read(partial(_all, table))] for table in TABLES}
    return folder / "made", rows


def _all(table: sa.Table, conn: sa.Connection) -> Sequence[sa.Row[Any]]:
    return conn.execute(sa.select(table)).all()


def _as_of_now(row: dict[str, Any], later: timedelta) -> dict[str, Any]:
    """The row as if it had been written so much later; the day that a run is of stays."""
    moved = {name: value + later for name, value in row.items() if isinstance(value, datetime) and "as_of" not in name}
    return row | moved


def make_builds(store: Store, folder: Path) -> Built:
    """Give a store and a folder a copy of them all."""
    template, rows = _template()
    shutil.copytree(template, folder, dirs_exist_ok=True)
    own = {name: [_as_of_now(row, store.clock() - MADE) for row in of_table] for name, of_table in rows.items()}
    for row in own[build_datasets.name]:
        row["url"] = str(folder / row["dataset"])
    store.transact(lambda conn: [conn.execute(sa.insert(table), own[table.name]) for table in TABLES])
    return Built(store, folder)
