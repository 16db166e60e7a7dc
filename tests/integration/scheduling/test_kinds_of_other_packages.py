"""A package that is installed beside this one adds a constraint and a trigger, by an entry point each."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from other_package import install

from airflow_snowpack.scheduling import (
    CONSTRAINTS,
    TRIGGERS,
    CustomEvents,
    Event,
    Every,
    InvalidSchedule,
    Schedule,
    Scheduler,
    TimeWindow,
    explain,
    parse_schedules,
)

CODE = '''
from datetime import timedelta
from typing import ClassVar

from airflow_snowpack.scheduling import (
    Constraint, Leaf, OnUnmet, Progress, Judgement, RequiredFacts, declaration, later, met,
)
from airflow_snowpack.scheduling.triggers.trigger import Clock


@declaration
class BusinessDays(Constraint):
    """Only from Monday to Friday."""

    kind: ClassVar[str] = "business_days"
    on_unmet: OnUnmet = OnUnmet.WAIT

    def evaluate(self, context):
        day = context.now.date()
        if day.weekday() < 5:
            return met("it is a business day")
        midnight = context.now.replace(hour=0, minute=0, second=0, microsecond=0)
        return later("it is a weekend", midnight + timedelta(days=7 - day.weekday()))


def used_licenses():
    return 3


@declaration
class Licenses(Constraint):
    """Only while a license is free."""

    kind: ClassVar[str] = "licenses"
    total: int
    on_unmet: OnUnmet = OnUnmet.WAIT

    def evaluate(self, context):
        key = self.wait_key(context.dag_id)
        used = int(context.load("licenses")) + context.held(key)
        says = f"{used} of {self.total} licenses are used"
        return met(says) if used < self.total else later(says, waits_for=key)

    def required_facts(self, dag_id):
        return RequiredFacts(probes={"licenses"})

    def wait_key(self, dag_id):
        return "license:acme"

    def reserves(self):
        return {"license:acme": 1}


@declaration
class Readings(Leaf):
    """So many readings of sensors were sent."""

    kind: ClassVar[str] = "readings"
    measure: ClassVar[str] = "readings"
    count: int = 1

    @property
    def wanted(self):
        return self.count

    def event_key(self, catalog, schedule, number):
        return "event:readings"

    def evaluate(self, progress, now):
        known = progress.get(self, Progress())
        return Judgement(known.amount >= self.count, f"{known.amount} of {self.count} readings", since=self._since(known))


@declaration
class HighTide(Clock):
    """Twice a day."""

    kind: ClassVar[str] = "high_tide"
    place: str = "hamburg"

    def next_after(self, moment):
        return moment + timedelta(hours=12)

    def evaluate(self, progress, now):
        known = progress.get(self, Progress())
        return Judgement(known.amount > 0, "high tide", since=self._since(known))
'''
ENTRY_POINTS = """
[airflow_snowpack.constraints]
business_days = acme_airflow:BusinessDays
licenses = acme_airflow:Licenses
broken = acme_airflow.gone:Gone
misnamed = acme_airflow:BusinessDays

