"""The catalogue of registered runs, on the schedules of its crons."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from bounded import PATIENCE_S

from airflow_snowpack.preservation import DEFAULT_VARIABLE, Preservation, resolve_preservation
from airflow_snowpack.scheduling import (
    Became,
    ByHand,
    Cron,
    CustomEvents,
    InvalidRun,
    InvalidSchedule,
    KeptByRun,
    NameTaken,
    RegisteredRun,
    RegisteredRuns,
    RunExists,
    RunNotFound,
    Schedule,
    ScheduleOrigin,
    Schedules,
    StoredRun,
    explain,
    plan_sync,
    read_history,
    run_now,
    run_registered,
    sync,
)
from airflow_snowpack.scheduling.airflow_port import NotStarted
from airflow_snowpack.store import Actor, AuditTrail

VERA = Actor("vera", "cli")
DAILY = {"dag_id": "make_features", "cron": "0 13 * * *"}


def make(name: str = "features", **said: Any) -> RegisteredRun:
    return RegisteredRun(name, **{"dag_id": "make_features", **said})


@pytest.fixture
def runs(scheduler: Any) -> RegisteredRuns:
    """The catalogue on behalf of somebody; the scheduler's clock says noon."""
    return RegisteredRuns(scheduler.store, catalog="lake", actor=VERA)


def confs(scheduler: Any) -> list[dict[str, Any]]:
    """What runs were given, apart from why they run."""
    return [{name: value for name, value in launch.conf.items() if name != "snowpack"} for launch in scheduler.started]


def test_what_is_registered_is_found_as_it_was_said(runs: RegisteredRuns, scheduler: Any) -> None:
    said = make(
        conf={"days": 7, "of": {"a": [1, None]}}, cron="0 8 * * *", tz="Europe/Berlin", preservation="FULL", description="x"
    )
    stored = runs.register(said)

    assert stored == runs.get("features")
    assert stored.run == make(**{**vars(said), "enabled": True})
    assert (stored.created_at, stored.updated_at, stored.updated_by) == (scheduler.clock(), scheduler.clock(), "vera")
    assert stored.next_run_at == datetime(2026, 11, 22, 7, 0, tzinfo=UTC)


@pytest.mark.one_database
def test_a_cron_starts_the_dag_with_the_registered_conf_and_not_before_its_moment(runs: RegisteredRuns, scheduler: Any) -> None:
    runs.register(make(**DAILY, conf={"days": 7}, preservation="FULL"))
    scheduler.go_on(minutes=59)
    assert scheduler.started == []

    scheduler.go_on(minutes=1)
    assert [launch.dag_id for launch in scheduler.started] == ["make_features"]
    told = {"name": "features", "preservation": "FULL", "explicit": False}
    assert confs(scheduler) == [{"days": 7, "snowpack_run": told}]
    assert runs.get("features").next_run_at == datetime(2026, 11, 22, 13, 0, tzinfo=UTC)


def test_a_run_without_a_cron_is_a_schedule_that_is_started_by_hand_only(runs: RegisteredRuns, scheduler: Any) -> None:
    runs.register(make(conf={"days": 7}))
    job = run_registered(runs, "features")
    scheduler.work()
    scheduler.work()

    (schedule,) = scheduler.schedules.list()
    assert (schedule.schedule.trigger, schedule.origin) == (ByHand(), ScheduleOrigin.RUN)
    assert "Its trigger is not satisfied: it is started by hand only." in str(explain(scheduler.schedules, "features"))
    assert [launch.run_id for launch in scheduler.started] == [job.run_id]
    assert confs(scheduler) == [{"days": 7, "snowpack_run": {"name": "features", "preservation": None, "explicit": False}}]
    assert scheduler.started[0].conf["snowpack"]["asked_by"] == "vera"


@pytest.mark.one_database
def test_what_is_given_for_one_run_comes_over_the_defaults_key_by_key_and_no_deeper(runs: RegisteredRuns, scheduler: Any) -> None:
    runs.register(make(conf={"days": 7, "of": {"a": 1, "b": 2}, "kept": True}))
    run_registered(runs, "features", {"days": None, "of": {"b": 3}, "new": "x"})
    run_registered(runs, "features")
    scheduler.work()

    asked, usual = ({k: v for k, v in conf.items() if k != "snowpack_run"} for conf in confs(scheduler))
    assert asked == {"days": None, "of": {"b": 3}, "kept": True, "new": "x"}
    assert usual == {"days": 7, "of": {"a": 1, "b": 2}, "kept": True}


