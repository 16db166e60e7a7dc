"""What is committed to real tables reaches the schedules that listen to them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import sqlalchemy as sa
from counted_reads import counted_reads
from rest_catalog import rest_catalog

from airflow_snowpack.iceberg import CatalogConfig, CatalogUnreachable, TableName
from airflow_snowpack.iceberg.broker import Broker
from airflow_snowpack.scheduling import CommitsAdded, EventLog, Poller, RecordsAdded, Schedule, explain
from airflow_snowpack.scheduling.sources.poller import period_of
from airflow_snowpack.scheduling.sources.source import read_table_lag
from airflow_snowpack.store import Store
from airflow_snowpack.store.tables.schedules import table_places

if TYPE_CHECKING:
    from pyiceberg.table import Table


@pytest.fixture
def lake(tmp_path: Path) -> CatalogConfig:
    config = CatalogConfig.embedded(tmp_path / "lake")
    config.load().create_namespace("web")
    return config


@pytest.fixture
def views(lake: CatalogConfig) -> Table:
    return lake.load().create_table(("web", "page_views"), rows().schema)


@pytest.fixture
def poller(store: Store, lake: CatalogConfig) -> Poller:
    return Poller(store, catalog_name="lake", broker=Broker(lake.load))


@pytest.fixture(autouse=True)
def _now(clock: Any) -> None:
    """Tables are stamped with the real time."""
    clock.now = datetime.now(UTC)


def rows(number: int = 1) -> Any:
    return pa.table({"n": pa.array([1] * number, pa.int32())})


def listen(scheduler: Any, table: str = "web.page_views") -> None:
    schedule = Schedule("counted", dag_id="maintain", trigger=RecordsAdded(table, 5) | CommitsAdded(table, 3), enabled=True)
    scheduler.schedules.create(schedule)


def look_again(scheduler: Any, poller: Poller) -> int:
    scheduler.clock.now = max(scheduler.clock.now + timedelta(seconds=11), datetime.now(UTC))
    return poller.step().events


@pytest.mark.one_database
def test_commits_become_events_and_events_a_run(scheduler: Any, poller: Poller, views: Table) -> None:
    listen(scheduler)
    views.append(rows(2))
    assert poller.step().events == 1
    scheduler.work()
    assert scheduler.started == []

    views.append(rows(3))
    assert look_again(scheduler, poller) == 1
    scheduler.work()
    (launch,) = scheduler.started
    assert [event["detail"]["operation"] for event in launch.conf["snowpack"]["events"]] == ["append", "append"]


@pytest.mark.parametrize("beside_gains", [True, False])
def test_a_trigger_that_counts_changes_starts_a_run_after_a_delete(
    scheduler: Any, poller: Poller, views: Table, *, beside_gains: bool
) -> None:
    if beside_gains:
        listen(scheduler)
    changed = CommitsAdded("web.page_views", counting="changes") & RecordsAdded("web.page_views", 3, counting="changes")
    scheduler.schedules.create(Schedule("changed", dag_id="recompute", trigger=changed, enabled=True))
    views.append(rows(1))
    poller.step()
    scheduler.work()
    assert scheduler.started == []
    explanation = explain(scheduler.schedules, "changed")
    assert explanation.trigger.text.endswith("1 of 3 records of web.page_views, counting changes")

    views.append(rows(1))
    views.delete("n = 1")
    look_again(scheduler, poller)
    scheduler.work()
    (launch,) = scheduler.started
    assert launch.dag_id == "recompute"
    assert [event["detail"]["operation"] for event in launch.conf["snowpack"]["events"]] == ["append", "append", "delete"]


@pytest.mark.one_database
def test_a_table_is_read_for_its_changes_as_for_its_arrivals(scheduler: Any, poller: Poller, lake: CatalogConfig) -> None:
    trigger = CommitsAdded("web.gone", counting="changes")
    scheduler.schedules.create(Schedule("changed", dag_id="recompute", trigger=trigger, enabled=True))
    assert list(poller.step().problems) == ["lake.web.gone"]
    assert scheduler.schedules.of_table(TableName("lake", "web", "gone")) == ["changed"]
    assert explain(scheduler.schedules, "changed").trigger.problem == "the table web.gone does not exist"

    lake.load().create_table(("web", "gone"), rows().schema)
    look_again(scheduler, poller)
    scheduler.clock.move(minutes=5)
    assert read_table_lag(scheduler.store) > timedelta(minutes=4)
    assert explain(scheduler.schedules, "changed").trigger.problem is None


@pytest.mark.one_database
def test_what_was_committed_before_anybody_listened_does_not_count(
    scheduler: Any, poller: Poller, views: Table, clock: Any
) -> None:
    views.append(rows(9))
    clock.now = datetime.now(UTC) + timedelta(seconds=1)
    listen(scheduler)

    assert poller.step().events == 0


@pytest.mark.one_database
def test_a_table_that_nobody_listens_to_is_not_opened(scheduler: Any, poller: Poller, views: Table) -> None:
    views.append(rows())
    assert poller.step().tables == 0


@pytest.mark.one_database
def test_a_table_that_cannot_be_read_is_named_and_keeps_no_other_from_being_read(
    scheduler: Any, poller: Poller, views: Table
) -> None:
    listen(scheduler)
    scheduler.schedules.create(Schedule("ghost", dag_id="maintain", trigger=CommitsAdded("web.gone"), enabled=True))
    views.append(rows())

    report = poller.step()
    assert report.events == 1
    assert "web.gone" in report.problems["lake.web.gone"]


@pytest.mark.one_database
def test_an_arrival_that_cannot_be_recorded_keeps_no_other_from_being_recorded(
    scheduler: Any, poller: Poller, views: Table, lake: CatalogConfig
) -> None:
    strange = lake.load().create_table(("web", "strange"), rows().schema)
    listen(scheduler)
    scheduler.schedules.create(Schedule("strange", dag_id="maintain", trigger=CommitsAdded("web.strange"), enabled=True))
    views.append(rows())
    strange.append(rows())
    metadata = Path(strange.metadata_location.removeprefix("file://"))
    metadata.write_text(metadata.read_text().replace('"total-records":"1"', f'"total-records":"{10**20}"'))

    report = poller.step()
    assert report.events == 1
    assert "too large" in report.problems["lake.web.strange"]
    assert any("too large" in line for line in explain(scheduler.schedules, "strange").sentences())


def test_a_table_that_is_not_there_is_asked_for_again_only_after_the_period(scheduler: Any, poller: Poller, lake: Any) -> None:
    listen(scheduler, "web.later")
    assert list(poller.step().problems) == ["lake.web.later"]
    assert poller.step().tables == 0

    later = lake.load().create_table(("web", "later"), rows().schema)
    later.append(rows())
    assert look_again(scheduler, poller) == 1


@pytest.mark.one_database
def test_of_more_tables_than_one_step_reads_the_one_that_waited_longest_comes_first(
    scheduler: Any, store: Store, lake: CatalogConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_snowpack.scheduling.sources.poller.TABLES_PER_ROUND", 1)
    names = ["a", "b", "c"]
    for name in names:
        lake.load().create_table(("web", name), rows().schema)
        scheduler.declare(name, CommitsAdded(f"web.{name}"))
    read: list[str] = []
    poller = Poller(store, catalog_name="lake", broker=Broker(lake.load), every=timedelta(0))
    for _ in range(6):
        scheduler.clock.move(seconds=1)
        poller.step()
        query = sa.select(table_places.c.table_key).where(table_places.c.read_at == scheduler.clock())
        read += store.read(lambda conn, query=query: conn.execute(query).scalars().all())
    assert read == [f"lake.web.{name}" for name in names] * 2


@pytest.mark.one_database
def test_once_a_table_was_read_a_writer_may_be_as_slow_as_it_likes(scheduler: Any, poller: Poller, views: Table) -> None:
    """What is new at a read has arrived since the read before, whatever the writer's clock says."""
    listen(scheduler)
    poller.step()
    scheduler.clock.now += timedelta(hours=1)  # by which the writer is slow
    scheduler.change("counted")
    scheduler.clock.now += timedelta(seconds=11)
    assert poller.step().events == 0
    views.append(rows(5))
    scheduler.clock.now += timedelta(seconds=11)
    assert poller.step().events == 1
    scheduler.work()
    assert len(scheduler.started) == 1


