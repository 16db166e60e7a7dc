"""A package that is installed beside this one adds a trigger and its source: the example of ``docs/schedules.md``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from counted_reads import counted_reads
from other_package import code_block, install

from airflow_snowpack.api.roles import read_roles
from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.iceberg.broker import Broker
from airflow_snowpack.scheduling import Event, EventLog, Poller, explain, parse_schedules
from airflow_snowpack.scheduling.sources.polled import SourcePoller
from airflow_snowpack.scheduling.sources.source import check_sources, read_unreadable
from airflow_snowpack.store.signs_of_life import Role, SignOfLife
from airflow_snowpack.wire.schedule import ExplanationShape

PAGE = (Path(__file__).parents[3] / "docs/schedules.md").read_text()
SECTION = PAGE.partition("## Triggers and sources of other packages\n")[2]


@pytest.fixture(autouse=True)
def other_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = code_block(SECTION, "toml").replace('[project.entry-points."', "[").replace('"]', "]").replace('"', "")
    install(tmp_path, "acme_drops", code_block(SECTION, "python"), points)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.fixture
def drop(tmp_path: Path) -> Path:
    folder = tmp_path / "drop"
    folder.mkdir()
    return folder


@pytest.fixture
def poll(scheduler: Any, tmp_path: Path) -> Callable[[], None]:
    """One round of the poller, ten seconds later; then one of the scheduler."""
    poller = Poller(scheduler.store, catalog_name="lake", broker=Broker(CatalogConfig.embedded(tmp_path / "lake").load))
    worker = poller.worker(SignOfLife(scheduler.store, Role.POLLER))

    def step() -> None:
        scheduler.clock.move(seconds=10)
        worker.run_once()
        scheduler.work()

    return step


@pytest.fixture
def listening(scheduler: Any, drop: Path) -> None:
    declared = f"{{name: orders, dag_id: load, enabled: true, trigger: {{files_dropped: {{folder: {drop}, count: 2}}}}}}"
    scheduler.schedules.create(*parse_schedules(declared, "stdin", one_alone=True))


def put(scheduler: Any, folder: Path, name: str) -> None:
    (folder / name).touch()
    at = scheduler.clock.now.timestamp()
    os.utime(folder / name, (at, at))


@pytest.mark.usefixtures("listening")
def test_a_source_of_another_package_starts_the_run_that_waits_for_it(
    scheduler: Any, drop: Path, poll: Callable[[], None]
) -> None:
    put(scheduler, drop, "before the first read")
    poll()
    put(scheduler, drop, "a")
    poll()
    assert f"1 of 2 files in {drop}" in explain(scheduler.schedules, "orders").trigger.text
    assert not scheduler.started

    put(scheduler, drop, "b")
    poll()
    (launched,) = scheduler.started
    assert [event["detail"]["file"] for event in launched.conf["snowpack"]["events"]] == ["a", "b"]


@pytest.mark.usefixtures("listening")
def test_two_pollers_and_one_that_continues_record_each_event_once(scheduler: Any, drop: Path) -> None:
    pollers = [SourcePoller(scheduler.store, every=timedelta(0)) for _ in range(2)]
    pollers[0].step()
    for name in "abc":
        put(scheduler, drop, name)
        assert sorted(poller.step() for poller in pollers) == [0, 1]
    assert SourcePoller(scheduler.store, every=timedelta(0)).step() == 0


@pytest.mark.usefixtures("listening")
def test_a_source_that_cannot_be_read_is_a_problem_of_its_schedule_until_it_can(
    scheduler: Any, drop: Path, poll: Callable[[], None]
) -> None:
    poll()
    drop.rename(drop.with_name("away"))
    poll()
    explained = explain(scheduler.schedules, "orders")
    assert f"the drop {drop} cannot be read: FileNotFoundError" in str(explained)
    (source,) = ExplanationShape.encode(explained)["sources"]
    assert (source["kind"], source["name"]) == ("drop", str(drop))

    unreadable = read_unreadable(scheduler.store)
    assert list(unreadable) == [f"drop:{drop}"]
    assert any(f"the drop {drop} cannot be read: FileNotFoundError" in found for found in checked(scheduler, unreadable))

    drop.with_name("away").rename(drop)
    poll()
    assert "cannot be read" not in str(explain(scheduler.schedules, "orders"))


def checked(scheduler: Any, unreadable: Mapping[str, str]) -> list[str]:
    """What ``airflow snowpack schedules check`` reports."""
    declared = [one.read for one in scheduler.schedules.list()]
    found = check_sources(
        declared, catalog_name="lake", load_catalog=pytest.fail, missing_dags=(), unreadable=unreadable, now=scheduler.clock.now
    )
    return [str(finding) for finding in found]


@pytest.mark.usefixtures("listening")
def test_a_poller_that_does_not_run_is_missing_where_schedules_listen_to_a_source_of_another_package(scheduler: Any) -> None:
    assert Role.POLLER in [report.role for report in read_roles(scheduler.store) if report.is_missing]


@pytest.mark.usefixtures("listening")
def test_a_source_whose_package_is_gone_is_a_problem_of_its_schedule(
    scheduler: Any, drop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (points,) = tmp_path.glob("*.dist-info/entry_points.txt")
    points.write_text(points.read_text().partition("[airflow_snowpack.trigger_sources]")[0])
    monkeypatch.syspath_prepend(str(tmp_path / "any"))  # as a new process: entry points are read once for a path

    problem = f"the drop {drop} cannot be read: no installed package has an entry point of airflow_snowpack.trigger_sources"
    assert problem in str(explain(scheduler.schedules, "orders"))
    (found,) = checked(scheduler, {})
    assert problem in found
    assert found.endswith("it cannot run as things are.")


@pytest.fixture
def returns(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str, Any], Any]], None]:
    """Let the source return what a function does of key and place."""
    import acme_drops  # type: ignore[import-not-found]  # the fixture has written it

    return lambda read: monkeypatch.setattr(acme_drops.Drop, "read", lambda _self, key, place: read(key, place))


@pytest.mark.usefixtures("listening")
def test_the_events_of_a_source_may_be_any_iterable(scheduler: Any, returns: Callable[..., None]) -> None:
    returns(lambda key, _place: ((Event(key, scheduler.clock.now) for _ in range(2)), 1))
    assert SourcePoller(scheduler.store, every=timedelta(0)).step() == 2


@pytest.mark.usefixtures("listening")
@pytest.mark.parametrize("place", [float("nan"), {1, 2}, datetime(2026, 11, 21, tzinfo=UTC)])
def test_a_place_that_is_not_json_is_the_problem_of_its_source_and_no_event_is_lost(
    place: Any, scheduler: Any, poll: Callable[[], None], returns: Callable[..., None]
) -> None:
    returns(lambda key, _place: ([Event(key, scheduler.clock.now)], place))
    poll()
    assert "it returned a place that is not a JSON value" in str(explain(scheduler.schedules, "orders"))
    assert EventLog(scheduler.store).latest() == []

    returns(lambda key, place: ([Event(key, scheduler.clock.now, source_id="a")], (1, {1: 2})) if place is None else ([], place))
    poll()
    poll()
    assert "not a JSON value" not in str(explain(scheduler.schedules, "orders"))
    assert len(EventLog(scheduler.store).latest()) == 1


@pytest.mark.usefixtures("listening")
def test_an_id_of_one_source_does_not_hide_the_event_of_another(
    scheduler: Any, tmp_path: Path, returns: Callable[..., None]
) -> None:
    declared = f"{{name: bills, dag_id: load, enabled: true, trigger: {{files_dropped: {{folder: {tmp_path}, count: 2}}}}}}"
    scheduler.schedules.create(*parse_schedules(declared, "stdin", one_alone=True))
    returns(lambda key, _place: ([Event(key, scheduler.clock.now, source_id="a.csv")], 1))

    assert SourcePoller(scheduler.store, every=timedelta(0)).step() == 2


@pytest.mark.usefixtures("listening")
def test_two_pollers_record_events_without_an_id_once_although_the_place_does_not_move(
    scheduler: Any, returns: Callable[..., None]
) -> None:
    pollers = [SourcePoller(scheduler.store, every=timedelta(0)) for _ in range(2)]
    at = scheduler.clock.now

    def read(key: str, _place: Any) -> Any:
        if pollers:
            pollers.pop().step()  # while this poller reads, the other one reads and records the same
        return [Event(key, at), Event(key, at)], "here"

    returns(read)
    assert SourcePoller(scheduler.store, every=timedelta(0)).step() == 0
    assert len(EventLog(scheduler.store).latest()) == 2

    scheduler.clock.move(seconds=1)
    assert SourcePoller(scheduler.store, every=timedelta(0)).step() == 2, "the source says that they happened again"


@pytest.mark.usefixtures("listening")
@pytest.mark.parametrize("with_ids", [True, False])
def test_the_events_of_a_large_read_are_stored_in_batches_and_each_once_after_a_kill(
    scheduler: Any, returns: Callable[..., None], monkeypatch: pytest.MonkeyPatch, *, with_ids: bool
) -> None:
    monkeypatch.setattr("airflow_snowpack.scheduling.sources.polled.EVENTS_PER_TRANSACTION", 2)
    at, inserts = scheduler.clock.now, list[str]()

    def read(key: str, place: Any) -> Any:
        found = [Event(key, at, source_id=str(number) if with_ids else None) for number in range(5)]
        return (found, "read") if place is None else ([], place)

    def die_at_the_second_batch(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "INSERT INTO events" in statement:
            inserts.append(statement)
            if len(inserts) == 2:
                raise Killed

    returns(read)
    sa.event.listen(scheduler.store.engine, "before_cursor_execute", die_at_the_second_batch)
    with pytest.raises(Killed):
        SourcePoller(scheduler.store, every=timedelta(0)).step()
    assert len(EventLog(scheduler.store).latest()) == 2

    assert SourcePoller(scheduler.store, every=timedelta(0)).step() == 3
    assert SourcePoller(scheduler.store, every=timedelta(0)).step() == 0, "the place has moved"
    assert len(EventLog(scheduler.store).latest()) == 5


class Killed(BaseException):
    """The process ends here."""


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.usefixtures("listening")
def test_an_error_without_a_text_is_the_problem_of_its_source_and_hides_no_other(
    scheduler: Any, drop: Path, tmp_path: Path, poll: Callable[[], None], returns: Callable[..., None]
) -> None:
    declared = f"{{name: bills, dag_id: load, enabled: true, trigger: {{files_dropped: {{folder: {tmp_path}}}}}}}"
    scheduler.schedules.create(*parse_schedules(declared, "stdin", one_alone=True))

    def read(key: str, _place: Any) -> Any:
        raise Unprintable if key == f"drop:{drop}" else OSError("the disk is gone")

    returns(read)
    poll()
    assert "cannot be read: Unprintable: its text cannot be shown" in str(explain(scheduler.schedules, "orders"))
    assert "cannot be read: OSError: the disk is gone" in str(explain(scheduler.schedules, "bills"))


@pytest.mark.usefixtures("listening")
@pytest.mark.parametrize("names_its_source", [True, False])
def test_a_problem_is_found_although_the_key_of_the_events_says_more_than_the_source(
    scheduler: Any,
    drop: Path,
    poll: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    returns: Callable[..., None],
    *,
    names_its_source: bool,
) -> None:
    import acme_drops

    key = f"drop:{drop}#csv"
    monkeypatch.setattr(acme_drops.FilesDropped, "event_key", lambda *_: key)
    if not names_its_source:
        monkeypatch.setattr(acme_drops.FilesDropped, "source", None)
    scheduler.change("orders")

    def read(key: str, _place: Any) -> Any:
        raise OSError(f"{key} is gone")

    returns(read)
    poll()
    problem = f"the drop {drop if names_its_source else f'{drop}#csv'} cannot be read: OSError: {key} is gone"
    assert problem in str(explain(scheduler.schedules, "orders"))
    assert any(problem in found for found in checked(scheduler, read_unreadable(scheduler.store)))


def test_an_entry_point_that_is_named_after_the_packages_own_keys_is_not_read(
    scheduler: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "from airflow_snowpack.scheduling import PolledSource\n\n\nclass Table(PolledSource):\n    kind = 'table'\n"
    (tmp_path / "second").mkdir()
    install(tmp_path / "second", "acme_tables", code, "[airflow_snowpack.trigger_sources]\ntable = acme_tables:Table\n")
    monkeypatch.syspath_prepend(str(tmp_path / "second"))
    declared = "{name: views, dag_id: load, enabled: true, trigger: {partitions_added: {table: web.views, count: 2}}}"
    scheduler.schedules.create(*parse_schedules(declared, "stdin", one_alone=True))

    SourcePoller(scheduler.store, every=timedelta(0)).step()

    assert "cannot be read" not in str(explain(scheduler.schedules, "views"))


@pytest.mark.usefixtures("listening")
@pytest.mark.parametrize(
    ("returned", "problem"),
    [
        (Event("table:lake.web.views", datetime.now(UTC)), "an event of the key 'table:lake.web.views'"),
        (Event("drop:{folder}", datetime.fromisoformat("2026-11-21")), "a time without a zone"),
    ],
)
def test_an_event_that_a_source_may_not_record_is_its_problem(
    scheduler: Any, drop: Path, poll: Callable[[], None], returned: Event, problem: str, returns: Callable[..., None]
) -> None:
    event = replace(returned, key=returned.key.format(folder=drop))
    returns(lambda _key, _place: ([event], 1))
    poll()

    assert problem in str(explain(scheduler.schedules, "orders"))
    assert EventLog(scheduler.store).latest() == []


def test_a_round_over_quiet_sources_takes_as_many_statements_as_over_one(scheduler: Any, tmp_path: Path) -> None:
    poller = SourcePoller(scheduler.store, every=timedelta(0))
    counts = []
    for number in range(1, 4):
        folder = tmp_path / f"quiet{number}"
        folder.mkdir()
        declared = f"{{name: s{number}, dag_id: load, enabled: true, trigger: {{files_dropped: {{folder: {folder}}}}}}}"
        scheduler.schedules.create(*parse_schedules(declared, "stdin", one_alone=True))
        poller.step()  # records where the source begins
        with counted_reads(scheduler.store.engine) as reads:
            poller.step()
        counts.append(len(reads.statements))
    assert counts == [counts[0]] * 3
    assert 0 < counts[0] <= 3
