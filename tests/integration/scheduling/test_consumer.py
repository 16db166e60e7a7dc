"""A consumer inside of a DAG passes nothing over, whenever what happened comes to be seen."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pytest

from airflow_snowpack.iceberg import CatalogConfig, TableName, TableNotFound, load_table
from airflow_snowpack.scheduling import CommitsAdded, Cron, CustomEvents, Every, RecordsAdded
from airflow_snowpack.scheduling.sources.consumer import Consumer
from airflow_snowpack.scheduling.triggers.trigger import Trigger
from airflow_snowpack.store import Store

pytestmark = pytest.mark.one_database

GO = CustomEvents("go")


def no_table(_: TableName) -> NoReturn:
    raise AssertionError("no table is asked for")


def consumer(store: Store, trigger: Trigger = GO) -> Consumer:
    """A new object, as each try of a task makes one."""
    return Consumer(store, "report", trigger, catalog_name="lake")


def passes(store: Store, owner: str, trigger: Trigger = GO) -> bool:
    mine = consumer(store, trigger)
    look = mine.look(owner, no_table)
    return look.satisfied and mine.consider(owner, look)


def test_an_event_that_is_stamped_before_a_look_and_seen_after_it_counts(scheduler: Any, store: Store) -> None:
    """Whoever publishes reads his clock before it is his turn, and it may be another host's clock."""
    assert not passes(store, "run1")
    scheduler.clock.move(seconds=10)
    scheduler.send("go")
    assert passes(store, "run1")
    scheduler.clock.move(seconds=-5)
    scheduler.send("go")
    scheduler.clock.move(hours=5)
    assert passes(store, "run2")
    assert not passes(store, "run3"), "and once"


@pytest.mark.parametrize(("trigger", "minutes"), [(Every("10m"), 10), (Cron("*/5 * * * *"), 5), (GO, 0)])
def test_each_look_may_be_another_object(scheduler: Any, store: Store, trigger: Trigger, minutes: int) -> None:
    assert not passes(store, "run1", trigger)
    scheduler.clock.move(minutes=minutes)
    scheduler.send("go")
    assert passes(store, "run1", trigger)


def test_a_deadline_lets_one_run_of_each_period_pass(scheduler: Any, store: Store) -> None:
    morning = GO.at_latest(Cron("0 7 * * *"))
    assert not passes(store, "saturday", morning)
    scheduler.clock.move(hours=19)
    assert passes(store, "saturday", morning), "07:00 on Sunday"
    scheduler.clock.move(minutes=1)
    assert passes(store, "saturday", morning), "and a retry of the same run"
    assert not passes(store, "sunday", morning)
    scheduler.send("go")
    assert passes(store, "sunday", morning), "data that arrives before the deadline"
    scheduler.clock.move(hours=24)
    assert not passes(store, "monday", morning), "the period up to 07:00 on Monday has had its run"
    scheduler.clock.move(hours=24)
    assert passes(store, "monday", morning)


def test_a_deadline_that_is_added_to_a_trigger_begins_with_the_next_period(scheduler: Any, store: Store) -> None:
    assert not passes(store, "run1")
    scheduler.send("go")
    assert passes(store, "run1")
    scheduler.clock.move(hours=20)
    morning = GO.at_latest(Cron("0 7 * * *"))
    assert not passes(store, "run2", morning)
    scheduler.clock.move(hours=24)
    assert passes(store, "run2", morning)


def test_what_came_while_the_first_run_waited_in_vain_stays_new(scheduler: Any, store: Store) -> None:
    both = CustomEvents("go", 2)
    assert not passes(store, "run1", both)
    scheduler.send("go")
    assert not passes(store, "run1", both)
    scheduler.clock.move(hours=24)
    scheduler.send("go")
    assert passes(store, "run2", both)


def test_a_cleared_run_counts_again_until_another_has_passed(scheduler: Any, store: Store) -> None:
    assert not passes(store, "run1")
    for run in ("run1", "run2"):
        scheduler.clock.move(minutes=1)
        scheduler.send("go")
        assert passes(store, run)
        assert passes(store, run), "its work may not have been done"
    assert not passes(store, "run1")


def test_a_consumer_of_changes_passes_after_a_delete_and_reports_it_beside_what_arrived(
    scheduler: Any, store: Store, tmp_path: Path
) -> None:
    catalog = CatalogConfig.embedded(tmp_path).load()
    catalog.create_namespace("web")
    rows = pa.table({"n": [1, 2]})
    views = catalog.create_table(("web", "views"), rows.schema)
    views.append(rows)
    trigger = RecordsAdded("web.views", 2, counting="changes")
    scheduler.clock.now = datetime.now(UTC)
    assert not consumer(store, trigger).look("run1", partial(load_table, catalog)).satisfied

    views.delete("n > 0")
    look = consumer(store, trigger).look("run1", partial(load_table, catalog))
    assert look.satisfied
    assert {name: amounts["records"] for name, amounts in look.amounts.items()} == {
        "lake.web.views": 0,
        "lake.web.views:changes": 2,
    }


def test_what_arrives_after_a_first_look_that_found_no_table_counts(scheduler: Any, store: Store, tmp_path: Path) -> None:
    catalog = CatalogConfig.embedded(tmp_path).load()
    catalog.create_namespace("web")
    rows = pa.table({"n": [1]})
    old = catalog.create_table(("web", "old"), rows.schema)
    old.append(rows)
    trigger = CommitsAdded("web.old") & CommitsAdded("web.new")
    scheduler.clock.now = datetime.now(UTC)

    with pytest.raises(TableNotFound):
        consumer(store, trigger).look("run1", partial(load_table, catalog))
    for table in (old, catalog.create_table(("web", "new"), rows.schema)):
        table.append(rows)
    scheduler.clock.now = datetime.now(UTC)
    look = consumer(store, trigger).look("run1", partial(load_table, catalog))

    assert look.satisfied
    assert {name: amounts["commits"] for name, amounts in look.amounts.items()} == {"lake.web.old": 1, "lake.web.new": 1}
    assert consumer(store, trigger).look("run1", partial(load_table, catalog)).amounts == look.amounts
