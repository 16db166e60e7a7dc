"""What is committed to real tables reaches the schedules that listen to them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.scheduling import CommitsAdded, EventLog, Poller, RecordsAdded, Schedule

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table

    from airflow_snowpack.iceberg import TableName
    from airflow_snowpack.store import Store


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
    return Poller(store, catalog_name="lake", load_catalog=lake.load)


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


def test_a_table_that_is_not_there_is_asked_for_again_only_after_the_period(scheduler: Any, poller: Poller, lake: Any) -> None:
    listen(scheduler, "web.later")
    assert list(poller.step().problems) == ["lake.web.later"]
    assert poller.step().tables == 0

    later = lake.load().create_table(("web", "later"), rows().schema)
    later.append(rows())
    assert look_again(scheduler, poller) == 1


@pytest.mark.one_database
def test_of_more_tables_than_one_step_reads_the_one_that_waited_longest_comes_first(
    scheduler: Any, store: Store, lake: CatalogConfig, views: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_snowpack.scheduling.poller.NO_WIDER_THAN", 1)
    names = ["a", "b", "c"]
    for name in names:
        lake.load().create_table(("web", name), rows().schema)
        scheduler.declare(name, CommitsAdded(f"web.{name}"))
    read: list[str] = []

    def load(_: Any, name: TableName) -> Table:
        read.append(name.dotted)
        return views

    monkeypatch.setattr("airflow_snowpack.scheduling.poller.load_table", load)
    poller = Poller(store, catalog_name="lake", load_catalog=lake.load, every=timedelta(0))
    for _ in range(6):
        scheduler.clock.forward(seconds=1)
        poller.step()
    assert read == [f"web.{name}" for name in names] * 2


@pytest.mark.one_database
def test_once_a_table_was_read_a_writer_may_be_as_slow_as_it_likes(scheduler: Any, poller: Poller, views: Table) -> None:
    """What is new at a read has arrived since the read before, whatever the writer's clock says."""
    listen(scheduler)
    poller.step()
    scheduler.clock.now += timedelta(hours=1)  # by which the writer is slow
    scheduler.schedules.update(scheduler.schedules.get("counted").schedule)
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
    scheduler.schedules.update(scheduler.schedules.get("counted").schedule)
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


@pytest.mark.one_database
def test_a_table_is_read_anew_only_after_the_period(scheduler: Any, poller: Poller, views: Table) -> None:
    listen(scheduler)
    assert poller.step().tables == 1
    assert poller.step().tables == 0


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
