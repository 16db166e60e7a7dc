"""What a round costs follows what is due, and not what is waiting: index look-ups on both databases, also without statistics."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_snowpack.scheduling import CustomEvents, MaxConcurrent, Schedule, TimeWindow
from airflow_snowpack.store.types import UtcDateTime

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_snowpack.store import Store

MANY = 100_000
TABLES = "events|schedule_triggers|schedules|pending_jobs|pending_events|schedule_clocks"
WHOLE = re.compile(rf"(->\s+)?(Parallel )?(Seq Scan on|SCAN) ({TABLES})\b")
# Not backward: that is how the greatest number is found.
BY_INDEX = re.compile(rf"(->\s+)?(Parallel )?(Bitmap Heap Scan|Index( Only)? Scan using \w+) on ({TABLES})\b")
PLACEHOLDER = re.compile(r"%\((\w+)\)s")


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


def statements(store: Store, do: Callable[[], object]) -> list[tuple[str, Any]]:
    """What is sent to the database meanwhile."""
    sent: list[tuple[str, Any]] = []

    def keep(_conn: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if not statement.startswith("EXPLAIN"):
            sent.append((statement, parameters))

    sa.event.listen(store.engine, "before_cursor_execute", keep)
    try:
        do()
    finally:
        sa.event.remove(store.engine, "before_cursor_execute", keep)
    return sent


def plan(store: Store, statement: str, parameters: Any) -> list[str]:
    """On Postgres the one for whatever parameters, as the store's connections ask for it."""
    with store.engine.begin() as conn:
        if not store.is_postgres:
            return [str(row[-1]).strip() for row in conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)]
        names = list(dict.fromkeys(PLACEHOLDER.findall(statement)))
        numbered = PLACEHOLDER.sub(lambda found: f"${names.index(found[1]) + 1}", statement)
        return [str(row[-1]).strip() for row in conn.exec_driver_sql(f"EXPLAIN (GENERIC_PLAN) {numbered}")]


def scans(store: Store, sent: list[tuple[str, Any]]) -> list[str]:
    """The steps of their plans that walk over a whole table, or over a whole index of it without a condition."""
    return [
        f"{step}\n{statement}"
        for statement, parameters in sent
        if statement.lstrip().startswith(("SELECT", "UPDATE", "DELETE", "INSERT", "WITH")) and not isinstance(parameters, list)
        for step, next_step in pairwise([*plan(store, statement, parameters), ""])
        if WHOLE.match(step) or (BY_INDEX.match(step) and not next_step.startswith(("Index Cond", "Recheck Cond")))
    ]


def test_a_round_costs_what_is_due_and_not_what_waits(filled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(TimeWindow, "look", lambda self, _facts: asked.append(self))
    filled.clock.forward(hours=9, minutes=59)

    def idle() -> None:
        assert filled.work().looked_at == 0
        assert filled.clocks.step() == 0

    sent = statements(filled.store, idle)
    assert asked == [], "a hundred thousand wait for a window, and none is asked before it opens"
    assert len(sent) < 20
    assert scans(filled.store, sent) == []
    filled.store.transact(lambda conn: conn.exec_driver_sql("ANALYZE"))
    assert scans(filled.store, sent) == [], "and with statistics"

    listener = Schedule("listener", dag_id="maintain", trigger=CustomEvents("go") | CustomEvents("e17", 2), enabled=True)
    filled.schedules.create(listener)
    for name in ("go", "e17", "e4711"):
        filled.send(name)
    sent = statements(filled.store, filled.work)
    sent += statements(filled.store, lambda: filled.runs.ended("maintain", "manual__1", "success", filled.clock()))
    assert len(filled.started) == 1
    assert scans(filled.store, sent) == []


@pytest.mark.parametrize("index", ["ix_pending_jobs_due"])
def test_the_checker_finds_what_is_due_by_its_index(filled: Any, index: str) -> None:
    sent = statements(filled.store, filled.checker.step)
    assert len(sent) == 1
    assert index in "\n".join(plan(filled.store, *sent[0]))


def test_the_end_of_a_run_costs_who_waits_for_it(filled: Any) -> None:
    filled.airflow.running["maintain"] = {"manual__1"}
    filled.declare("waits", CustomEvents("go"), MaxConcurrent(1))
    filled.send("go")
    filled.work()
    sent = statements(filled.store, lambda: filled.runs.ended("maintain", "manual__1", "success", filled.clock()))
    assert scans(filled.store, sent) == []
    filled.airflow.running.clear()
    assert [launch.schedule for launch in filled.started] == []
    filled.work()
    assert [launch.schedule for launch in filled.started] == ["waits"]
