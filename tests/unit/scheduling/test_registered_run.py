"""A registered run as it is declared."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_snowpack.preservation import Preservation
from airflow_snowpack.scheduling import ByHand, Cron, InvalidRun, InvalidSchedule, RegisteredRun, parse_trigger


def test_the_least_that_can_be_said_is_a_name_and_a_dag() -> None:
    run = RegisteredRun("features", "make_features")

    assert (run.conf, run.cron, run.tz, run.preservation, run.enabled) == ({}, None, "UTC", None, None)
    assert run.schedule(enabled=True).trigger == ByHand()


def test_its_json_is_read_as_it_is() -> None:
    said = {"name": "f", "dag_id": "d", "conf": {"a": [1]}, "cron": "0 8 * * *", "tz": "Europe/Berlin", "preservation": "FULL"}
    run = RegisteredRun.from_json(said | {"enabled": False, "description": "x"})

    assert run.preservation is Preservation.FULL
    assert run.enabled is False
    read = {name: getattr(run, name) for name in said}
    assert (read, run.description) == (said, "x")
    assert run.schedule(enabled=False).trigger == Cron("0 8 * * *", "Europe/Berlin")


def test_the_trigger_of_a_run_without_a_cron_is_never_satisfied_and_has_no_fields() -> None:
    assert parse_trigger({"by_hand": {}}) == parse_trigger({"by_hand": None}) == ByHand()
    assert ByHand().leaves() == ()
    assert not ByHand().evaluate({}, datetime.now(UTC)).satisfied
    with pytest.raises(InvalidSchedule, match="it has no fields"):
        parse_trigger({"by_hand": {"by": "vera"}})


@pytest.mark.parametrize(
    ("said", "field", "problem"),
    [
        ({"name": "no name"}, "name", "must start with a letter"),
        ({"dag_id": ""}, "dag_id", "the id of a DAG"),
        ({"conf": [1]}, "conf", "must be a mapping"),
        ({"conf": {"snowpack": {}}}, "conf", "is reserved"),
        ({"conf": {"snowpack_run": {"name": "another"}}}, "conf", "is reserved"),
        ({"cron": "8 o'clock"}, "cron", "five fields, or six"),
        ({"cron": 8}, "cron", "must be a text"),
        ({"cron": "0 0 30 2 *"}, "cron", "no day ever|not a cron expression"),
        ({"tz": "Berlin"}, "tz", "no such time zone"),
        ({"preservation": "full"}, "preservation", "NONE or FULL"),
        ({"preservation": ["FULL"]}, "preservation", "NONE or FULL"),
        ({"enabled": "yes"}, "enabled", "true or false"),
        ({"description": "a\x00b"}, "description", "NUL"),
        ({"schedule": "0 8 * * *"}, "schedule", "it is not known"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_field_that_is_to_blame(said: dict[str, Any], field: str, problem: str) -> None:
    with pytest.raises(InvalidRun, match=problem) as caught:
        RegisteredRun.from_json({"name": "f", "dag_id": "d", **said})
    assert caught.value.field == field
    assert isinstance(caught.value, InvalidSchedule)


@pytest.mark.parametrize("said", [{}, {"name": "f"}, {"dag_id": "d"}, [], None])
def test_a_declaration_without_name_or_dag_is_refused(said: Any) -> None:
    with pytest.raises(InvalidRun):
        RegisteredRun.from_json(said)


def test_what_is_given_for_a_run_comes_over_the_defaults() -> None:
    run = RegisteredRun("f", "d", {"a": 1, "b": {"c": 1}}, preservation="FULL")

    told = {"name": "f", "preservation": "NONE", "explicit": True}
    assert run.conf_of_run({"b": {"d": 2}}, Preservation.NONE) == {"a": 1, "b": {"d": 2}, "snowpack_run": told}
    told = {"name": "f", "preservation": "FULL", "explicit": False}
    assert run.conf_of_run({}, None) == {"a": 1, "b": {"c": 1}, "snowpack_run": told}
