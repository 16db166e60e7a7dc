"""What triggers of one process cost together: connections, statements and reads of tables, however many wait."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import sqlalchemy as sa
from bounded import PATIENCE_S
from counted_reads import counted_reads
from scripted_engine import eventually
from sqlalchemy.engine import make_url
from trigger_rounds import Tasks, TriggerRounds, as_connection, connections, while_waiting

from airflow_snowpack import triggers
from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.scheduling import CommitsAdded, Gate, GatePlace, GateState, MaxConcurrent, parse_trigger
from airflow_snowpack.scheduling.airflow_port import DagRuns
from airflow_snowpack.scheduling.sources.consumer import NO_OWNER, Consumer
from airflow_snowpack.store import Store, utc_now
from airflow_snowpack.store.tables.schedules import considered
from airflow_snowpack.triggers.shared_reads import SharedReads, next_round, shared_reads

if TYPE_CHECKING:
    from airflow.triggers.base import BaseTrigger
    from pyiceberg.catalog import Catalog

pytestmark = pytest.mark.usefixtures("settled")
LONG = "9999-01-01T00:00:00+00:00"
TABLES = ("a", "b", "c")


@pytest.fixture
def far_catalog(empty_postgres_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalog]:
    """A catalog in Postgres with three tables, and the installation's connection to it."""
    import pyarrow as pa

    place = make_url(empty_postgres_database)
    connection = json.loads(as_connection(empty_postgres_database)) | {"extra": {"warehouse": f"file://{tmp_path}/warehouse"}}
    monkeypatch.setenv("AIRFLOW_CONN_FAR_CATALOG", json.dumps(connection))
    monkeypatch.setenv("AIRFLOW__SNOWPACK__CATALOG_CONN_ID", "far_catalog")
    assert place.host is not None
    assert place.database is not None
    login = {"user": place.username, "password": place.password, "port": place.port or 5432}
    config = CatalogConfig.postgres(
        "lake", host=place.host, database=place.database, warehouse=f"file://{tmp_path}/warehouse", **login
    )
    loaded = config.load()
    loaded.create_namespace("db")
    for name in TABLES:
        loaded.create_table(("db", name), pa.schema([("n", pa.int64())]))
    loaded.close()
    yield loaded
    loaded.close()


def append(catalog: Catalog, table: str) -> None:
    import pyarrow as pa

    catalog.load_table(("db", table)).append(pa.table({"n": [1]}))
    catalog.close()


def sensor(number: int, table: str) -> triggers.DataArrivalTrigger:
    awaited = CommitsAdded(f"db.{table}").to_json()
    return triggers.DataArrivalTrigger(f"sensor{number}", "run", awaited, utc_now().isoformat(), LONG)


def begin(store: Store, catalog: Catalog, sensors: list[triggers.DataArrivalTrigger]) -> None:
    """Look once for each sensor, as its task does before it leaves for the triggerer."""

    tables = {name: catalog.load_table(("db", name)) for name in TABLES}
    for each in sensors:
        consumer = Consumer(store, each.consumer, parse_trigger(each.awaited), catalog_name="lake")
        consumer.look(each.owner, lambda name: tables[name.table])
    catalog.close()
    store.close()


class QuietAirflow:
    """An Airflow in which no run is active that the store does not know."""

    def dag_runs(self, known: Any) -> dict[str, DagRuns]:
        return {dag_id: DagRuns() for dag_id in known}

    def free_slots(self, pools: Any) -> dict[str, None]:
        return dict.fromkeys(pools)


def test_150_sensors_share_one_connection_to_the_catalog_and_one_to_the_store_and_read_each_table_once(
    rounds: TriggerRounds, far_catalog: Catalog, far_store: Store, empty_postgres_database: str, postgres_database: str
) -> None:
    sensors = [sensor(number, TABLES[number % 3]) for number in range(150)]
    far_store.close()

    async def look(tasks: Tasks) -> None:
        assert sorted(reads.metadata) == sorted(set(reads.metadata)), "each table once"
        assert len(reads.metadata) == len(TABLES)
        assert await asyncio.to_thread(connections, empty_postgres_database) == 1
        assert await asyncio.to_thread(connections, postgres_database) == 1

        reads.metadata.clear()
        reads.statements.clear()
        await rounds.run(150)
        assert reads.metadata == [], "no table has changed"
        assert len(reads.of_catalog) == 1
        assert len(reads.of_store) == 2, "the places of all sensors, and the number of the newest event"

        await asyncio.to_thread(append, far_catalog, "a")
        for cancelled in tasks[:30]:
            cancelled.cancel()
        reads.metadata.clear()
        await rounds.run(80)
        found = await asyncio.gather(*tasks[30::3])
        assert {event["why"] for event in found} == {"arrived"}
        assert len(reads.metadata) == 1, "the table that has changed"
        assert len(reads.manifests) == 1, "and what it got, however many count it"
        assert not any(task.done() for task in tasks[31::3] + tasks[32::3])
        assert await asyncio.to_thread(connections, empty_postgres_database) == 1

    with counted_reads() as reads:
        while_waiting(rounds, list(sensors), look)
    # The server notices a closed connection a moment later.
    eventually(lambda: connections(empty_postgres_database) == 0)


