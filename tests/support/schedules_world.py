"""Schedules in every state, for the tests of their API and their pages.

    made = make_schedules(world)
    made.work()

Everything was written by the domain's own calls; only Airflow is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from pages_world import World

from airflow_snowpack.scheduling import (
    CustomEvents,
    Delay,
    Event,
    EventLog,
    MaxConcurrent,
    PoolSlots,
    RegisteredRun,
    RegisteredRuns,
    Runs,
    Schedule,
    Schedules,
    SinceLastRun,
    TimeWindow,
    parse_trigger,
    send_event,
)
from airflow_snowpack.scheduling.airflow_port import DagRuns, EndsFound, EndsQuery, Launch, NotStarted
from airflow_snowpack.scheduling.events.clocks import Clocks
from airflow_snowpack.scheduling.events.event_intake import Subscriber
from airflow_snowpack.scheduling.launches.launcher import Launcher
from airflow_snowpack.scheduling.pending_runs.checker import Checker
from airflow_snowpack.store import Actor, utc_now
from airflow_snowpack.store.signs_of_life import Role, SignOfLife
from airflow_snowpack.store.tables.schedules import schedules

VIEWS = "table:lake.analytics.page_views"
PAUSED = "the DAG maintain_paused is paused"


@dataclass
class Airflow:
    """An Airflow that takes every run but those of a DAG that is paused."""

    started: list[Launch] = field(default_factory=list)
    running: list[Launch] = field(default_factory=list)
    pools: dict[str, int] = field(default_factory=dict)

    def dag_runs(self, known: Mapping[str, frozenset[str]]) -> Mapping[str, DagRuns]:
        return {dag_id: DagRuns() for dag_id in known}

    def ended_runs(self, asked: Sequence[EndsQuery]) -> Mapping[str, EndsFound]:
        return {one.dag_id: EndsFound() for one in asked}

    def missing_dags(self, dag_ids: Iterable[str]) -> Mapping[str, bool]:
        return dict.fromkeys(dag_ids, False)

    def free_slots(self, pools: Iterable[str]) -> Mapping[str, int | None]:
        return {pool: self.pools.get(pool) for pool in pools}

    def start(self, launch: Launch) -> NotStarted | None:
        if launch.dag_id == "maintain_paused":
            return NotStarted(PAUSED)
        self.started.append(launch)
        self.running.append(launch)
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

    def commit(self, table: str, partitions: int, size: int, **detail: Any) -> None:
        """A commit to some table."""
        days = [f"day={self.world.clock() - timedelta(days=number):%Y-%m-%d}" for number in range(partitions)]
        told = {"table": table, "operation": "append", "partitions": days, **detail}
        amounts = {"partitions": partitions, "files": partitions * 3, "records": size // 90, "bytes": size}
        self.log.publish([Event(f"table:lake.{table}", self.world.clock(), amounts, told)])

    def go_round(self) -> None:
        """As often as there may be something to do."""
        for _ in range(3):
            Clocks(self.world.store).step()
            self.work()

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
        """All that have not ended."""
        while self.airflow.running:
            launch = self.airflow.running.pop()
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


def register_runs(world: World) -> RegisteredRuns:
    """One that comes each morning, and one that only somebody starts."""
    runs = world.services.installation.registered_runs(Actor("jana", "cli"))
    conf = {"table": "analytics.page_views", "days": 7}
    features = RegisteredRun("features", "make_features", conf, "0 8 * * *", "Europe/Berlin", "FULL", description="each morning")
    runs.register(features)
    runs.register(RegisteredRun("backfill", "make_features", {"days": 365}, enabled=False))
    return runs


def build_schedules(world: World) -> Made:
    """Three hours in the life of some schedules, up to now, for the pictures of their pages."""
    end = utc_now()
    world.clock.moment = end - timedelta(hours=3)
    made = Made(world)
    made.airflow.pools["spark"] = 1
    views = {"partitions_added": {"table": "analytics.page_views", "count": 5}}
    size = {"bytes_added": {"table": "analytics.page_views", "size": "100GB"}}
    after = {"runs_succeeded": {"dag_id": "maintain_page_views"}}
    window = TimeWindow(f"{end + timedelta(hours=4):%H:%M}", f"{end + timedelta(hours=12):%H:%M}", tz="UTC")
    both = {"all_of": [{"commits_added": {"table": f"payments.{name}"}} for name in ("transactions", "refunds")]}
    bulk = {"any_of": [views, size, {"every": {"period": "4h"}}]}
    gently = [MaxConcurrent(2, group="compaction"), SinceLastRun("5m")]
    made.create("page_views_in_bulk", bulk, priority=5, conf={"table": "analytics.page_views"}, constraints=gently)
    made.create("page_views_report", after, dag_id="report_page_views", description="Right after the views have been maintained.")
    nightly = [window, MaxConcurrent(2, group="compaction")]
    made.create("sessions_nightly", {"commits_added": "analytics.sessions"}, dag_id="maintain_sessions", constraints=nightly)
    made.create("ledger_urgent", both, dag_id="close_ledger", priority=10, constraints=[PoolSlots("spark")])
    made.create("stock_levels", {"custom_events": "shipment"}, dag_id="refresh_stock", constraints=[PoolSlots("spark")])
    made.create("campaigns", {"cron": {"expression": "*/30 * * * *"}}, dag_id="maintain_paused")
    made.create("email_clicks", {"records_added": {"table": "marketing.email_clicks", "count": 1_000_000}}, enabled=False)
    made.create("newer_than_this", {"commits_added": "logistics.routes"}, dag_id="maintain_routes")
    made.overwrite("newer_than_this", {"name": "newer_than_this", "dag_id": "maintain_routes", "trigger": {"moon_phase": "full"}})

    for minutes, partitions, gigabytes in ((5, 5, 12), (50, 5, 64), (40, 2, 18), (62, 1, 23)):
        world.clock.move(minutes=minutes)
        made.arrive(partitions, gigabytes * 1000**3)
        made.go_round()
        world.clock.move(minutes=3)
        made.end_runs()
        made.go_round()
    made.commit("payments.transactions", 1, 2_400_000_000, expired_before=2)
    made.commit("payments.refunds", 1, 300_000_000)
    made.go_round()
    made.commit("analytics.sessions", 4, 9_100_000_000)
    made.commit("logistics.routes", 1, 1_000_000)
    send_event(world.store, Actor("shop", "api"), "shipment", {"records": 900}, {"warehouse": "north"}, source_id="2026-11-21/17")
    made.go_round()
    world.clock.moment = end
    made.go_round()
    SignOfLife(world.store, Role.SCHEDULER).beat()
    return made
