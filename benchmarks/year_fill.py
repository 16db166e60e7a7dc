"""A year of use, in bulk: what the package would have left in a store and a catalog, without its waiting for each commit.

    with filled_year(url, folder, Sizes()) as year:
        Jobs(year.store).submit(year.table(7), ["expire_snapshots"])

Two years of different sizes differ only in what they hold; the tables, schedules and runs that the units of work touch are the
same in each.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.inventory import Inventory
from airflow_snowpack.scheduling import CustomEvents, MaxConcurrent, PartitionsAdded, Schedule
from airflow_snowpack.scheduling.pending_runs.model import PendingState
from airflow_snowpack.store import Store, upgrade_schema
from airflow_snowpack.store.opening import open_engine
from airflow_snowpack.store.schema import audit_trail
from airflow_snowpack.store.tables.jobs import job_history, job_queue, jobs, table_locks
from airflow_snowpack.store.tables.schedules import (
    event_cursors,
    events,
    pending_jobs,
    schedule_history,
    schedule_runs,
    schedule_triggers,
    schedules,
)

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

CATALOG, DATABASE, LARGE = "lake", "year", "large"
NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
BUSY_DAG = "busy"
ROWS_AT_ONCE = 50_000
FILES_A_MANIFEST = 5_000
ROWS_A_FILE, BYTES_A_FILE = 1_000, 1_000_000

SCHEDULE_COLUMNS = ("name", "generation", "definition", "dag_id", "enabled", "origin", "created_at", "changed_at")

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Sizes:
    """What the year holds.

    :param jobs: that were submitted in the year, each with its history; ``queued``: how many of them wait for a worker, and
        ``old``: how many are old enough to be deleted.
    :param tables: of the catalog, besides the large one; ``files``: of the large one.
    :param schedules: each listens to one table and has started runs; ``watched``: how many tables they listen to.
    :param waiting: runs that wait for one place; ``sensors``: deferred sensors that wait for data, on ``awaited`` tables.
    """

    jobs: int = 1_000_000
    queued: int = 400
    old: int = 5_000
    tables: int = 2_000
    schedules: int = 5_000
    files: int = 100_000
    watched: int = 500
    waiting: int = 2_000
    sensors: int = 300
    awaited: int = 100

    def after_part_of_the_year(self, part: int) -> Sizes:
        """One of so many jobs, tables and schedules; what the units of work touch is the same."""
        tables = max(self.tables // part, self.watched, self.awaited)
        return replace(self, jobs=self.jobs // part, tables=tables, schedules=max(self.schedules // part, self.watched))


@dataclass
class Clock:
    """Stands still until it is moved."""

    now: datetime = NOW

    def __call__(self) -> datetime:
        return self.now


@dataclass(frozen=True, eq=False)
class Year:
    """A store and a catalog after a year."""

    store: Store
    clock: Clock
    config: CatalogConfig
    catalog: Catalog
    inventory: Inventory
    sizes: Sizes
    home: Path

    def table(self, number: int | None = None) -> TableName:
        """One of the tables; without a number the large one."""
        return TableName(CATALOG, DATABASE, LARGE if number is None else f"t{number}", self.config.catalog_id)


@contextmanager
def filled_year(url: str, home: Path, sizes: Sizes) -> Iterator[Year]:
    """An empty store and an empty folder, filled."""
    home.mkdir(parents=True, exist_ok=True)
    config, clock = CatalogConfig.embedded(home, CATALOG), Clock()
    catalog = config.load()
    make_tables(catalog, sizes)
    with Store(open_engine(url), clock=clock) as store:
        upgrade_schema(store)
        fill_jobs(store, sizes, config.catalog_id)
        fill_schedules(store, sizes)
        fill_waiting(store, sizes)
        if store.is_postgres:
            store.single(lambda conn: conn.exec_driver_sql("VACUUM ANALYZE"))
        inventory = Inventory(store, CATALOG, lambda: catalog, lambda: config.catalog_id)
        inventory.refresh()
        yield Year(store, clock, config, catalog, inventory, sizes, home)


# --- the store --------------------------------------------------------------------------------------------------------


def fill_jobs(store: Store, sizes: Sizes, catalog_id: str) -> None:
    """Jobs over a year, one in fifty of which failed, with history and audit entries; the newest wait in the queue."""

    def named(number: int) -> Row:
        table = number % sizes.tables
        return CATALOG, DATABASE, f"t{table}", f"{CATALOG}@{catalog_id}.{DATABASE}.t{table}", catalog_id

    def at(number: int) -> datetime:
        return NOW - timedelta(days=365) * (1 - number / sizes.jobs)

    def job(number: int) -> Row:
        ended = number < sizes.jobs - sizes.queued
        failed = ended and number % 50 == 7
        status = "failed" if failed else "completed" if ended else "pending"
        owner = f"dag_{number % 50}|scheduled__{number}|maintain|-1"
        return (
            f"{number:032x}", *named(number), '["expire_snapshots"]', "{}", number % 997 == 0, status, at(number), owner, False,
            at(number) if ended else None, "boom" if failed else None, int(ended),
        )  # fmt: skip

    columns = (
        *("job_id", "catalog", "database_name", "table_name", "table_key", "catalog_id", "actions", "options", "dry_run"),
        *("status", "submitted_at", "owner", "inline", "completed_at", "error", "attempt"),
    )
    insert(store, jobs, columns, map(job, range(sizes.jobs)))
    entries = ((f"{number:032x}", at(number), event, "{}") for number in range(sizes.jobs) for event in ("submitted", "finished"))
    insert(store, job_history, ("job_id", "at", "event", "detail"), entries)
    entries = ((at(number), "vera", "api", "submit", f"{number:032x}", "{}") for number in range(0, sizes.jobs, 10))
    insert(store, audit_trail, ("at", "actor", "via", "change", "subject", "detail"), entries)
    queued = range(sizes.jobs - sizes.queued, sizes.jobs)
    places = ((f"{number:032x}", at(number), at(number), 0, catalog_id) for number in queued)
    insert(store, job_queue, ("job_id", "enqueued_at", "visible_at", "attempt_count", "catalog_id"), places)
    locks = ((*named(number), f"{number:032x}", at(number), NOW + timedelta(hours=1)) for number in queued)
    names = ("catalog", "database_name", "table_name", "table_key", "catalog_id", "holder", "acquired_at", "expires_at")
    insert(store, table_locks, names, locks)


def fill_schedules(store: Store, sizes: Sizes) -> None:
    """Schedules that listen to tables, and the events, runs and history that a fifth as many launches as jobs have left."""
    one = Schedule("s", dag_id="d", trigger=PartitionsAdded(f"{DATABASE}.t0"), enabled=True)
    definitions = [
        json.dumps(replace(one, trigger=PartitionsAdded(f"{DATABASE}.t{number}")).to_json()) for number in range(sizes.watched)
    ]

    def schedule(number: int) -> Row:
        return f"s{number}", "g", definitions[number % sizes.watched], f"dag_{number}", True, "hand", NOW, NOW

    insert(store, schedules, SCHEDULE_COLUMNS, map(schedule, range(sizes.schedules)))
    heard = ((f"s{n}", 0, "g", f"table:{CATALOG}.{DATABASE}.t{n % sizes.watched}", 0, NOW) for n in range(sizes.schedules))
    insert(store, schedule_triggers, ("schedule", "leaf", "generation", "event_key", "counts_after", "counts_from"), heard)
    runs = max(sizes.jobs // 5, sizes.schedules)

    def at(number: int) -> datetime:
        return NOW - timedelta(days=365) * (1 - number / runs)

    def pending(number: int) -> Row:
        name = f"s{number % sizes.schedules}"
        return f"{number:032x}", name, "g", "d", "launched", 0, at(number), at(number), 0, "{}", "[]", at(number)

    names = (
        *("pending_id", "schedule", "generation", "dag_id", "state", "priority", "created_at", "triggered_at", "counted_to"),
        *("progress", "reasons", "ended_at"),
    )
    insert(store, pending_jobs, names, map(pending, range(runs)))
    ran = ((f"dag_{n % sizes.schedules}", f"r{n}", f"s{n % sizes.schedules}", at(n), at(n), "success") for n in range(runs))
    insert(store, schedule_runs, ("dag_id", "run_id", "schedule", "reserved_at", "ended_at", "state"), ran)
    entries = ((f"s{n % sizes.schedules}", at(n), "launched", f"{n:032x}", "{}") for n in range(runs))
    insert(store, schedule_history, ("schedule", "at", "what", "pending_id", "detail"), entries)
    arrived = ((f"table:{CATALOG}.{DATABASE}.t{n % sizes.watched}", f"e{n}", at(n), at(n), "{}", "{}") for n in range(runs))
    insert(store, events, ("key", "source_id", "at", "recorded_at", "amounts", "detail"), arrived)
    newest = store.read(lambda conn: conn.execute(sa.select(sa.func.max(events.c.id))).scalar_one())
    store.transact(lambda conn: conn.execute(sa.delete(event_cursors)))
    insert(store, event_cursors, ("name", "position"), [("subscriber", newest)])


def fill_waiting(store: Store, sizes: Sizes) -> None:
    """Runs that all wait for the one place of a DAG that is taken, and after them one of a schedule that waits for nothing."""
    one = Schedule("w", dag_id=BUSY_DAG, trigger=CustomEvents("x"), constraints=[MaxConcurrent(1)], enabled=True)
    wanting = json.dumps(one.to_json())
    free = json.dumps(Schedule("free", dag_id="free", trigger=CustomEvents("x"), enabled=True).to_json())
    declared = [(f"w{n}", "g", wanting, BUSY_DAG, True, "hand", NOW, NOW) for n in range(sizes.waiting)]
    declared.append(("free", "g", free, "free", True, "hand", NOW, NOW))
    insert(store, schedules, SCHEDULE_COLUMNS, declared)
    began, day = NOW - timedelta(minutes=10), timedelta(days=1)
    open_ = [
        (f"w{n}", "g", BUSY_DAG, PendingState.CONSTRAINT.value, 0, began, began, NOW + day, began, 0, "{}", "[]")
        for n in range(sizes.waiting)
    ]
    soon = NOW - timedelta(minutes=1)
    open_.append(("free", "g", "free", PendingState.CONSTRAINT.value, 0, soon, soon, NOW + day, soon, 0, "{}", "[]"))
    names = (
        *("pending_id", "schedule", "generation", "dag_id", "state", "priority", "created_at", "triggered_at", "expires_at"),
        *("next_check_at", "counted_to", "progress", "reasons"),
    )
    insert(store, pending_jobs, names, ((row[0], *row) for row in open_))
    taken = [(BUSY_DAG, "r", "w", NOW - timedelta(hours=1))]
    insert(store, schedule_runs, ("dag_id", "run_id", "schedule", "reserved_at"), taken)


def insert(store: Store, table: sa.Table, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Insert rows by the driver itself: ``executemany`` on SQLite, ``COPY`` on Postgres. JSON is given as text."""
    names, rows = ", ".join(columns), iter(rows)
    if store.is_postgres:
        _with_driver(store, lambda driver: _copy(driver, f"COPY {table.name} ({names}) FROM STDIN", rows))
        return
    marks = ", ".join("?" * len(columns))
    statement = f"INSERT INTO {table.name} ({names}) VALUES ({marks})"
    while batch := [tuple(map(_for_sqlite, row)) for row in islice(rows, ROWS_AT_ONCE)]:
        store.transact(lambda conn, batch=batch: conn.connection.dbapi_connection.executemany(statement, batch))  # type: ignore[misc]  # mypy takes the default for an argument


