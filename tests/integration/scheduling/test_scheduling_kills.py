"""kill -9 of whole schedulers, two at a time, at random points: every event counts once, and each wanted run starts once."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import schedule_process
import sqlalchemy as sa
from schedule_process import AheadClock, FiledAirflow, work_once
from scripted_engine import eventually

from airflow_snowpack.scheduling import Cron, CustomEvents, Event, EventLog, MaxConcurrent, Schedule, Schedules
from airflow_snowpack.scheduling.trigger import custom_key
from airflow_snowpack.store import Store, open_store, utc_now
from airflow_snowpack.store.schedule_tables import events, pending_events, pending_jobs, schedule_history

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ROUNDS = 110
EVENTS_A_ROUND = 4


@contextmanager
def doomed(url: str, airflow: Path) -> Iterator[Callable[[str], str]]:
    """Two schedulers that live for so many milliseconds a line."""
    command = [sys.executable, schedule_process.__file__, url, str(airflow)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def live(line: str) -> str:
        stdin.write(f"{line}\n")
        stdin.flush()
        return stdout.readline().strip()

    try:
        assert stdout.readline() == "ready\n"
        yield live
    finally:
        stdin.close()
        process.wait(30)


def declare(store: Store) -> None:
    schedules = Schedules(store, catalog="lake")
    for name, trigger, constraints in (
        ("each", CustomEvents("go"), []),
        ("third", CustomEvents("go", 3), []),
        ("single", CustomEvents("go"), [MaxConcurrent(10_000)]),
    ):
        schedules.create(Schedule(name, dag_id=f"dag_{name}", trigger=trigger, constraints=constraints, enabled=True))
    schedules.create(Schedule("clock", dag_id="dag_clock", trigger=Cron("*/2 * * * * *"), enabled=True))


def work_off(store_url: str, airflow: FiledAirflow) -> None:
    """Somebody who is left: the leases of the dead have run out."""
    with open_store(store_url, clock=AheadClock(timedelta(minutes=3))) as store:

        def nothing_is_left() -> bool:
            # More than one round: Postgres may not have noticed yet that its client is dead, and what it holds is passed over.
            while work_once(store, airflow, "survivor"):
                pass
            unlaunched = rows(store, sa.select(pending_jobs.c.pending_id).where(pending_jobs.c.state == "pending_launch"))
            newest, heard = (
                rows(store, sa.select(sa.func.max(column)))[0][0] for column in (events.c.id, pending_events.c.event_id)
            )
            return not unlaunched and bool(newest == heard)

        eventually(nothing_is_left)


def test_kills_lose_no_event_and_start_no_run_twice(
    store_url: str, store: Store, tmp_path: Path, clock: Any, record_property: Callable[[str, object], None]
) -> None:
    clock.now = utc_now()
    declare(store)
    file = tmp_path / "airflow.db"
    airflow, chance = FiledAirflow(file), random.Random(2026)
    log = EventLog(open_store(store_url))
    with doomed(store_url, file) as live:
        for turn in range(ROUNDS):
            batch = [Event(custom_key("go"), utc_now(), source_id=f"{turn}:{n}") for n in range(EVENTS_A_ROUND)]
            log.publish(batch)
            assert live(f"milliseconds {chance.randint(10, 130)}") == "killed"
    work_off(store_url, airflow)

    total = ROUNDS * EVENTS_A_ROUND
    told = [json.loads(conf)["snowpack"] for _, conf in airflow.runs()]
    published = [
        row.id for row in rows(store, sa.select(events.c.id).where(events.c.key == custom_key("go")).order_by(events.c.id))
    ]
    assert len(published) == total
    by_schedule = {name: [one for one in told if one["schedule"] == name] for name in ("each", "third", "single")}
    for name in ("each", "single"):
        runs = [one["pending_id"] for one in by_schedule[name]]
        taken = rows(store, sa.select(pending_events.c.event_id).where(pending_events.c.pending_id.in_(runs)))
        assert sorted(row.event_id for row in taken) == published, f"every event in exactly one run of {name}"
    assert all(one["event_count"] >= 3 for one in by_schedule["third"])
    waiting = {row.pending_id: row for row in rows(store, sa.select(pending_jobs).where(pending_jobs.c.state != "launched"))}
    assert {row.state for row in waiting.values()} <= {"pending_trigger"}
    unread = len(rows(store, sa.select(pending_events).where(pending_events.c.pending_id.in_(waiting))))
    assert sum(one["event_count"] for one in by_schedule["third"]) + unread == total
    assert len(by_schedule["each"]) > 10, "they got somewhere"
    record_property("runs", len(told))
    record_property("starts_repeated", airflow.times_asked() - len(told))

    ticks = sorted(
        tick for one in told if one["schedule"] == "clock" for event in one["events"] for tick in event["detail"]["ticks"]
    )
    moments = [datetime.fromisoformat(tick) for tick in ticks]
    assert {later - sooner for sooner, later in pairwise(moments)} == {timedelta(seconds=2)}, "every tick once, and none left out"

    launched = rows(store, sa.select(schedule_history.c.pending_id).where(schedule_history.c.what == "launched"))
    assert sorted(row.pending_id for row in launched) == sorted(one["pending_id"] for one in told)


def rows(store: Store, query: Any) -> list[Any]:
    return list(store.read(lambda conn: conn.execute(query).all()))