@pytest.mark.one_database
def test_an_audited_branch_starts_a_run_when_it_is_published(scheduler: Any, poller: Poller, views: Table) -> None:
    """Main had a newer commit, which was read and rolled back."""
    views.append(rows())
    base = views.metadata.current_snapshot_id
    assert base is not None
    listen(scheduler)
    poller.step()
    scheduler.clock.now = datetime.now(UTC)
    scheduler.change("counted")
    views.manage_snapshots().create_branch(base, "audit").commit()
    views.refresh().append(rows(5), branch="audit")
    views.append(rows(2))
    assert look_again(scheduler, poller) == 1
    views.manage_snapshots().rollback_to_snapshot(base).commit()
    assert look_again(scheduler, poller) == 0

    views.refresh().manage_snapshots().set_current_snapshot(ref_name="audit").commit()
    assert look_again(scheduler, poller) == 1
    assert look_again(scheduler, poller) == 0
    scheduler.work()
    (launch,) = scheduler.started
    assert [event["amounts"]["records"] for event in launch.conf["snowpack"]["events"]] == [2, 5]


def test_a_table_that_is_dropped_and_made_again_is_heard_from_its_beginning(
    scheduler: Any, poller: Poller, views: Table, lake: CatalogConfig
) -> None:
    listen(scheduler)
    for _ in range(3):
        views.append(rows())
    assert poller.step().events == 3

    lake.load().drop_table(("web", "page_views"))
    again = lake.load().create_table(("web", "page_views"), rows().schema)
    assert look_again(scheduler, poller) == 0
    again.append(rows())
    assert look_again(scheduler, poller) == 1
    again.append(rows())
    assert look_again(scheduler, poller) == 1