def _with_driver(store: Store, work: Callable[[Any], None]) -> None:
    store.transact(lambda conn: work(conn.connection.dbapi_connection))


def _copy(driver: Any, statement: str, rows: Iterable[Row]) -> None:
    with driver.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row(row)


def _for_sqlite(value: Any) -> Any:
    return f"{value:%Y-%m-%d %H:%M:%S.%f}" if isinstance(value, datetime) else value


# --- the catalog ------------------------------------------------------------------------------------------------------


def make_tables(catalog: Catalog, sizes: Sizes) -> None:
    """Tables with one snapshot each, copied from one that PyIceberg made, and the large one. No data file exists."""
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField

    catalog.create_namespace(DATABASE)
    schema = Schema(NestedField(1, "id", LongType(), required=False))
    large = catalog.create_table((DATABASE, LARGE), schema)
    append_files(large, sizes.files)
    pattern = catalog.create_table((DATABASE, "pattern"), schema)
    append_files(pattern, 3)
    pattern = catalog.load_table((DATABASE, "pattern"))
    copy_table(catalog, pattern, [f"t{number}" for number in range(sizes.tables)])
    catalog.drop_table((DATABASE, "pattern"))


def append_files(table: Table, files: int) -> None:
    """Commit files to a table, some thousand in a manifest; their data is never written."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    for start in range(0, files, FILES_A_MANIFEST):
        transaction = table.transaction()
        with transaction.update_snapshot().fast_append() as append:
            for number in range(start, min(start + FILES_A_MANIFEST, files)):
                file = DataFile.from_args(
                    _table_format_version=2,
                    content=DataFileContent.DATA,
                    file_path=f"{table.location()}/data/{number:08}.parquet",
                    file_format=FileFormat.PARQUET,
                    partition=Record(),
                    record_count=ROWS_A_FILE,
                    file_size_in_bytes=BYTES_A_FILE,
                )
                append.append_data_file(file)
        transaction.commit_transaction()


def copy_table(catalog: Catalog, pattern: Table, names: Sequence[str]) -> None:
    """Register tables beside another one in a SQL catalog, with its metadata and a location and an id of their own."""
    said, location, known = Path(pattern.metadata_location.removeprefix("file://")).read_text(), pattern.location(), []
    namespace = ".".join(pattern.name()[:-1])
    for name in names:
        place = f"{location.rpartition('/')[0]}/{name}"
        metadata = said.replace(str(pattern.metadata.table_uuid), str(uuid.uuid4()))
        metadata = metadata.replace(f'"location":"{location}"', f'"location":"{place}"')
        file = Path(place.removeprefix("file://")) / "metadata" / f"00001-{uuid.uuid4()}.metadata.json"
        file.parent.mkdir(parents=True)
        file.write_text(metadata)
        known.append(_catalog_row(catalog, namespace, name, f"file://{file}"))
    statement = sa.text(f"INSERT INTO iceberg_tables ({', '.join(known[0])}) VALUES ({', '.join(f':{key}' for key in known[0])})")
    with _engine_of(catalog).begin() as conn:
        conn.execute(statement, known)


def _catalog_row(catalog: Any, namespace: str, name: str, metadata: str) -> Mapping[str, Any]:
    row: Mapping[str, Any] = catalog._create_table_row(namespace, name, metadata)
    return row


def _engine_of(catalog: Any) -> sa.Engine:
    engine: sa.Engine = catalog.engine
    return engine