def test_watchers_share_the_connection_and_the_reads_of_sensors(
    rounds: TriggerRounds, far_catalog: Catalog, far_store: Store, empty_postgres_database: str
) -> None:
    waiter = sensor(0, "a")
    begin(far_store, far_catalog, [waiter])
    conns = {"store_conn_id": None, "catalog_conn_id": None, "poll_seconds": 10}
    producers = [triggers.ArrivalProducer({"table": "db.a", "watcher": f"w{number}", **conns}) for number in range(5)]

    async def look(tasks: Tasks) -> None:
        streams = [producer.open_stream() for producer in producers]
        events = [asyncio.ensure_future(anext(stream)) for stream in streams]
        await rounds.over(6)
        assert await asyncio.to_thread(connections, empty_postgres_database) == 1

        await asyncio.to_thread(append, far_catalog, "a")
        reads.metadata.clear()
        reads.manifests.clear()
        await rounds.run(0)
        assert {payload["added_records"] for payload, _ in await asyncio.gather(*events)} == {1}
        assert (await tasks[0])["why"] == "arrived"
        assert (len(reads.metadata), len(reads.manifests)) == (1, 1)
        for stream in streams:
            await stream.aclose()  # type: ignore[attr-defined]  # it is an asynchronous generator

    with counted_reads() as reads:
        while_waiting(rounds, [waiter], look)
    # The server notices a closed connection a moment later.
    eventually(lambda: connections(empty_postgres_database) == 0)


def test_an_outage_of_the_catalog_is_one_line_and_every_sensor_waits_on(
    rounds: TriggerRounds,
    far_catalog: Catalog,
    far_store: Store,
    empty_postgres_database: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    sensors = [sensor(number, "a") for number in range(20)]
    begin(far_store, far_catalog, sensors)
    place = make_url(empty_postgres_database)
    admin = place.set(drivername="postgresql", database="postgres").render_as_string(hide_password=False)

    def allow_connections(allowed: bool) -> None:
        with psycopg.connect(admin, autocommit=True) as conn:
            conn.execute(f'ALTER DATABASE "{place.database}" WITH ALLOW_CONNECTIONS {allowed}')
            conn.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [place.database])

    async def outage(tasks: Tasks) -> None:
        await asyncio.to_thread(allow_connections, False)
        for _ in range(2):
            await rounds.run(20)
        assert not any(task.done() for task in tasks)
        assert caplog.text.count("cannot be reached") == 1

        await asyncio.to_thread(allow_connections, True)
        await asyncio.to_thread(append, far_catalog, "a")
        await rounds.run(0)
        assert {event["why"] for event in await asyncio.gather(*tasks)} == {"arrived"}

    while_waiting(rounds, list(sensors), outage)


def test_other_waits_of_a_process_share_one_connection_and_one_statement_for_each_kind(
    rounds: TriggerRounds, far_store: Store, postgres_database: str
) -> None:
    jobs = Jobs(far_store)
    waits: list[BaseTrigger] = []
    for number in range(20):
        table = TableName("lake", "db", f"t{number}")
        waits.append(triggers.MaintenanceJobTrigger(jobs.submit(table, ["expire_snapshots"]).job_id))
        waits.append(triggers.TableLockTrigger(table.dotted, "lake"))
        waits.append(triggers.BuildPublishedTrigger(f"dataset{number}"))
    jobs.close()

    async def look(tasks: Tasks) -> None:
        reads.statements.clear()
        await rounds.run(60)
        assert len(reads.of_store) == 3, "jobs, locks and builds"
        assert await asyncio.to_thread(connections, postgres_database) == 1
        assert not any(task.done() for task in tasks)

    with counted_reads(far_store.engine) as reads:
        while_waiting(rounds, waits, look)