[airflow_snowpack.triggers]
readings = acme_airflow:Readings
high_tide = acme_airflow:HighTide
"""
YAML = """
name: readings
dag_id: maintain
enabled: true
trigger: {any_of: [{readings: 500}, {every: 30d}]}
constraints: [{business_days: {}}]
timeout: 7d
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    install(tmp_path, "acme_airflow", CODE, ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    import acme_airflow  # type: ignore[import-not-found]  # it is written above

    return acme_airflow


def test_a_schedule_with_a_trigger_and_a_constraint_of_another_package_starts_its_dag(installed: Any, scheduler: Any) -> None:
    scheduler.clock.now = datetime(2026, 11, 21, 12, tzinfo=UTC)  # a Saturday
    (declared,) = parse_schedules(YAML, "stdin", one_alone=True)
    assert declared.constraints == (installed.BusinessDays(),)
    assert Schedule.from_json(declared.to_json()) == declared
    scheduler.schedules.create(declared)

    scheduler.log.publish([Event("event:readings", scheduler.clock(), {"readings": 499})])
    scheduler.go_on(minutes=1)
    assert "499 of 500 readings" in explain(scheduler.schedules, "readings").trigger.text
    scheduler.log.publish([Event("event:readings", scheduler.clock(), {"readings": 1})])
    scheduler.go_on(minutes=1)
    (waiting,) = scheduler.pending("readings")
    assert waiting.reasons[1].what == "business_days"
    assert waiting.next_check_at == datetime(2026, 11, 23, tzinfo=UTC)
    scheduler.clock.now = datetime(2026, 11, 22, 23, 59, tzinfo=UTC)
    scheduler.work()
    assert not scheduler.started

    scheduler.go_on(minutes=1)
    assert len(scheduler.started) == 1


def test_runs_that_wait_for_a_resource_of_another_package_take_turns(installed: Any, scheduler: Any) -> None:
    for priority, name in enumerate(("second", "first")):
        scheduler.declare(name, CustomEvents("go"), installed.Licenses(4), dag_id=name, priority=priority)
    scheduler.send("go")

    scheduler.go_on(minutes=1)

    assert [launch.schedule for launch in scheduler.started] == ["first"], "the reserved license counts, though no probe shows it"
    (waiting,) = scheduler.pending("second")
    assert waiting.waits_for == "license:acme"
    scheduler.end_run()
    scheduler.go_on(minutes=2)
    assert [launch.schedule for launch in scheduler.started] == ["first", "second"]


def test_a_faulty_class_of_another_package_keeps_no_other_schedule_from_starting(
    installed: Any, scheduler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler.declare("theirs", CustomEvents("go"), installed.Licenses(9), dag_id="theirs")
    scheduler.declare("ours", CustomEvents("go"), dag_id="ours")
    scheduler.send("go")

    def fail(self: Any, dag_id: str) -> Any:
        raise RuntimeError("no license server")

    monkeypatch.setattr(installed.Licenses, "required_facts", fail)
    scheduler.go_on(minutes=1)

    assert [launch.schedule for launch in scheduler.started] == ["ours"]
    assert "its class fails with RuntimeError: no license server" in str(explain(scheduler.schedules, "theirs"))
    monkeypatch.undo()
    scheduler.go_on(minutes=10)
    assert [launch.schedule for launch in scheduler.started] == ["ours", "theirs"]


def test_a_trigger_that_fails_to_evaluate_keeps_no_other_schedule_from_starting(
    installed: Any, scheduler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler.declare("theirs", installed.Readings(1), dag_id="theirs")
    scheduler.declare("ours", CustomEvents("go"), dag_id="ours")
    scheduler.log.publish([Event("event:readings", scheduler.clock(), {"readings": 1})])
    scheduler.send("go")
    whole = Scheduler(scheduler.store, scheduler.airflow, scheduler.airflow, "scheduler-1")

    def fail(self: Any, progress: Any, now: datetime) -> Any:
        raise RuntimeError("no sensor network")

    with monkeypatch.context() as faulty:
        faulty.setattr(installed.Readings, "evaluate", fail)
        scheduler.clock.move(minutes=1)
        whole.step()
        assert [launch.schedule for launch in scheduler.started] == ["ours"]
        (waiting,) = scheduler.pending("theirs")
        assert "no sensor network" in waiting.reasons[0].text
    scheduler.clock.move(minutes=10)
    whole.step()
    assert [launch.schedule for launch in scheduler.started] == ["ours", "theirs"]


def test_a_clock_that_fails_keeps_no_other_clock_from_ticking(
    installed: Any, scheduler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler.declare("theirs", installed.HighTide(), dag_id="theirs")
    scheduler.declare("ours", Every("1h"), dag_id="ours")

    def fail(self: Any, moment: datetime) -> Any:
        raise RuntimeError("no moon")

    with monkeypatch.context() as faulty:
        faulty.setattr(installed.HighTide, "next_after", fail)
        scheduler.go_on(hours=12)
        assert [launch.schedule for launch in scheduler.started] == ["ours"]
    scheduler.go_on(minutes=5)
    assert [launch.schedule for launch in scheduler.started] == ["ours", "theirs"]


def test_a_constraint_that_fails_for_one_dag_alone_keeps_no_other_schedule_from_starting(
    installed: Any, scheduler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler.declare("theirs", CustomEvents("go"), installed.Licenses(9), dag_id="theirs")
    scheduler.declare("ours", CustomEvents("go"), dag_id="ours")
    scheduler.send("go")
    facts_of = installed.Licenses.required_facts

    def fail(self: Any, dag_id: str) -> Any:
        if dag_id == "theirs":
            raise RuntimeError("no license for it")
        return facts_of(self, dag_id)

    monkeypatch.setattr(installed.Licenses, "required_facts", fail)
    scheduler.go_on(minutes=1)

    assert [launch.schedule for launch in scheduler.started] == ["ours"]
    (waiting,) = scheduler.pending("theirs")
    assert "no license for it" in waiting.reasons[0].text


@pytest.mark.one_database
def test_the_api_and_messages_list_the_kinds_of_other_packages(installed: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert {"delay", "business_days", "licenses"} <= CONSTRAINTS.all().keys()
    assert "readings" in TRIGGERS.all()
    schema = CONSTRAINTS.all()["business_days"].schema()
    assert schema["description"] == "Only from Monday to Friday."
    assert "acme_airflow.gone:Gone cannot be loaded" in caplog.text
    assert {"broken", "misnamed"}.isdisjoint(CONSTRAINTS.all())
    with pytest.raises(InvalidSchedule, match=r"moon_phase.*business_days"):
        CONSTRAINTS.parse({"moon_phase": {}})
    with pytest.raises(InvalidSchedule, match=r"acme_airflow\.gone:Gone cannot be loaded: No module named"):
        CONSTRAINTS.parse({"broken": {}})


@pytest.mark.one_database
def test_a_class_without_an_entry_point_is_refused_where_it_is_declared() -> None:
    class Window(TimeWindow):
        kind = "office_hours"

    with pytest.raises(InvalidSchedule, match=r"office_hours.*use max_concurrent"):
        Schedule("nightly", dag_id="maintain", trigger=CustomEvents("go"), constraints=[Window("08:00", "17:00")])


@pytest.mark.one_database
def test_a_dag_file_with_kinds_of_this_package_reads_no_entry_points(tmp_path: Path) -> None:
    install(tmp_path, "acme_airflow", CODE, ENTRY_POINTS)
    program = """
        import sys
        from airflow_snowpack.scheduling import Cron, Delay, Schedule
        from airflow_snowpack.entry_points import _on_path
        Schedule("nightly", dag_id="maintain", trigger=Cron("0 2 * * *"), constraints=[Delay("10m")])
        print(_on_path.cache_info().currsize, "airflow_snowpack.scheduling.constraints.time_window" in sys.modules)
    """
    run = [sys.executable, "-c", textwrap.dedent(program)]
    printed = subprocess.run(run, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(tmp_path)}).stdout
    assert printed.split() == ["0", "False"]
