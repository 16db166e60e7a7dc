"""What Airflow's processes tell the store, and that they never wait for it."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from bounded import PATIENCE_S
from interim_world import DAG, handed_on, holder
from scripted_engine import eventually

from airflow_snowpack.interim import InterimRegistry
from airflow_snowpack.scheduling import EventLog
from airflow_snowpack.store import StoreUnreachable, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from airflow_snowpack.jobs import Jobs
    from airflow_snowpack.plugin.listener import StoreListener
    from airflow_snowpack.plugin.outbox import Outbox
    from airflow_snowpack.store import Store

AT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
AT_ONCE, PATIENCE = timedelta(0), timedelta(seconds=PATIENCE_S)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path / 'store.db'}") as store:
        yield store


def outbox(open_store: Callable[[], Store], **options: Any) -> Outbox:
    from airflow_snowpack.plugin.outbox import Outbox

    return Outbox(open_store, **options)


def test_what_is_sent_is_written_when_the_sender_goes_on(store: Store) -> None:
    written: list[str] = []
    assert outbox(lambda: store, wait=PATIENCE).send("a note", lambda store: written.append("a")) is True
    assert written == ["a"]


def test_a_sender_does_not_wait_for_a_store_that_hangs(store: Store) -> None:
    released = threading.Event()
    box = outbox(lambda: store, wait=timedelta(milliseconds=50))
    assert box.send("a note", lambda store: released.wait(PATIENCE_S)) is False
    released.set()


def test_what_is_sent_while_the_store_is_away_is_written_in_order_when_it_is_back(store: Store) -> None:
    written, is_back = [], threading.Event()

    def open_it() -> Store:
        if not is_back.is_set():
            raise StoreUnreachable("postgresql://db", OSError("refused"))
        return store

    box = outbox(open_it, wait=timedelta(milliseconds=50), pause=timedelta(milliseconds=10))
    assert [box.send("a note", lambda store, n=n: written.append(n)) for n in range(5)] == [False] * 5
    is_back.set()
    eventually(lambda: len(written) == 5)
    assert written == [0, 1, 2, 3, 4]


def test_a_write_that_fails_for_good_does_not_keep_the_next_one(store: Store) -> None:
    written: list[str] = []
    box = outbox(lambda: store, wait=PATIENCE)
    box.send("nonsense", lambda store: 1 / 0)
    assert box.send("a note", lambda store: written.append("b")) is True
    assert written == ["b"]


def test_the_oldest_goes_when_too_many_wait(store: Store) -> None:
    begun, released, written = threading.Event(), threading.Event(), []

    def slow(store: Store) -> None:
        begun.set()
        assert released.wait(PATIENCE_S)

    box = outbox(lambda: store, wait=AT_ONCE, keep=3)
    box.send("slow", slow)
    assert begun.wait(PATIENCE_S)
    for n in range(5):
        box.send("a note", lambda store, n=n: written.append(n))
    released.set()
    eventually(lambda: 4 in written)
    assert written == [2, 3, 4]


@pytest.fixture
def listener(installation: Path) -> StoreListener:
    from airflow_snowpack.plugin.listener import StoreListener

    return StoreListener()


@pytest.mark.parametrize(
    ("hook", "key"), [("on_dag_run_success", "run:maintain:success"), ("on_dag_run_failed", "run:maintain:failed")]
)
def test_the_end_of_a_run_is_an_event_once(listener: StoreListener, jobs: Jobs, hook: str, key: str) -> None:
    run = SimpleNamespace(dag_id="maintain", run_id="manual__1", start_date=AT - timedelta(hours=1), end_date=AT)
    getattr(listener, hook)(dag_run=run, msg="")
    run.end_date = AT + timedelta(seconds=2)  # Airflow could not commit the first one
    getattr(listener, hook)(dag_run=run, msg="")

    (event,) = [recorded.event for recorded in EventLog(jobs.store).latest()]
    assert (event.key, event.at, event.detail["run_id"]) == (key, AT, "manual__1")


def test_the_end_of_a_run_has_its_interim_tables_looked_at_soon(listener: StoreListener, jobs: Jobs) -> None:
    registry = InterimRegistry(jobs.store)
    tables = [handed_on(registry, holder("ingest", run_id=run_id), rows=1, consumers=["report"]) for run_id in ("r1", "r2")]

    def looked_at() -> list[datetime | None]:
        return [registry.table(table.table_id).check_at for table in tables]

    before = looked_at()
    listener.on_dag_run_success(dag_run=SimpleNamespace(dag_id=DAG, run_id="r1", start_date=AT, end_date=AT), msg="")
    after = looked_at()
    assert after[0] is not None
    assert before[0] is not None
    assert after[0] < before[0]
    assert after[1] == before[1], "another run of the DAG is left as it is"


def test_an_asset_event_is_an_event_with_its_extra_and_its_source(listener: StoreListener, jobs: Jobs) -> None:
    asset = SimpleNamespace(uri="s3://bucket/day")
    source = {"source_dag_id": "load", "source_run_id": "r", "source_task_id": "t"}
    listener.on_asset_event_emitted(SimpleNamespace(asset=asset, extra={"rows": 3}, partition_key=None, **source))

    (event,) = [recorded.event for recorded in EventLog(jobs.store).latest()]
    assert event.key == "asset:s3://bucket/day"
    assert event.detail["extra"] == {"rows": 3}
    assert event.detail["source"]["dag_id"] == "load"


def test_an_asset_event_whose_writing_was_answered_by_nobody_counts_once(
    listener: StoreListener, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, answers = EventLog.publish, [StoreUnreachable("postgresql://db", OSError("the connection is lost"))]

    def publish(log: EventLog, happened: Any) -> int:
        written = really(log, happened)
        if answers:
            raise answers.pop()
        return written

    monkeypatch.setattr(EventLog, "publish", publish)
    listener._outbox = outbox(lambda: jobs.store, wait=AT_ONCE, pause=AT_ONCE)
    source = {"source_dag_id": None, "source_run_id": None, "source_task_id": None, "partition_key": None}
    asset_event = SimpleNamespace(asset=SimpleNamespace(uri="s3://bucket/day"), extra={}, **source)
    for _ in range(2):
        listener.on_asset_event_emitted(asset_event)

    eventually(lambda: not listener._outbox._queue)
    assert answers == []
    assert len(EventLog(jobs.store).latest()) == 2, "each call of Airflow's is one, and the repeated writing none"


def test_nothing_is_recorded_where_that_is_switched_off(
    listener: StoreListener, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__SNOWPACK__LISTEN_TO_AIRFLOW", "False")
    listener.on_dag_run_success(dag_run=SimpleNamespace(dag_id="maintain", run_id="r", start_date=AT, end_date=AT), msg="")
    assert EventLog(jobs.store).latest() == []


def test_airflow_goes_on_whatever_it_passes_and_however_the_settings_are(
    listener: StoreListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_snowpack.plugin.listener import StoreListener

    listener.on_dag_run_success(dag_run=None, msg="")
    monkeypatch.setenv("AIRFLOW__SNOWPACK__LISTEN_TO_AIRFLOW", "perhaps")
    StoreListener().on_dag_run_failed(dag_run=None, msg="")


def test_airflow_finds_the_listener_and_its_hooks() -> None:
    from airflow.listeners.listener import get_listener_manager

    manager = get_listener_manager()
    found = {type(plugin).__name__ for plugin in manager.pm.get_plugins()}
    assert "StoreListener" in found
