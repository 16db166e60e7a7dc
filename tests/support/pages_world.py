"""An installation that has been in use for a day, for the tests of the pages and for the screenshots in the documentation.

    world = build_world(folder)
    app = app_of(world, SomebodyIs("vera"))

Everything in it was written by the domain's own calls, with a clock that was moved along.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from airflow_snowpack.api import Services, User
from airflow_snowpack.api.auth import Auth, any_dag
from airflow_snowpack.api.services import LOCK_WAIT
from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.installation import Installation
from airflow_snowpack.inventory import Inventory
from airflow_snowpack.jobs import ActionOutcome, ActionResult, Job, Jobs, JobStatus
from airflow_snowpack.maintenance import DEFAULT_ORDER, Action
from airflow_snowpack.store import Actor, Store, open_store, utc_now
from airflow_snowpack.store.signs_of_life import JOBS_ENDED, Role, SignOfLife

if TYPE_CHECKING:
    from fastapi import FastAPI, Request
    from pyiceberg.catalog import Catalog

CATALOG = "lake"
FOLDER = tempfile.TemporaryDirectory(prefix="snowpack-pages-")
TABLES = (
    "analytics.page_views",
    "analytics.sessions",
    "analytics.events_raw",
    "analytics.funnels_daily",
    "logistics.shipments",
    "logistics.stock_levels",
    "logistics.routes",
    "marketing.campaigns",
    "marketing.email_clicks",
    "payments.transactions",
    "payments.refunds",
    "payments.ledger_entries",
)
SPARK_ERROR = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 41 in stage 7.0 failed 4 times, most recent "
    "failure: Lost task 41.3 in stage 7.0 (TID 512) (10.0.14.7 executor 3): java.lang.OutOfMemoryError: Java heap space\n"
    "\tat java.base/java.util.Arrays.copyOf(Arrays.java:3537)\n"
    "\tat org.apache.parquet.bytes.CapacityByteArrayOutputStream.addSlab(CapacityByteArrayOutputStream.java:198)\n"
    "\tat org.apache.iceberg.parquet.ParquetWriter.flushRowGroup(ParquetWriter.java:214)"
)


class MovedClock:
    """A clock that is moved by hand, and goes by itself once it is let go."""

    def __init__(self, start: datetime) -> None:
        self.moment: datetime | None = start

    def __call__(self) -> datetime:
        return self.moment or utc_now()

    def move(self, **span: float) -> None:
        assert self.moment is not None
        self.moment += timedelta(**span)

    def let_go(self) -> None:
        self.moment = None


class SomebodyIs:
    """Whoever asks is this user.

    :ivar user: may be changed while the app is in use; ``None`` lets nobody in.
    """

    probes_are_open = True

    def __init__(self, name: str = "vera", *, may_edit: bool = True, may_start: Callable[[str], bool] = any_dag) -> None:
        self.user: User | None = User(name, may_edit, may_start)

    async def authenticate(self, request: Request) -> User:
        from airflow_snowpack.api import NotAuthenticated

        if self.user is None:
            raise NotAuthenticated("Nobody is signed in. Sign in first.")
        return self.user


def app_of(world: World, auth: Auth, services: Services | None = None) -> FastAPI:
    """Return the app on a world, which closes it. It may take longer to answer than people would wait: a busy machine does.

    :param services: ``None`` for those of the world.
    """
    from airflow_snowpack.api import build_app

    app = build_app(lambda: services or world.services, auth, timeout=timedelta(minutes=5))
    world.apps.append(app)
    return app


@dataclass
class World:
    """A store, and what can be done to it in a line.

    :ivar apps: those of :func:`app_of`; each refreshes the list of tables in a thread, until the world is closed.
    """

    store: Store
    installation: Installation
    inventory: Inventory
    clock: MovedClock
    made: dict[str, Job] = field(default_factory=dict)
    apps: list[FastAPI] = field(default_factory=list)

    @property
    def services(self) -> Services:
        return Services(self.installation, self.inventory, DEFAULT_ORDER, timeout=timedelta(minutes=5))

    @property
    def jobs(self) -> Jobs:
        return self.installation.jobs

    def close(self) -> None:
        for app in self.apps:
            app.state.services.close()
        self.jobs.close()

    def actor(self, name: str = "vera", via: str = "page") -> Actor:
        return Actor(name, via)

    def table(self, dotted: str) -> TableName:
        return TableName.parse(dotted, catalog=CATALOG)

    def submit(self, dotted: str, *actions: Action, owner: str | None = None, by: str | None = "vera") -> Job:
        chosen = actions or (Action.REWRITE_DATA_FILES, Action.EXPIRE_SNAPSHOTS)
        if owner is None:
            return self.jobs.submit(self.table(dotted), chosen, actor=self.actor(by or "vera", "api"))
        return self.jobs.submit(self.table(dotted), chosen, owner=owner, submitted_by="airflow")

    def run(self, job: Job, results: Sequence[ActionResult], error: str | None = None, *, worker: str = "worker-0") -> None:
        """Claim the job, let the time of its actions pass, and end it."""
        claim = self.jobs.claim(worker, job_id=job.job_id)
        assert claim is not None
        kept: list[ActionResult] = []
        for place, result in enumerate(results):
            self._pass(claim, result.elapsed_seconds)
            kept.append(result)
            if place + 1 < len(results):
                self.jobs.record_progress(claim, kept)
        self.jobs.finish(claim, JobStatus.FAILED if error else JobStatus.COMPLETED, kept, error)

    def start(self, job: Job, results: Sequence[ActionResult] = (), *, worker: str = "worker-0") -> None:
        """Claim the job and go on to some action, with a heartbeat a minute."""
        claim = self.jobs.claim(worker, job_id=job.job_id)
        assert claim is not None
        kept: list[ActionResult] = []
        for result in results:
            self._pass(claim, result.elapsed_seconds)
            kept.append(result)
            self.jobs.record_progress(claim, kept)
        self._pass(claim, 70)

    def _pass(self, claim: object, seconds: float) -> None:
        while seconds > 60:
            self.clock.move(seconds=60)
            seconds -= 60
            self.jobs.renew(claim)  # type: ignore[arg-type]
        self.clock.move(seconds=seconds)


@cache
def _lake(tables: tuple[str, ...]) -> Catalog:
    """A catalog with these tables, which are empty; made once in a process, since nothing here changes it."""
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField

    catalog = CatalogConfig.embedded(Path(FOLDER.name) / uuid4().hex).load()
    schema = Schema(NestedField(1, "month", LongType(), required=False))
    for database in sorted({name.rpartition(".")[0] for name in tables}):
        catalog.create_namespace(database)
    for name in tables:
        catalog.create_table(name, schema)
    return catalog


def open_world(folder: Path, start: datetime | None = None, tables: Sequence[str] = (), *, url: str | None = None) -> World:
    """An empty store and a catalog with these tables, listed.

    :param url: of a store that has its tables; ``None`` for an SQLite file in the folder.
    """
    clock = MovedClock(start or utc_now())
    store = open_store(url or f"sqlite:///{folder / 'pages.db'}", clock=clock)
    catalog = _lake(tuple(tables))
    inventory = Inventory(store, CATALOG, lambda: catalog)
    if tables:
        inventory.refresh()
    return World(store, Installation(store, lock_wait=LOCK_WAIT), inventory, clock)


def did(
    action: Action,
    message: str,
    seconds: float,
    metrics: Mapping[str, int] | None = None,
    outcome: ActionOutcome = ActionOutcome.SUCCEEDED,
    error: str | None = None,
) -> ActionResult:
    """A result, in a line."""
    return ActionResult(action.value, outcome, message, seconds, error, metrics or {})


def compacted(before: int, after: int, seconds: float, mib: int = 900) -> ActionResult:
    metrics = {
        "rewritten_data_files_count": before,
        "added_data_files_count": after,
        "rewritten_bytes_count": mib * 1024**2,
        "failed_data_files_count": 0,
        "removed_delete_files_count": 0,
    }
    return did(Action.REWRITE_DATA_FILES, f"Compacted {before:,} files into {after:,}", seconds, metrics)


def expired(snapshots: int, files: int, seconds: float) -> ActionResult:
    metrics = {
        "expired_snapshots_count": snapshots,
        "deleted_data_files_count": files,
        "deleted_position_delete_files_count": files // 9,
        "deleted_manifest_files_count": snapshots * 2,
        "deleted_manifest_lists_count": snapshots,
    }
    total = sum(metrics.values()) - snapshots
    message = f"Expired {snapshots:,} snapshots and deleted {total:,} files"
    return did(Action.EXPIRE_SNAPSHOTS, message, seconds, metrics)


def build_world(folder: Path) -> World:
    """A day in the life of a small installation, up to now."""
    world = open_world(folder, utc_now() - timedelta(hours=24), TABLES)
    clock = world.clock
    dag = "compact_lakehouse/scheduled__{:%Y-%m-%dT%H:00:00+00:00}/maintain"
    for hour in range(22):
        due = [TABLES[(hour * 5 + step) % 9] for step in range(2 + (hour * 7) % 6)]
        queued = [world.submit(name, owner=f"{dag.format(clock())}[{step}]") for step, name in enumerate(due)]
        if hour % 6 == 4:
            orphans = world.submit(TABLES[9], Action.REMOVE_ORPHAN_FILES, by="anton")
            metrics = {"planned_files_count": 41 + hour, "removed_files_count": 41 + hour}
            world.run(orphans, [did(Action.REMOVE_ORPHAN_FILES, f"Removed {41 + hour} orphan files", 33, metrics)])
        for place, job in enumerate(queued):
            clock.move(seconds=20)
            before = 40 + (hour * 37 + place * 211) % 900
            seconds = 180 + (hour * 131 + place * 97) % 700
            world.run(job, [compacted(before, 3 + before // 19, seconds, before * 7), expired(8 + hour, before // 2, 9.4)])
        clock.moment = max(clock(), utc_now() - timedelta(hours=24 - (hour + 1)))
    last_hours(world)
    clock.let_go()
    world.jobs.flush()
    return world


def last_hours(world: World) -> None:
    """The end of the day, with a job in each state."""
    clock, made = world.clock, world.made
    end = utc_now()
    clock.moment = end - timedelta(minutes=95)
    failed = world.submit("payments.transactions", *Action, by="jana")
    clock.move(minutes=2)
    error = f"rewrite_data_files failed: {SPARK_ERROR}"
    broken = did(Action.REWRITE_DATA_FILES, "Failed", 412, {}, ActionOutcome.FAILED, SPARK_ERROR)
    world.run(failed, [broken], error, worker="worker-1")
    made["failed"] = failed

    clock.moment = end - timedelta(minutes=70)
    done = world.submit(
        "analytics.page_views", *Action, owner=f"compact_lakehouse/manual__{clock():%Y-%m-%dT%H:%M:%S+00:00}/maintain[0]"
    )
    clock.move(seconds=48)
    manifests = {"rewritten_manifests_count": 64, "added_manifests_count": 5}
    deletes = {
        "rewritten_delete_files_count": 212,
        "added_delete_files_count": 9,
        "rewritten_bytes_count": 38 * 1024**2,
        "added_bytes_count": 4 * 1024**2,
    }
    orphans = {"planned_files_count": 17, "removed_files_count": 17}
    world.run(
        done,
        [
            compacted(1284, 93, 521, 46_300),
            did(Action.REWRITE_POSITION_DELETE_FILES, "Compacted 212 delete files into 9", 38, deletes),
            did(Action.REWRITE_MANIFESTS, "Rewrote 64 manifests into 5", 12.4, manifests),
            expired(362, 1190, 44),
            did(Action.REMOVE_ORPHAN_FILES, "Removed 17 orphan files", 61, orphans),
        ],
    )
    made["done"] = done

    clock.moment = end - timedelta(minutes=31)
    cancelled = world.submit("marketing.campaigns", by="anton")
    clock.move(minutes=1)
    world.jobs.cancel(cancelled.job_id, actor=world.actor("anton"))
    made["cancelled"] = cancelled

    clock.moment = end - timedelta(minutes=26)
    plan = {"rewritten_data_files_count": 412, "added_data_files_count": 28, "rewritten_bytes_count": 3_100 * 1024**2}
    snapshots = {
        "expired_snapshots_count": 96,
        "kept_snapshots_count": 14,
        "deleted_data_files_count": 702,
        "deleted_manifest_files_count": 180,
        "deleted_manifest_lists_count": 96,
    }
    dry = world.jobs.record_dry_run(
        world.table("payments.refunds"),
        [Action.REWRITE_DATA_FILES, Action.EXPIRE_SNAPSHOTS],
        [
            did(Action.REWRITE_DATA_FILES, "Would compact 412 files into 28", 0.2, plan),
            did(Action.EXPIRE_SNAPSHOTS, "Would expire 96 of 110 snapshots and delete 978 files", 0.1, snapshots),
        ],
        actor=world.actor("jana"),
    )
    made["dry"] = dry

    clock.moment = end - timedelta(minutes=14)
    running = world.submit("analytics.events_raw", *Action, by="jana")
    clock.move(seconds=20)
    world.start(
        running,
        [compacted(2210, 141, 480, 71_000), did(Action.REWRITE_POSITION_DELETE_FILES, "Compacted no delete files", 3.2)],
        worker="worker-1",
    )
    made["running"] = running

    clock.moment = end - timedelta(minutes=6)
    other = world.submit("logistics.shipments", owner="compact_lakehouse/manual__late/maintain[4]")
    clock.move(seconds=9)
    world.start(other, worker="compact_lakehouse/manual__late/maintain[4] try 1 on host-a:311")
    clock.moment = end - timedelta(minutes=2)
    for name in ("logistics.routes", "analytics.sessions", "marketing.email_clicks"):
        made[name] = world.submit(name, by="anton")
        clock.move(seconds=7)
    world.jobs.locks.acquire(world.table("payments.ledger_entries"), "etl/ledger_close/2026-11", ttl=timedelta(hours=2))
    signs = [
        SignOfLife(world.store, role, instance)
        for role, instance in (
            (Role.WORKER, "worker-2"),
            (Role.WORKER, "worker-0"),
            (Role.WORKER, "worker-1"),
            (Role.SWEEPER, "snowpack_sweep.sweep"),
            (Role.SCHEDULER, "snowpack_dispatcher.dispatch"),
            (Role.POLLER, "snowpack_dispatcher.dispatch"),
            (Role.COLLECTOR, "snowpack_interim_collector.collect"),
        )
    ]
    for moment, beating in ((end - timedelta(hours=9), signs), (end - timedelta(minutes=22), signs[:1]), (end, signs[1:])):
        clock.moment = moment
        for place, sign in enumerate(beating):
            sign.note(JOBS_ENDED, str(38 - 5 * place))
            sign.beat()
    world.inventory.refresh()
