"""Background processes keep one row each: written rarely, with one statement, and removed when the process is gone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
import sqlalchemy as sa
from clocks import EVENING, MovedClock

from airflow_snowpack.store import Store, open_store
from airflow_snowpack.store.signs_of_life import MAX_INSTANCES, Role, Sign, SignOfLife, last_seen, read_signs

NOW = EVENING


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def store(store_url: str, clock: MovedClock) -> Iterator[Store]:
    with open_store(store_url, clock=clock) as opened:
        yield opened


def signs(store: Store) -> list[Sign]:
    return store.read(read_signs)


def test_a_process_writes_one_statement_per_period_and_keeps_its_start(store: Store, clock: MovedClock) -> None:
    sign = SignOfLife(store, Role.WORKER, "pod-1", detail={"catalog_id": "a"})
    sign.beat()
    statements: list[str] = []
    sa.event.listen(store.engine, "before_cursor_execute", lambda c, cur, statement, *rest: statements.append(statement))
    for _ in range(60):  # a worker that polls every five seconds
        clock.move(seconds=5)
        sign.beat()

    (kept,) = signs(store)
    assert len([one for one in statements if "INSERT" in one]) == 10, "one upsert every 30 s"
    assert len(statements) == 11, "and the read of this test"
    assert (kept.role, kept.instance, kept.started_at, kept.seen_at) == ("worker", "pod-1", NOW, clock())
    assert kept.detail["catalog_id"] == "a"
    assert kept.detail["host"]


def test_rows_of_processes_that_are_gone_are_removed_and_the_last_of_a_role_stays(store: Store, clock: MovedClock) -> None:
    for number in range(30):
        SignOfLife(store, Role.WORKER, f"pod-{number}").beat()
        clock.move(minutes=1)
    SignOfLife(store, Role.SWEEPER, "daily.sweep", period=timedelta(days=1)).beat()
    SignOfLife(store, Role.POLLER, "old").beat()
    assert len([each for each in signs(store) if each.role == "worker"]) == MAX_INSTANCES, "no reader gets more of a role"

    clock.move(hours=3)
    assert store.read(lambda conn: last_seen(conn, Role.WORKER)) == NOW + timedelta(minutes=29), "until another one starts"
    staying = SignOfLife(store, Role.WORKER, "pod-30")
    staying.beat()
    SignOfLife(store, Role.SWEEPER, "other.sweep").beat()

    assert [(each.role, each.instance) for each in signs(store)] == [
        ("poller", "old"),
        ("sweeper", "other.sweep"),
        ("sweeper", "daily.sweep"),
        ("worker", "pod-30"),
    ]
    SignOfLife(store, Role.WORKER, "pod-31").beat()
    for _ in range(130):
        clock.move(minutes=1)
        staying.beat()
    assert [each.instance for each in signs(store) if each.role == "worker"] == ["pod-30"], "by a process that stays, too"


def test_a_task_is_the_same_instance_in_each_of_its_runs_and_is_missed_after_its_own_period(
    store: Store, clock: MovedClock
) -> None:
    for _ in range(3):
        clock.move(minutes=10)
        SignOfLife(store, Role.SWEEPER, "snowpack_sweep.sweep", period=timedelta(minutes=10)).beat()
    (sign,) = signs(store)

    assert sign.started_at == clock()
    assert sign.is_alive(clock() + timedelta(minutes=29))
    assert not sign.is_alive(clock() + timedelta(minutes=30))


def test_a_clock_that_is_set_back_does_not_silence_a_process(store: Store, clock: MovedClock) -> None:
    sign = SignOfLife(store, Role.SCHEDULER, "one")
    sign.beat()
    clock.move(days=-2)
    sign.beat()

    assert [each.seen_at for each in signs(store)] == [NOW - timedelta(days=2)]


def test_a_store_that_does_not_answer_keeps_no_process_from_its_work(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    store.transact(lambda conn: conn.exec_driver_sql("ALTER TABLE signs_of_life RENAME TO elsewhere"))
    sign = SignOfLife(store, Role.WORKER, "pod-1")
    sign.beat()
    assert "sign_of_life_not_written: worker pod-1" in caplog.text

    store.transact(lambda conn: conn.exec_driver_sql("ALTER TABLE elsewhere RENAME TO signs_of_life"))
    sign.beat()
    assert [each.instance for each in signs(store)] == ["pod-1"]