@pytest.mark.one_database
@pytest.mark.parametrize(
    ("registered", "asked", "variable", "kept"),
    [
        ("FULL", "NONE", "FULL", Preservation.NONE),
        ("NONE", "FULL", "NONE", Preservation.FULL),
        ("FULL", None, "NONE", Preservation.FULL),
        ("NONE", None, "FULL", Preservation.NONE),
        (None, None, "FULL", Preservation.FULL),
        (None, None, "", Preservation.NONE),
    ],
)
def test_what_was_asked_beats_what_is_registered_and_that_beats_the_variable(
    runs: RegisteredRuns, scheduler: Any, registered: str | None, asked: str | None, variable: str, kept: Preservation
) -> None:
    runs.register(make(preservation=registered))
    run_registered(runs, "features", preservation=asked)
    scheduler.work()

    conf = scheduler.started[0].conf
    assert resolve_preservation(None, conf, {DEFAULT_VARIABLE: variable}) is kept
    assert conf["snowpack_run"]["explicit"] is (asked is not None)


@pytest.mark.one_database
def test_a_disabled_cron_starts_nothing_and_its_ticks_do_not_pile_up(runs: RegisteredRuns, scheduler: Any) -> None:
    runs.register(make(**DAILY))
    disabled = runs.disable("features")
    assert (disabled.enabled, disabled.next_run_at) == (False, None)
    scheduler.go_on(days=3)
    enabled = runs.enable("features")
    scheduler.go_on(seconds=1)
    assert scheduler.started == []
    assert enabled.next_run_at == datetime(2026, 11, 24, 13, 0, tzinfo=UTC)

    scheduler.go_on(hours=1)
    assert len(scheduler.started) == 1


def test_disabling_discards_what_waits_to_be_started(runs: RegisteredRuns, scheduler: Any) -> None:
    scheduler.airflow.refusal = NotStarted("the DAG is paused")
    for name, said in (("with_cron", DAILY), ("without", {})):
        runs.register(make(name, **said))
        run_registered(runs, name)
        scheduler.work()
        runs.disable(name)
        runs.enable(name)
    scheduler.airflow.refusal = None
    scheduler.go_on(minutes=10)

    assert scheduler.started == []


def test_registering_twice_is_refused_and_changes_nothing(runs: RegisteredRuns) -> None:
    before = runs.register(make(**DAILY))
    with pytest.raises(RunExists, match="'features' is registered already"):
        runs.register(make(conf={"days": 1}))

    assert runs.get("features") == before


def test_an_upsert_registers_changes_or_leaves_alone(runs: RegisteredRuns, scheduler: Any) -> None:
    first, registered = runs.upsert(make(**DAILY, conf={"flag": 1}))
    generation = scheduler.schedules.get("features").generation
    scheduler.clock.move(minutes=1)
    same, unchanged = runs.upsert(make(**DAILY, conf={"flag": 1}))
    assert (registered, unchanged) == (Became.REGISTERED, Became.UNCHANGED)
    assert same == first
    assert scheduler.schedules.get("features").generation == generation

    other, changed = runs.upsert(make(**DAILY, conf={"flag": True}))  # which Python takes for the same as 1
    assert changed is Became.CHANGED
    assert (other.conf, other.created_at, other.updated_at) == ({"flag": True}, first.created_at, scheduler.clock())
    scheduler.go_on(hours=1)
    assert confs(scheduler)[0]["flag"] is True


@pytest.mark.one_database
def test_an_upsert_leaves_a_disabled_one_disabled_unless_it_says_otherwise(runs: RegisteredRuns, scheduler: Any) -> None:
    runs.register(make(**DAILY, enabled=False))
    assert not runs.upsert(make(cron="0 14 * * *"))[0].enabled
    scheduler.go_on(hours=3)
    assert scheduler.started == []

    assert runs.upsert(make(cron="0 14 * * *", enabled=True))[0].enabled
    assert scheduler.schedules.get("features").enabled
    assert not runs.upsert(make(cron="0 14 * * *", enabled=False))[0].enabled
    assert not scheduler.schedules.get("features").enabled


