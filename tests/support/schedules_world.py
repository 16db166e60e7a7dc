"""Schedules in every state, for the tests of their API and their pages.

    made = make_schedules(world)
    made.work()

Everything was written by the domain's own calls; only Airflow is not there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_snowpack.scheduling import (
    Checker,
    CustomEvents,
    DagRuns,
    Delay,
    EndsFound,
    Event,
    EventLog,
    Launcher,
    MaxConcurrent,
    NotStarted,
    Runs,
    Schedule,
    Schedules,
    Subscriber,
    parse_trigger,
)
from airflow_snowpack.store import Actor
from airflow_snowpack.store.schedule_tables import schedules

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pages_world import World

    from airflow_snowpack.scheduling import EndsAsked, Launch

VIEWS = "table:lake.analytics.page_views"
PAUSED = "the DAG maintain_paused is paused"


@dataclass
class Airflow:
    """An Airflow that takes every run but those of a DAG that is paused."""

    started: list[Launch] = field(default_factory=list)

    def dag_runs(self, known: Mapping[str, frozenset[str]]) -> Mapping[str, DagRuns]:
        return {dag_id: DagRuns() for dag_id in known}

    def ended_runs(self, asked: Sequence[EndsAsked]) -> Mapping[str, EndsFound]:
        return {one.dag_id: EndsFound() for one in asked}

    def free_slots(self, pools: Iterable[str]) -> Mapping[str, int | None]:
        return dict.fromkeys(pools)

    def start(self, launch: Launch) -> NotStarted | None:
        if launch.dag_id == "maintain_paused":
            return NotStarted(PAUSED)
        self.started.append(launch)
        return None


class Made:
    """The schedules, and the parts that move them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.airflow = Airflow()
        self.schedules = Schedules(world.store, catalog="lake", actor=Actor("jana", "api"))
        self.log = EventLog(world.store)

    def create(self, name: str, trigger: Any, **more: Any) -> None:
        said: dict[str, Any] = {"name": name, "dag_id": "maintain_page_views", "trigger": parse_trigger(trigger), "enabled": True}
        self.schedules.create(Schedule(**(said | more)))

    def arrive(self, partitions: int, size: int = 0) -> None:
        """A commit to ``analytics.page_views``."""
        self.log.publish([Event(VIEWS, self.world.clock(), {"partitions": partitions, "bytes": size})])

    def work(self) -> None:
        while Subscriber(self.world.store).step():
            pass
        Checker(self.world.store, self.airflow).step()
        Launcher(self.world.store, self.airflow, "test").step()

    def overwrite(self, name: str, definition: object) -> None:
        """Store something else under its name, as a newer version would."""
        change = sa.update(schedules).where(schedules.c.name == name).values(definition=definition)
        self.world.store.transact(lambda conn: conn.execute(change))

    def end_runs(self, state: str = "success") -> None:
        for launch in self.airflow.started:
            Runs(self.world.store).ended(launch.dag_id, launch.run_id, state, self.world.clock())


def make_schedules(world: World) -> Made:
    """One that counts, one that waits out a delay, one that cannot start, one that has launched, and a suspended one."""
    made = Made(world)
    counts = {"partitions_added": {"table": "analytics.page_views", "count": 5}}
    size = {"bytes_added": {"table": "analytics.page_views", "size": "100GB"}}
    made.create("counts", {"any_of": [{"all_of": [counts, size]}, {"every": {"period": "4h"}}]}, priority=5)
    made.create("is_delayed", {"partitions_added": "analytics.page_views"}, constraints=[Delay("10m"), MaxConcurrent(2)])
    made.create("cannot_start", {"partitions_added": "analytics.page_views"}, dag_id="maintain_paused")
    made.create("launched", CustomEvents("orders_closed"), constraints=[Delay("5m")], description="After the shop has closed.")
    made.create("suspended", {"cron": {"expression": "0 2 * * *", "tz": "Europe/Berlin"}}, enabled=False)
    made.log.publish([Event("event:orders_closed", world.clock(), {"records": 900}, {"by": "shop"}, "sent:orders_closed:1")])
    made.work()
    world.clock.move(minutes=6)
    made.work()
    made.end_runs()
    world.clock.move(minutes=1)
    made.arrive(3, 41_000_000_000)
    made.work()
    return made
