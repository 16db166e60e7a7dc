"""Schedules as they are written down: what is valid reads back as an equal value, and what is not is named by its field."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import time, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings, strategies as st

from airflow_snowpack.scheduling import (
    AllOf,
    AnyOf,
    AssetEvents,
    AtLatest,
    BytesAdded,
    ClusterLoad,
    CommitsAdded,
    Cron,
    CustomEvents,
    Delay,
    Every,
    FilesAdded,
    InvalidSchedule,
    MaxConcurrent,
    MaxRuns,
    PartitionsAdded,
    PoolSlots,
    RecordsAdded,
    RunsFailed,
    RunsSucceeded,
    Schedule,
    Since,
    SinceLastRun,
    Timeout,
    TimeWindow,
    load_schedules,
    parse_trigger,
)

counts = st.integers(1, 2**63 - 1)
texts = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1).filter(str.strip)
names = st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_-]{0,50}\Z")
periods = st.timedeltas(timedelta(microseconds=1), timedelta(days=36_500))
uris = st.builds(
    "{}://{}{}{}".format,
    st.sampled_from(["x", "X", "S3", "hdfs", "x-own", "https"]),
    st.sampled_from(["orders", "Bucket", "user@host:5432", "user:secret@host"]),
    st.sampled_from(["", "/", "//", "/a", "/a/b/", "/a//"]),
    st.sampled_from(["", "?", "?b=2&a=1", "?a=%20x", "#part", "?a=1#part"]),
)
tables = st.builds("{}.{}".format, names, names)
zones = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"])
crons = st.sampled_from(["0 2 * * *", "*/5 * * * *", "0 0 29 2 *", "*/20 * * * * *"])

leaves = st.one_of(
    *(
        st.builds(kind, tables, counts, st.sampled_from(["gains", "changes"]))
        for kind in (PartitionsAdded, FilesAdded, RecordsAdded, CommitsAdded, BytesAdded)
    ),
    *(st.builds(kind, texts, counts) for kind in (RunsSucceeded, RunsFailed, CustomEvents)),
    st.builds(AssetEvents, uris | texts.filter(lambda text: ":" not in text), counts),
    st.builds(Cron, crons, zones),
    st.builds(Every, periods),
)
triggers = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda some: AllOf(*some)),
        st.lists(inner, min_size=1, max_size=3).map(lambda some: AnyOf(*some)),
        st.builds(Since, inner, periods, st.sampled_from(["first", "last"])),
        st.builds(AtLatest, inner, st.builds(Cron, crons, zones)),
    ),
    max_leaves=6,
)
unmet = st.sampled_from(["wait", "skip"])
minutes = st.builds(time, st.integers(0, 23), st.integers(0, 59))
constraints = st.one_of(
    st.builds(MaxConcurrent, counts, st.none() | texts, unmet),
    st.builds(MaxRuns, counts, periods, unmet),
    st.builds(Delay, periods),
    st.builds(SinceLastRun, periods, unmet),
    st.tuples(minutes, minutes)
    .filter(lambda bounds: bounds[0] != bounds[1])
    .flatmap(lambda bounds: st.builds(TimeWindow, st.just(bounds[0]), st.just(bounds[1]), zones, unmet)),
    st.builds(PoolSlots, texts, counts, unmet),
    st.builds(ClusterLoad, st.just("yarn"), st.floats(0.001, 1e300), unmet),
)
plain = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts
confs = st.dictionaries(texts, st.recursive(plain, lambda inner: st.lists(inner, max_size=3), max_leaves=5), max_size=3)
schedules = st.builds(
    Schedule,
    names,
    dag_id=names,
    trigger=triggers,
    conf=confs,
    constraints=st.lists(constraints, max_size=4),
    timeout=st.builds(Timeout, periods, st.sampled_from(["discard", "launch"])),
    priority=st.integers(-1000, 1000),
    missed=st.sampled_from(["one", "all", "none"]),
    backlog=st.sampled_from(["one", "all"]),
    enabled=st.booleans(),
    description=st.just("") | texts,
)
slow = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


@slow
@given(schedules)
def test_a_schedule_reads_back_from_json_as_an_equal_one(schedule: Schedule) -> None:
    again = Schedule.from_json(json.loads(json.dumps(schedule.to_json())))
    assert again == schedule
    assert again.to_json() == schedule.to_json()


@slow
@given(schedule=schedules)
def test_a_schedule_reads_back_from_a_yaml_file_as_an_equal_one(
    schedule: Schedule, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("yaml") / "schedules.yaml"
    file.write_text(yaml.safe_dump({"schedules": [schedule.to_json()]}), encoding="utf-8")
    assert load_schedules(file) == [schedule]


@pytest.mark.filterwarnings("ignore:An Asset URI should not contain a password")
@settings(max_examples=100)
@given(uris | texts)
@example("x://orders")
def test_an_asset_has_the_uri_that_airflow_stores(uri: str) -> None:
    from airflow.sdk import Asset

    try:
        asset = Asset(uri=uri)
    except ValueError:
        return
    assert AssetEvents(uri).uri == AssetEvents(asset).uri == asset.uri


def test_short_forms_mean_the_same() -> None:
    assert parse_trigger({"every": "4h"}) == Every(timedelta(hours=4))
    assert parse_trigger({"any_of": [{"cron": "0 2 * * *"}, {"bytes_added": {"table": "a.b", "size": "1.5GB"}}]}) == Cron(
        "0 2 * * *"
    ) | BytesAdded("a.b", 1_500_000_000)
    short = Schedule("a", dag_id="b", trigger={"every": "1d"}, constraints=[{"delay": "10m"}], timeout="2h")  # type: ignore[arg-type]
    assert short == Schedule("a", "b", Every("1d"), constraints=[Delay("PT10M")], timeout=Timeout("2h"))
    deadline = {"at_latest": {"trigger": {"custom_events": "go"}, "by": {"cron": {"expression": "0 7 * * 1-5", "tz": "UTC"}}}}
    assert parse_trigger(deadline) == CustomEvents("go").at_latest(Cron("0 7 * * 1-5"))
    assert (Every("1h") | Every("2h") | Every("3h")) == AnyOf(Every("1h"), Every("2h"), Every("3h"))


GOOD: dict[str, Any] = {
    "name": "nightly",
    "dag_id": "maintain",
    "trigger": {"any_of": [{"partitions_added": {"table": "a.b", "count": 5}}, {"every": "4h"}]},
    "conf": {"table": "a.b"},
    "constraints": [{"time_window": {"start": "22:00", "end": "06:00"}}],
    "timeout": {"after": "1d", "then": "discard"},
    "priority": 5,
    "missed": "one",
    "backlog": "one",
    "enabled": True,
    "description": "",
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.builds(lambda: 10**5000),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text()
            | st.sampled_from(["any_of", "all_of", "since", "every", "cron", "partitions_added", "count", "table", "delay"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=400)
@given(st.sampled_from(sorted(GOOD)), json_values)
def test_any_value_is_either_kept_or_an_error_that_names_its_field(field: str, value: Any) -> None:
    answer = attempt({**GOOD, field: value})
    if isinstance(answer, InvalidSchedule):
        assert answer.field.startswith(field)
        assert str(answer).startswith(answer.field)
    else:
        stored = json.dumps(answer.to_json(), allow_nan=False)
        assert Schedule.from_json(json.loads(stored)) == answer
        assert json.dumps(answer.to_json(), ensure_ascii=False).encode()


def attempt(said: Any) -> Schedule | InvalidSchedule:
    try:
        return Schedule.from_json(said)
    except InvalidSchedule as error:
        return error


@settings(max_examples=200)
@given(json_values)
def test_whatever_is_given_for_a_schedule_is_one_or_an_error(value: Any) -> None:
    with pytest.raises(InvalidSchedule):
        Schedule.from_json(value)


@settings(max_examples=200)
@given(content=st.binary() | st.text().map(str.encode) | st.just(b"schedules: [{name: 2026-13-45}]") | st.just(b"[" * 5000))
def test_whatever_is_in_a_file_is_schedules_or_an_error(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("yaml") / "schedules.yaml"
    file.write_bytes(content)
    with pytest.raises(InvalidSchedule, match=r"schedules\.yaml"):
        load_schedules(file)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "2x"}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"dag_id": "a b"}, "dag_id"),
        ({"trigger": {"every": "0s"}}, "trigger.every.period"),
        ({"trigger": {"every": "999999d"}}, "trigger.every.period"),
        ({"trigger": {"every": 5}}, "trigger.every.period"),
        ({"trigger": {"cron": "61 * * * *"}}, "trigger.cron.expression"),
        ({"trigger": {"cron": "0 0 30 2 *"}}, "trigger.cron.expression"),
        ({"trigger": {"cron": {"expression": "0 0 * * *", "tz": "Mars/Base"}}}, "trigger.cron.tz"),
        ({"trigger": {"cron": {"expression": "0 0 * * *", "zone": "UTC"}}}, "trigger.cron.zone"),
        (
            {"trigger": {"any_of": [{"every": "1h"}, {"files_added": {"table": "a.b", "count": 0}}]}},
            "trigger.any_of[1].files_added.count",
        ),
        ({"trigger": {"any_of": []}}, "trigger.any_of"),
        ({"trigger": {"since": {"trigger": {"every": "1h"}, "period": "1h", "of": "middle"}}}, "trigger.since.of"),
        ({"trigger": {"at_latest": {"trigger": {"every": "1h"}, "by": {"every": "4h"}}}}, "trigger.at_latest.by"),
        ({"trigger": {"at_latest": {"trigger": {"every": "1h"}, "by": {"cron": "7"}}}}, "trigger.at_latest.by.cron.expression"),
        ({"trigger": {"at_latest": {"trigger": {"every": "1h"}}}}, "trigger.at_latest"),
        ({"trigger": {"bytes_added": {"table": "a.b", "size": "1 parsec"}}}, "trigger.bytes_added.size"),
        ({"trigger": {"bytes_added": {"table": "a.b", "size": 2**63}}}, "trigger.bytes_added.size"),
        ({"trigger": {"bytes_added": {"table": "a.b"}}}, "trigger.bytes_added"),
        ({"trigger": {"custom_events": "\ud800"}}, "trigger.custom_events.name"),
        ({"constraints": [{"delay": {"period": "1h", "on_unmet": "skip"}}]}, "constraints[0].delay.on_unmet"),
        ({"constraints": [{"max_concurrent": 0}]}, "constraints[0].max_concurrent.limit"),
        ({"constraints": [{"max_concurrent": {"limit": 1, "group": ""}}]}, "constraints[0].max_concurrent.group"),
        ({"constraints": [{"time_window": {"start": "22:00", "end": "22:00"}}]}, "constraints[0].time_window.end"),
        ({"constraints": [{"time_window": {"start": "22:00:30", "end": "06:00"}}]}, "constraints[0].time_window.start"),
        ({"constraints": [{"cluster_load": {"probe": "a space"}}]}, "constraints[0].cluster_load.probe"),
        ({"constraints": [{"cluster_load": {"probe": "yarn", "below": float("inf")}}]}, "constraints[0].cluster_load.below"),
        ({"constraints": [{"cluster_load": {"probe": "yarn", "below": 10**400}}]}, "constraints[0].cluster_load.below"),
        ({"constraints": [{"at_full_moon": {}}]}, "constraints[0].constraint"),
        ({"timeout": {"after": "soon"}}, "timeout.after"),
        ({"timeout": {"then": "retry"}}, "timeout.then"),
        ({"priority": 10**5000}, "priority"),
        ({"priority": True}, "priority"),
        ({"missed": "some"}, "missed"),
        ({"backlog": "none"}, "backlog"),
        ({"enabled": "yes"}, "enabled"),
        ({"conf": {"when": float("nan")}}, "conf"),
        ({"conf": {"half": "\ud83d"}}, "conf"),
        ({"conf": {"nul": "\x00"}}, "conf"),
        ({"description": "\udc00"}, "description"),
        ({"colour": "blue"}, "colour"),
    ],
)
def test_a_value_that_cannot_be_used_is_named_by_its_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        Schedule.from_json(GOOD | changes)
    assert caught.value.field == field


def test_what_is_nested_too_deeply_is_refused() -> None:
    nested: dict[str, Any] = {"every": "1h"}
    for _ in range(2_000):
        nested = {"any_of": [nested]}
    with pytest.raises(InvalidSchedule, match=r"^trigger"):
        Schedule.from_json(GOOD | {"trigger": nested})


@pytest.mark.parametrize(
    ("field", "parts"),
    [
        ("trigger", {"any_of": [{"every": f"{number}m"} for number in range(1, 502)]}),
        ("constraints", [{"since_last_run": f"{number}m"} for number in range(1, 502)]),
    ],
)
def test_a_schedule_with_too_many_parts_is_refused(field: str, parts: Any) -> None:
    with pytest.raises(InvalidSchedule, match=rf"^{field} = '501 parts' is not usable: it must have at most 500"):
        Schedule.from_json(GOOD | {field: parts})


def test_a_table_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidSchedule, match="it must be the name of a table"):
        Schedule.from_json(GOOD | {"trigger": {"partitions_added": {"table": 5, "count": 1}}})


def test_a_file_names_the_schedule_and_the_field(tmp_path: Path) -> None:
    file = tmp_path / "ours.yaml"
    file.write_text(yaml.safe_dump({"schedules": [GOOD, {**GOOD, "priority": "high"}]}))
    with pytest.raises(InvalidSchedule, match=r"ours\.yaml: nightly\.priority = 'high' is not usable"):
        load_schedules(file)


def test_a_schedule_cannot_be_changed_in_place_and_is_checked_when_it_is_replaced() -> None:
    schedule = Schedule.from_json(GOOD)
    with pytest.raises(AttributeError):
        schedule.name = "other"  # type: ignore[misc]  # that is the point
    with pytest.raises(InvalidSchedule):
        replace(schedule, priority=5_000)
