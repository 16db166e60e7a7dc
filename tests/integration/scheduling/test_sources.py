"""``explain`` knows the sources of a schedule: tables, DAGs, and whether a scheduler is there at all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any, NoReturn

import pyarrow as pa
import pytest
from bounded import PATIENCE_S
from forgetting import forget_old

from airflow_snowpack.iceberg import CatalogConfig, TableName, broker
from airflow_snowpack.iceberg.broker import Broker
from airflow_snowpack.scheduling import (
    CommitsAdded,
    Cron,
    CustomEvents,
    EventIntake,
    Explanation,
    MaxConcurrent,
    PartitionsAdded,
    Poller,
    RunsFailed,
    RunsSucceeded,
    Since,
    explain,
)
from airflow_snowpack.scheduling.launches.run_ends import RunEnds
from airflow_snowpack.scheduling.sources.source import read_unreadable
from airflow_snowpack.store import Store
from airflow_snowpack.wire.schedule import ExplanationShape


@pytest.fixture
def lake(tmp_path: Path) -> CatalogConfig:
    config = CatalogConfig.embedded(tmp_path / "lake")
    config.load().create_namespace("web")
    return config


@pytest.fixture
def poller(store: Store, lake: CatalogConfig) -> Poller:
    return Poller(store, catalog_name="lake", broker=Broker(lake.load))


@pytest.fixture(autouse=True)
def _now(clock: Any) -> None:
    """Tables are stamped with the real time."""
    clock.now = datetime.now(UTC)


def create(lake: CatalogConfig, name: str, *, partitioned: bool = True) -> None:
    schema = pa.schema([pa.field("n", pa.int32())])
    table = lake.load().create_table(("web", name), schema)
    if partitioned:
        with table.update_spec() as update:
            update.add_identity("n")


def explained(scheduler: Any, name: str = "joined") -> Explanation:
    return explain(scheduler.schedules, name)


def poll(scheduler: Any, poller: Poller) -> None:
    scheduler.clock.move(minutes=2)
    poller.step()


def test_a_missing_table_is_named_until_it_is_there(scheduler: Any, poller: Poller, lake: CatalogConfig) -> None:
    create(lake, "a")
    scheduler.declare("joined", CommitsAdded("web.a") & CommitsAdded("web.b"))
    assert [source.problem for source in explained(scheduler).sources] == [None, None], "nobody has asked yet"
    assert "The table web.a has not been read yet." in explained(scheduler).sentences()

    poll(scheduler, poller)
    a, b = explained(scheduler).sources
    assert (a.read_at, a.problem) == (scheduler.clock(), None)
    assert (b.read_at, b.problem, b.confirmed_at) == (None, "the table web.b does not exist", scheduler.clock())
    assert explained(scheduler).trigger.problem == "the table web.b does not exist"
    said = explained(scheduler).sentences()
    assert "Its trigger cannot be satisfied at present: the table web.b does not exist." in said
    assert any(line.startswith("The table web.b does not exist (found at ") for line in said)

    create(lake, "b")
    poll(scheduler, poller)
    assert [source.problem for source in explained(scheduler).sources] == [None, None]
    assert explained(scheduler).trigger.problem is None


def test_a_table_that_cannot_be_read_keeps_its_last_reading_and_shows_the_error(
    scheduler: Any, poller: Poller, lake: CatalogConfig, store: Store
) -> None:
    create(lake, "a")
    scheduler.declare("joined", CommitsAdded("web.a"))
    poll(scheduler, poller)
    read_at = scheduler.clock()

    def down() -> NoReturn:
        raise ConnectionError("no route to the catalog")

    scheduler.clock.move(minutes=2)
    with pytest.raises(ConnectionError):
        Poller(store, catalog_name="lake", broker=Broker(down)).step()
    (a,) = explained(scheduler).sources
    assert (a.read_at, a.confirmed_at) == (read_at, scheduler.clock())
    assert a.problem == "the table web.a cannot be read: ConnectionError: no route to the catalog"
    poll(scheduler, poller)
    assert explained(scheduler).sources[0].problem is None


@pytest.mark.one_database
def test_partitions_of_a_table_without_partitions(scheduler: Any, poller: Poller, lake: CatalogConfig) -> None:
    create(lake, "a", partitioned=False)
    scheduler.declare("five", PartitionsAdded("web.a", 5))
    scheduler.declare("one", PartitionsAdded("web.a", 1))
    scheduler.declare("commits", CommitsAdded("web.a", 5))
    poll(scheduler, poller)
    problem = "the table web.a is not partitioned, so all of its data counts as one partition"
    assert (explained(scheduler, "five").trigger.problem, explained(scheduler, "five").sources[0].problem) == (problem, problem)
    assert (explained(scheduler, "one").trigger.problem, explained(scheduler, "one").sources[0].problem) == (None, problem)
    assert (explained(scheduler, "commits").trigger.problem, explained(scheduler, "commits").sources[0].problem) == (None, None)

    table = lake.load().load_table(("web", "a"))
    with table.update_spec() as update:
        update.add_identity("n")
    poll(scheduler, poller)
    assert explained(scheduler, "five").trigger.problem is None


@pytest.mark.parametrize("kind", [RunsSucceeded, RunsFailed])
def test_a_dag_that_is_gone_is_named_and_blocks_every_and_that_needs_it(scheduler: Any, kind: Any) -> None:
    gone, there = kind("gone"), CustomEvents("go")
    triggers = {
        "alone": gone,
        "both": gone & there,
        "either": gone | there,
        "nested": (gone & there) | Since(gone, "1h"),
        "at_latest": (gone & there).at_latest(Cron("0 7 * * *")),
    }
    for name, trigger in triggers.items():
        scheduler.declare(name, trigger)
    scheduler.airflow.gone = {"gone"}
    ends = RunEnds(scheduler.store, scheduler.airflow)
    ends.step()
    problem = "the DAG gone does not exist"
    blocked = {name: explained(scheduler, name).trigger.problem for name in triggers}
    assert blocked == {"alone": problem, "both": problem, "either": None, "nested": problem, "at_latest": None}
    assert explained(scheduler, "either").trigger.parts[0].problem == problem
    assert any(line.startswith("The DAG gone does not exist (found at ") for line in explained(scheduler, "either").sentences())

    scheduler.airflow.gone.clear()
    scheduler.clock.move(minutes=2)
    ends.step()
    assert explained(scheduler, "both").trigger.problem is None


@pytest.mark.one_database
def test_the_dag_that_a_schedule_starts_is_named_when_it_is_missing(scheduler: Any) -> None:
    scheduler.declare("joined", CustomEvents("go"), MaxConcurrent(1), dag_id="gone")
    scheduler.airflow.gone = {"gone"}
    RunEnds(scheduler.store, scheduler.airflow).step()
    assert [source.problem for source in explained(scheduler).sources] == ["the DAG gone, which it starts, does not exist"]
    assert explained(scheduler).trigger.problem is None


@pytest.mark.one_database
def test_what_was_wrong_with_a_source_that_nobody_listens_to_is_forgotten(scheduler: Any, poller: Poller) -> None:
    scheduler.declare("joined", CommitsAdded("web.b"))
    poll(scheduler, poller)
    scheduler.schedules.suspend("joined")
    scheduler.clock.move(days=91)
    forget_old(scheduler.store)
    scheduler.schedules.resume("joined")
    assert [source.problem for source in explained(scheduler).sources] == [None]


def test_a_problem_is_written_when_it_is_news_and_once_a_minute_while_it_lasts(scheduler: Any, poller: Poller) -> None:
    scheduler.declare("joined", CommitsAdded("web.b"))
    poll(scheduler, poller)
    first = explained(scheduler).sources[0].confirmed_at
    scheduler.clock.move(seconds=20)
    poller.step()
    assert explained(scheduler).sources[0].confirmed_at == first
    scheduler.clock.move(seconds=50)
    poller.step()
    assert explained(scheduler).sources[0].confirmed_at == first + timedelta(seconds=70)


def test_no_scheduler_is_said_until_one_works_and_again_when_it_is_gone(scheduler: Any) -> None:
    scheduler.declare("joined", CustomEvents("go"))
    assert explained(scheduler).sentences()[1] == (
        "No scheduler is running: none has run on this store. "
        "Unpause the DAG snowpack_dispatcher, or run `airflow snowpack scheduler`."
    )
    EventIntake(scheduler.store).step()
    seen_at = scheduler.clock()
    assert (explained(scheduler).scheduler_is_alive, explained(scheduler).scheduler_seen_at) == (True, seen_at)
    assert "No scheduler" not in str(explained(scheduler))
    scheduler.clock.move(minutes=6)
    assert f"the last one ran at {seen_at:%Y-%m-%d %H:%M:%S} UTC" in str(explained(scheduler))
    assert ExplanationShape.encode(explained(scheduler))["scheduler"]["is_alive"] is False


@pytest.mark.one_database
def test_a_suspended_schedule_has_no_sources_that_anybody_reads(scheduler: Any, poller: Poller) -> None:
    scheduler.declare("joined", CommitsAdded("web.b"))
    poll(scheduler, poller)
    scheduler.schedules.suspend("joined")
    assert explained(scheduler).sources == ()


@pytest.mark.one_database
def test_a_table_whose_storage_hangs_is_set_aside_and_named_and_the_others_start_their_runs(
    scheduler: Any, poller: Poller, lake: CatalogConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("stuck", "well"):
        create(lake, name)
        scheduler.declare(name, CommitsAdded(f"web.{name}"))
    poll(scheduler, poller)
    for name in ("stuck", "well"):
        lake.load().load_table(("web", name)).append(pa.table({"n": pa.array([1], pa.int32())}))
    released, seconds, read_metadata = Event(), [0.0], broker._read_metadata

    def hang(catalog: Any, name: TableName, location: str) -> Any:
        assert name.table != "stuck" or released.wait(PATIENCE_S)
        return read_metadata(catalog, name, location)

    def record(*arguments: Any) -> int:
        seconds[0] += 3600  # whatever is still being read now exceeds its limit
        return published(*arguments)

    monkeypatch.setattr(broker, "_read_metadata", hang)
    impatient = Poller(scheduler.store, catalog_name="lake", broker=broker.Broker(lake.load, monotonic=lambda: seconds[0]))
    published = impatient._record
    monkeypatch.setattr(impatient, "_record", record)
    try:
        scheduler.clock.move(minutes=2)
        report = impatient.step()
        assert (report.tables, report.events) == (2, 1)
        assert report.problems.keys() == {"lake.web.stuck"}
        assert explained(scheduler, "stuck").sources[0].problem == (
            "the table web.stuck cannot be read: The storage of web.stuck did not answer within 30 s. It is set aside, and tried "
            "again after 1 min"
        )
        assert explained(scheduler, "well").sources[0].problem is None
        assert read_unreadable(scheduler.store).keys() == {"lake.web.stuck"}
        scheduler.clock.move(minutes=2)
        assert impatient.step().problems.keys() == {"lake.web.stuck"}, "at once: it does not read it again"
    finally:
        released.set()
    for _ in range(100):  # what it read arrives with a later round
        scheduler.clock.move(minutes=2)
        if impatient.step().events:
            break
    assert explained(scheduler, "stuck").sources[0].problem is None
    assert read_unreadable(scheduler.store) == {}