@pytest.mark.one_database
def test_what_fails_for_one_sensor_is_its_error_alone(rounds: TriggerRounds, jobs: Jobs, flights: TableName) -> None:
    store, waits = (
        jobs.store,
        [
            triggers.DataArrivalTrigger(name, "run", CommitsAdded("demo.flights", 6).to_json(), utc_now().isoformat(), LONG)
            for name in ("well", "damaged")
        ],
    )
    places = {"well": {"at": utc_now().isoformat(), "events": 0}, "damaged": {"at": "no moment"}}
    for name, place in places.items():  # as an earlier release has begun them, with all of the table
        row = {"consumer": name, "owner": NO_OWNER, "since": place, "upto": place, "changed_at": utc_now()}
        store.transact(lambda conn, row=row: conn.execute(sa.insert(considered).values(row)))

    async def act(tasks: Tasks) -> None:
        well, damaged = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(well, dict)
        assert well["why"] == "arrived"
        assert isinstance(damaged, ValueError)

    while_waiting(rounds, list(waits), act, parked=0)


@pytest.mark.one_database
def test_a_trigger_that_is_cancelled_takes_nothing_from_the_others(rounds: TriggerRounds, jobs: Jobs) -> None:
    one, other = [jobs.submit(TableName("lake", "db", name), ["expire_snapshots"]).job_id for name in TABLES[:2]]
    waits: list[BaseTrigger] = [triggers.MaintenanceJobTrigger(job_id) for job_id in (one, one, other)]

    async def act(tasks: Tasks) -> None:
        jobs.cancel(one)
        begun = asyncio.create_task(rounds.run(1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # all have requested their job
        tasks[0].cancel()
        await begun
        assert await tasks[1] == {"job_id": one, "status": "cancelled"}
        assert (tasks[0].cancelled(), tasks[2].done()) == (True, False)

    while_waiting(rounds, waits, act)


@pytest.mark.one_database
def test_runs_at_gates_share_one_connection(rounds: TriggerRounds, far_store: Store, postgres_database: str) -> None:
    places = [GatePlace("dag", f"run{number}", "gate") for number in range(10)]
    states = [Gate(far_store, QuietAirflow(), place, [MaxConcurrent(1)]).ask().state for place in places]  # type: ignore[arg-type]  # as far as gates ask
    assert states == [GateState.PASSED, *[GateState.WAITING] * 9]
    far_store.close()
    gates: list[BaseTrigger] = [
        triggers.RunConstraintTrigger("dag", place.run_id, "gate", LONG, recheck_seconds=3_600.0) for place in places[1:]
    ]

    async def act(tasks: Tasks) -> None:
        await rounds.run(9)
        assert await asyncio.to_thread(connections, postgres_database) == 1
        assert not any(task.done() for task in tasks)

    while_waiting(rounds, gates, act)


def test_triggers_with_one_period_go_on_at_one_moment_whenever_they_began() -> None:
    batches: list[int] = []

    def read(keys: frozenset[int]) -> list[tuple[int, int]]:
        batches.append(len(keys))
        return [(key, key) for key in keys]

    async def wait(number: int) -> None:
        reads = shared_reads("a kind", read, "numbers")
        await asyncio.sleep(number / 1_000)
        await next_round(0.5)
        assert await reads.get([number]) == {number: number}

    async def run() -> None:
        loop = asyncio.get_running_loop()
        await next_round(0.5)  # so that all of them begin within one round
        begun = loop.time()
        await asyncio.gather(*(wait(number) for number in range(50)))
        if loop.time() - begun < 0.9:  # on a machine that was busy for longer, they may have begun in different rounds
            assert batches == [50]

    asyncio.run(run())
    assert sum(batches) == 50


def test_a_value_that_hangs_holds_up_neither_the_others_of_its_batch_nor_later_ones() -> None:
    released = threading.Event()

    def read(keys: frozenset[int]) -> Iterator[tuple[int, int]]:
        for key in sorted(keys, reverse=True):  # 0 comes last
            assert key or released.wait(PATIENCE_S)
            yield key, key

    async def run() -> None:
        reads = SharedReads(read, "numbers", batches=2)
        stuck = asyncio.create_task(reads.get([0]))
        assert await reads.get([1]) == {1: 1}
        assert await reads.get([2]) == {2: 2}
        assert not stuck.done()
        released.set()
        assert await stuck == {0: 0}

    asyncio.run(run())