@pytest.mark.one_database
def test_a_cron_comes_and_goes_with_an_upsert(runs: RegisteredRuns, scheduler: Any) -> None:
    runs.register(make())
    runs.upsert(make(**DAILY))
    assert scheduler.schedules.get("features").schedule.trigger == Cron("0 13 * * *")

    gone, _ = runs.upsert(make())
    scheduler.go_on(hours=2)
    assert (gone.cron, gone.next_run_at, scheduler.started) == (None, None, [])
    assert scheduler.schedules.get("features").schedule.trigger == ByHand()


def test_unregistering_takes_the_schedule_and_what_waits_with_it(runs: RegisteredRuns, scheduler: Any) -> None:
    scheduler.airflow.refusal = NotStarted("the DAG is paused")
    for name, said in (("with_cron", DAILY), ("without", {})):
        runs.register(make(name, **said))
        run_registered(runs, name)
    scheduler.work()
    for name in ("with_cron", "without"):
        runs.unregister(name)
    scheduler.airflow.refusal = None
    scheduler.go_on(hours=2)

    assert (runs.list(), scheduler.schedules.list(), scheduler.started) == ([], [], [])


@pytest.mark.one_database
def test_the_schedule_of_a_cron_is_shown_among_the_schedules_and_changed_in_the_catalogue_alone(
    runs: RegisteredRuns, scheduler: Any
) -> None:
    before = runs.register(make(**DAILY))
    schedules: Schedules = scheduler.schedules
    assert schedules.get("features").origin is ScheduleOrigin.RUN
    assert "0 13 * * *" in str(explain(schedules, "features"))
    for change in (
        lambda: schedules.update(Schedule("features", "another", Cron("0 1 * * *"))),
        lambda: schedules.suspend("features"),
        lambda: schedules.resume("features"),
        lambda: schedules.delete("features"),
    ):
        with pytest.raises(KeptByRun, match=r"is a registered run.*runs upsert"):
            change()
    assert runs.get("features") == before

    run_now(schedules, "features")  # which changes nothing of it
    scheduler.work()
    assert confs(scheduler)[0]["snowpack_run"]["name"] == "features"


@pytest.mark.parametrize("said", [{}, DAILY])
def test_schedules_and_registered_runs_share_their_names(runs: RegisteredRuns, scheduler: Any, said: dict[str, Any]) -> None:
    scheduler.declare("nightly", CustomEvents("x"))
    for enter in (runs.register, runs.upsert):
        with pytest.raises(NameTaken, match="A schedule 'nightly' exists already"):
            enter(make("nightly", **said))
    runs.register(make(**said))
    with pytest.raises(NameTaken, match="A registered run 'features' exists already"):
        scheduler.schedules.create(Schedule("features", "another", Cron("0 1 * * *")))

    assert [one.name for one in runs.list()] == ["features"]


@pytest.mark.one_database
@pytest.mark.parametrize("said", [{}, DAILY])
def test_a_file_that_declares_a_registered_name_is_an_error_and_deploys_nothing(
    runs: RegisteredRuns, scheduler: Any, said: dict[str, Any]
) -> None:
    runs.register(make(**said))
    clash, other = (Schedule(name, "another", Cron("0 1 * * *")) for name in ("features", "other"))
    for work in (plan_sync, sync):
        with pytest.raises(InvalidSchedule, match="name = 'features' is not usable: a registered run has it already"):
            work(scheduler.schedules, [clash, other], update=True)
    assert [one.name for one in scheduler.schedules.list()] == ["features"]


def test_a_sync_neither_deletes_nor_changes_the_schedule_of_a_registered_run(runs: RegisteredRuns, scheduler: Any) -> None:
    before = runs.register(make(**DAILY))
    for update in (True, False):
        report = sync(scheduler.schedules, [], update=update)
        assert report == plan_sync(scheduler.schedules, [], update=update)
        assert (report.deleted, report.updated, report.left) == ((), (), ())

    assert runs.get("features") == before
    assert scheduler.schedules.get("features").enabled