@pytest.mark.one_database
def test_snapshots_that_were_expired_during_an_outage_are_events_too(scheduler: Any, poller: Poller, views: Table) -> None:
    listen(scheduler)
    views.append(rows())
    poller.step()
    views.append(rows())
    missed = views.metadata.current_snapshot_id
    views.append(rows())
    assert missed is not None
    views.maintenance.expire_snapshots().by_id(missed).commit()

    assert look_again(scheduler, poller) == 2
    newest, expired, _ = EventLog(scheduler.store).latest(limit=3)
    assert (newest.event.detail["operation"], expired.event.detail["operation"]) == ("append", "expired")
    assert (expired.event.amounts["records"], expired.event.detail["snapshot_id"]) == (1, missed)
    assert expired.event.detail["expired_before"] == 1
    scheduler.work()
    assert len(scheduler.started) == 1


def create(lake: CatalogConfig, scheduler: Any, *names: str) -> list[Table]:
    """Tables with a schedule each."""
    catalog = lake.load()
    for name in names:
        scheduler.declare(name, CommitsAdded(f"web.{name}"))
    return [catalog.create_table(("web", name), rows().schema) for name in names]


@pytest.mark.parametrize("number", [2, 12])
def test_a_round_without_changes_costs_the_same_for_any_number_of_tables(
    scheduler: Any, store: Store, lake: CatalogConfig, number: int
) -> None:
    tables = create(lake, scheduler, *(f"t{each}" for each in range(number)))
    poller = Poller(store, catalog_name="lake", broker=Broker(lake.load))
    poller.step()

    scheduler.clock.move(seconds=11)
    with counted_reads() as reads:
        assert poller.step().tables == number
    assert (len(reads.of_catalog), len(reads.of_store), reads.transactions, reads.metadata) == (1, 2, 0, []), (
        "the locations of all tables; which are due, and one UPDATE"
    )

    tables[0].append(rows())
    scheduler.clock.move(seconds=11)
    with counted_reads() as reads:
        assert poller.step().events == 1
    assert reads.metadata == [tables[0].metadata_location]
    assert len(reads.manifests) == 1


def test_another_poller_does_not_read_again_what_one_has_read(
    scheduler: Any, poller: Poller, lake: CatalogConfig, views: Table, store: Store
) -> None:
    listen(scheduler)
    views.append(rows())
    assert poller.step().events == 1
    scheduler.clock.move(seconds=11)
    with counted_reads() as reads:
        restarted = Poller(store, catalog_name="lake", broker=Broker(lake.load)).step()
    assert (restarted.tables, restarted.events, reads.metadata) == (1, 0, [])


@pytest.mark.one_database
def test_a_problem_ends_when_the_table_can_be_read_again_although_it_has_not_changed(
    scheduler: Any, poller: Poller, views: Table
) -> None:
    listen(scheduler)
    poller.step()
    views.append(rows())
    file = Path(views.metadata_location.removeprefix("file://"))
    away = file.rename(file.with_suffix(".away"))
    look_again(scheduler, poller)
    assert any("cannot be read" in line for line in explain(scheduler.schedules, "counted").sentences())

    away.rename(file)
    assert look_again(scheduler, poller) == 1
    assert not any("cannot be read" in line for line in explain(scheduler.schedules, "counted").sentences())


