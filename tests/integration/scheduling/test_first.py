from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.scheduling import PartitionsAdded, Schedule

if TYPE_CHECKING:
    from conftest import Scheduler


def test_five_partitions_start_one_run_that_lists_its_events(scheduler: Scheduler) -> None:
    scheduler.schedules.create(
        Schedule("nightly", dag_id="maintain", trigger=PartitionsAdded("web.page_views", 5), conf={"table": "x"}, enabled=True)
    )
    scheduler.arrive(partitions=4)
    scheduler.work()
    assert scheduler.started == []

    scheduler.arrive(partitions=1)
    scheduler.work()
    (launch,) = scheduler.started
    assert launch.dag_id == "maintain"
    assert launch.conf["table"] == "x"
    assert launch.conf["snowpack"]["event_count"] == 2
    scheduler.work()
    assert len(scheduler.started) == 1
