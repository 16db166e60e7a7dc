"""What a round costs follows what is due, and not what is waiting: index look-ups on both databases, also without statistics."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from query_plans import plan, scans, sent_by

from airflow_snowpack.scheduling import CustomEvents, MaxConcurrent, Schedule, TimeWindow
from airflow_snowpack.store.dialect import UtcDateTime

MANY = 100_000
TABLES = ["events", "schedule_triggers", "schedules", "pending_jobs", "pending_events", "schedule_clocks"]


NUMBERS = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {MANY})"
FILL = [
    f"""INSERT INTO schedules (name, generation, definition, dag_id, enabled, origin, created_at, changed_at)
        {NUMBERS} SELECT 's' || i, 'g', :definition, 'maintain', :true, 'hand', :now, :now FROM n""",
    f"""INSERT INTO schedule_triggers (schedule, leaf, generation, event_key, counts_after, counts_from)
        {NUMBERS} SELECT 's' || i, 0, 'g', 'event:e' || i, 0, :now FROM n""",
    f"""INSERT INTO pending_jobs (pending_id, schedule, generation, dag_id, state, priority, created_at, triggered_at, expires_at,
                                  next_check_at, counted_to, progress, reasons)
        {NUMBERS} SELECT 'p' || i, 's' || i, 'g', 'maintain', 'pending_constraint', 0,
                         :now, :now, :window, :window, 0, :none, :none FROM n""",
    f"""INSERT INTO schedule_clocks (schedule, leaf, next_at, look_at) {NUMBERS} SELECT 's' || i, 0, :window, :window FROM n""",
]


@pytest.fixture
def filled(scheduler: Any) -> Any:
    """Many schedules, each with a pending job that waits for its window, and a clock that is not due."""
    constraints = [TimeWindow("22:00", "06:00")]
    one = Schedule("s", dag_id="maintain", trigger=CustomEvents("other", 2), constraints=constraints, enabled=True)
    now = scheduler.clock()
    values = {
        "definition": sa.literal(one.to_json(), sa.JSON),
        "none": sa.literal([], sa.JSON),
        "true": sa.literal(True),
        "now": sa.literal(now, UtcDateTime),
        "window": sa.literal(now.replace(hour=22), UtcDateTime),
    }

    def fill(conn: sa.Connection) -> None:
        for statement in FILL:
            text = sa.text(statement)
            used = [sa.bindparam(name, value.value, value.type) for name, value in values.items() if f":{name}" in statement]
            conn.execute(text.bindparams(*used))

    scheduler.store.transact(fill)
    return scheduler


def test_a_round_costs_what_is_due_and_not_what_waits(filled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(TimeWindow, "evaluate", lambda self, _context: asked.append(self))
    filled.clock.move(hours=9, minutes=59)

    def idle() -> None:
        assert filled.work().evaluated == 0
        assert filled.clocks.step() == 0

    sent = sent_by(filled.store, idle)
    assert asked == [], "a hundred thousand wait for a window, and none is asked before it opens"
    assert len(sent) < 20
    assert scans(filled.store, sent, TABLES) == []
    filled.store.transact(lambda conn: conn.exec_driver_sql("ANALYZE"))
    assert scans(filled.store, sent, TABLES) == [], "and with statistics"

    listener = Schedule("listener", dag_id="maintain", trigger=CustomEvents("go") | CustomEvents("e17", 2), enabled=True)
    filled.schedules.create(listener)
    for name in ("go", "e17", "e4711"):
        filled.send(name)
    sent = sent_by(filled.store, filled.work)
    sent += sent_by(filled.store, lambda: filled.runs.ended("maintain", "manual__1", "success", filled.clock()))
    assert len(filled.started) == 1
    assert scans(filled.store, sent, TABLES) == []


@pytest.mark.parametrize("index", ["ix_pending_jobs_due"])
def test_the_checker_finds_what_is_due_by_its_index(filled: Any, index: str) -> None:
    sent = sent_by(filled.store, filled.checker.step)
    assert len(sent) == 1
    assert index in "\n".join(plan(filled.store, *sent[0]))


def test_the_end_of_a_run_costs_who_waits_for_it(filled: Any) -> None:
    filled.airflow.running["maintain"] = {"manual__1"}
    filled.declare("waits", CustomEvents("go"), MaxConcurrent(1))
    filled.send("go")
    sent = sent_by(filled.store, filled.work)
    sent += sent_by(filled.store, lambda: filled.runs.ended("maintain", "manual__1", "success", filled.clock()))
    filled.airflow.running.clear()
    assert [launch.schedule for launch in filled.started] == []
    sent += sent_by(filled.store, filled.work)
    assert [launch.schedule for launch in filled.started] == ["waits"]
    assert scans(filled.store, sent, TABLES) == []