def test_each_change_has_one_entry_in_the_audit_trail_with_who_asked(runs: RegisteredRuns, scheduler: Any) -> None:
    runs.register(make(**DAILY))
    runs.upsert(make(**DAILY))  # changes nothing
    runs.upsert(make(**DAILY, conf={"days": 1}))
    for _ in range(2):
        runs.disable("features")
    runs.enable("features")
    run_registered(runs, "features")
    run_now(Schedules(scheduler.store, catalog="lake", actor=VERA), "features")
    runs.unregister("features")

    entries = AuditTrail(scheduler.store).latest()[::-1]
    wanted = ["register_run", "update_run", "disable_run", "enable_run", "run_registered", "run_schedule", "unregister_run"]
    assert [entry.change for entry in entries] == wanted
    assert {(entry.actor, entry.via, entry.subject) for entry in entries} == {("vera", "cli", "run:features")}


def test_an_upsert_that_also_disables_is_one_change(runs: RegisteredRuns, scheduler: Any) -> None:
    runs.register(make(**DAILY))
    stored, became = runs.upsert(make(**DAILY, conf={"days": 1}, enabled=False))

    assert (became, stored.enabled) == (Became.CHANGED, False)
    history = read_history(scheduler.store, "features")[::-1]
    assert [(entry.what, entry.detail["enabled"]) for entry in history] == [("created", True), ("updated", False)]
    assert [entry.detail for entry in AuditTrail(scheduler.store).latest()[::-1]] == [{"enabled": True}, {"enabled": False}]
    scheduler.go_on(days=2)
    assert not scheduler.started


def test_runs_are_listed_by_name_by_dag_and_by_whether_they_are_enabled(runs: RegisteredRuns) -> None:
    for name, said in (("b", {"dag_id": "load"}), ("a", DAILY), ("c", {"enabled": False})):
        runs.register(make(name, **said))

    def names(**which: Any) -> list[str]:
        return [one.name for one in runs.list(**which)]

    assert names() == ["a", "b", "c"]
    assert (names(enabled=True), names(enabled=False)) == (["a", "b"], ["c"])
    assert (names(dag_id="load"), names(search="FEATURES"), names(after="a", limit=1)) == (["b"], ["a", "c"], ["b"])


@pytest.mark.one_database
def test_a_name_that_nobody_registered_is_told(runs: RegisteredRuns) -> None:
    for ask in (runs.get, runs.enable, runs.disable, runs.unregister, lambda name: run_registered(runs, name)):
        with pytest.raises(RunNotFound, match="There is no registered run 'nobody'"):
            ask("nobody")


def test_of_many_who_register_one_name_at_once_one_does(scheduler: Any) -> None:
    found: list[StoredRun] = []
    refused: list[RunExists] = []
    together = threading.Barrier(4)

    def register(number: int) -> None:
        runs = RegisteredRuns(scheduler.store, catalog="lake")
        together.wait(PATIENCE_S)
        try:
            found.append(runs.register(make(cron="0 13 * * *", conf={"number": number})))
        except RunExists as error:
            refused.append(error)

    threads = [threading.Thread(target=register, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)

    assert (len(found), len(refused)) == (1, 3)
    scheduler.go_on(hours=1)
    assert [conf["number"] for conf in confs(scheduler)] == [found[0].conf["number"]]


@pytest.mark.one_database
@pytest.mark.parametrize(
    ("conf", "preservation", "field"),
    [
        ([1], None, "conf"),
        ({"x": float("nan")}, None, "conf"),
        ({"snowpack_run": {}}, None, "conf"),
        ({"snowpack": {}}, None, "conf"),
        ({}, "SOMETIMES", "preservation"),
    ],
)
def test_a_start_with_something_that_cannot_be_used_starts_nothing(
    runs: RegisteredRuns, scheduler: Any, conf: Any, preservation: str | None, field: str
) -> None:
    runs.register(make())
    with pytest.raises(InvalidRun) as caught:
        run_registered(runs, "features", conf, preservation)
    scheduler.work()

    assert caught.value.field == field
    assert scheduler.started == []