@pytest.mark.parametrize(
    ("since_commit", "period"),
    [(-60, 10), (0, 10), (199, 10), (200, 20), (599, 50), (600, 60), (86_400, 60)],
)
def test_the_period_of_a_table_follows_the_time_since_its_last_commit(since_commit: int, period: int) -> None:
    now = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
    found = period_of(now - timedelta(seconds=since_commit), now, timedelta(seconds=10))
    assert found == timedelta(seconds=period)


@pytest.mark.one_database
def test_a_quiet_table_is_read_less_often_until_it_changes(scheduler: Any, poller: Poller, views: Table) -> None:
    views.append(rows())
    listen(scheduler)
    poller.step()

    def rounds_within(seconds: int) -> int:
        found = 0
        for _ in range(seconds // 10):
            scheduler.clock.move(seconds=10)
            found += poller.step().tables
        return found

    assert rounds_within(120) == 12
    scheduler.clock.move(hours=1)
    poller.step()
    assert rounds_within(120) == 2

    views.append(rows())
    scheduler.clock.move(minutes=1)
    assert poller.step().events == 1


def test_a_quiet_table_is_due_at_once_when_one_of_its_schedules_is_changed(
    scheduler: Any, poller: Poller, views: Table, store: Store
) -> None:
    """Until it is read, a commit of a slow writer may look older than the change, and would not count."""
    views.append(rows())
    listen(scheduler)
    scheduler.clock.move(hours=3)
    assert poller.step().tables == 1
    scheduler.clock.move(seconds=11)
    assert poller.step().tables == 0

    scheduler.change("counted")
    assert poller.step().tables == 1
    assert poller.step().tables == 0


def test_the_lag_is_how_long_the_most_overdue_table_has_been_due(
    scheduler: Any, poller: Poller, lake: CatalogConfig, store: Store
) -> None:
    assert read_table_lag(store) == timedelta(0), "no schedule listens to a table"
    create(lake, scheduler, "a", "b")
    scheduler.declare("ghost", CommitsAdded("web.gone"))
    poller.step()
    assert read_table_lag(store) == timedelta(0)
    scheduler.clock.move(seconds=9)
    assert read_table_lag(store) == timedelta(0), "they are not due"
    scheduler.clock.move(minutes=5)
    assert read_table_lag(store) == timedelta(minutes=4, seconds=59), "a table that does not exist is not overdue"
    poller.step()
    assert read_table_lag(store) == timedelta(0)


@pytest.mark.one_database
def test_a_schedule_of_a_table_to_which_none_has_listened_for_long_begins_at_its_head(
    scheduler: Any, poller: Poller, views: Table
) -> None:
    listen(scheduler)
    views.append(rows())
    assert poller.step().events == 1
    scheduler.schedules.delete("counted")
    for _ in range(3):
        views.append(rows())

    scheduler.clock.now = datetime.now(UTC) + timedelta(days=2)
    listen(scheduler)
    with counted_reads() as reads:
        assert poller.step().events == 0
    assert (len(reads.metadata), reads.manifests) == (1, []), "a year of history would be a year of manifests"


@pytest.mark.one_database
def test_an_outage_of_a_rest_catalog_is_one_error_and_one_transaction_however_many_tables_it_has(
    scheduler: Any, store: Store
) -> None:
    with rest_catalog() as rest:
        rest.tables = {("web",): ["a", "b", "c"]}
        for name in ("a", "b", "c"):
            scheduler.declare(name, CommitsAdded(f"web.{name}"))
        poller = Poller(store, catalog_name="lake", broker=Broker(CatalogConfig.rest("lake", rest.url).load))
        assert (poller.step().tables, poller.step().tables) == (3, 0)

        scheduler.clock.move(seconds=11)
        rest.answer = "outage"
        with counted_reads() as reads, pytest.raises(CatalogUnreachable):
            poller.step()
        assert reads.transactions == 1
        assert all("cannot be reached" in str(explain(scheduler.schedules, name).sentences()) for name in ("a", "b", "c"))
        assert poller.step().tables == 0, "it is asked again after the period"

        rest.answer = "well"
        scheduler.clock.move(seconds=11)
        assert poller.step().problems == {}
        assert not any("cannot be reached" in str(explain(scheduler.schedules, name).sentences()) for name in ("a", "b", "c"))
