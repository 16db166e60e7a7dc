"""The REST API of schedules, events and the queue of pending jobs, through the app itself on a real store."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from app_client import AppClient
from pages_world import World
from schedules_world import PAUSED, Airflow

from airflow_snowpack.scheduling.events.event_intake import Subscriber
from airflow_snowpack.scheduling.launches.launcher import Launcher
from airflow_snowpack.scheduling.pending_runs.checker import Checker
from airflow_snowpack.scheduling.sources.source import ProblemKind, SourceProblem, record_problems
from airflow_snowpack.store.tables.schedules import schedules

NIGHTLY: dict[str, Any] = {
    "name": "nightly",
    "dag_id": "maintain_paused",
    "trigger": {"any_of": [{"custom_events": {"name": "arrived", "count": 5}}, {"every": {"period": "PT4H"}}]},
    "constraints": [{"delay": "10m"}],
    "enabled": True,
}


def work(world: World) -> None:
    Subscriber(world.store).step()
    Checker(world.store, Airflow()).step()
    Launcher(world.store, Airflow(), "test").step()


def test_a_schedule_is_created_read_changed_and_deleted_and_suspended_once(api: AppClient) -> None:
    created = api("POST", "/schedules", NIGHTLY)
    assert (created.status_code, created.headers["location"]) == (201, "/schedules/nightly")
    assert created.json()["origin"] == "hand"
    assert created.json()["changed_by"] == "vera"

    definition = api("GET", "/schedules/nightly").json()["definition"]
    changed = api("PUT", "/schedules/nightly", definition | {"priority": 5})
    assert changed.json()["definition"] == definition | {"priority": 5}
    assert changed.json()["generation"] == created.json()["generation"]
    changed = api("PUT", "/schedules/nightly", definition | {"dag_id": "another"})
    assert changed.json()["generation"] != created.json()["generation"]

    assert api("DELETE", "/schedules/nightly").status_code == 204
    assert api("GET", "/schedules/nightly").status_code == 404

    api("POST", "/schedules", NIGHTLY)
    changed = api("PUT", "/schedules/nightly", {"dag_id": "another", "trigger": {"every": "1h"}, "enabled": False})

    assert changed.status_code == 200
    assert changed.json()["enabled"] is True
    assert changed.json()["definition"]["enabled"] is True

    suspended = [api("POST", "/schedules/nightly/suspend").json() for _ in range(2)]
    resumed = [api("POST", "/schedules/nightly/resume").json() for _ in range(2)]

    assert suspended[0] == suspended[1]
    assert resumed[0] == resumed[1]
    assert (suspended[0]["enabled"], resumed[0]["enabled"]) == (False, True)


def test_a_change_of_when_it_runs_is_refused_while_events_wait_until_it_may_discard_them(api: AppClient, world: World) -> None:
    api("POST", "/schedules", NIGHTLY)
    for number in range(3):
        api("POST", "/events", {"name": "arrived", "source_id": str(number)})
    work(world)
    assert "1 pending run with 3 events is discarded" in api("GET", "/ui/schedules/nightly").text
    assert api("PUT", "/schedules/nightly", NIGHTLY | {"priority": 5}).status_code == 200

    changed = NIGHTLY | {"dag_id": "another"}
    refused = api("PUT", "/schedules/nightly", changed)
    assert (refused.status_code, refused.json()["error"]) == (409, "discards_events")
    assert "discards 1 pending run with 3 events. Pass discard=true" in refused.json()["detail"]
    assert api("PUT", "/schedules/nightly?discard=true", changed).json()["definition"]["dag_id"] == "another"
    assert "Its pending runs are discarded" in api("GET", "/ui/schedules/nightly").text


def test_what_is_wrong_with_a_schedule_is_named_by_its_field_and_what_is_no_json_is_refused(api: AppClient) -> None:
    for body, field in [
        (NIGHTLY | {"trigger": {"custom_events": {"name": "x", "count": 0}}}, "trigger.custom_events.count"),
        (NIGHTLY | {"constraints": [{"delay": "10m"}, {"time_window": {"start": "25:00"}}]}, "constraints[1].time_window"),
        (NIGHTLY | {"nmae": "x"}, "nmae"),
        ({"name": "nightly"}, "dag_id"),
        (["no", "schedule"], "schedule"),
    ]:
        answer = api("POST", "/schedules", body)

        assert answer.status_code == 422
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["error"] == "invalid_schedule"
        assert answer.json()["field"].startswith(field)

    for body in [b"", b"{", b'{"name": NaN}', b"\xff", b"[" * 100_000, b'{"trigger":' + b'{"all_of":[' * 20_000]:
        assert api("POST", "/schedules", body).status_code == 422

    trigger = b'{"all_of": [' * 900 + b'{"every": "1h"}' + b"]}" * 900
    body = b'{"name": "deep", "dag_id": "maintain", "trigger": ' + trigger + b"}"

    assert api("POST", "/schedules", body).status_code == 422


def test_a_name_that_is_taken_a_name_that_is_not_there_and_another_name_than_that_of_the_address(api: AppClient) -> None:
    api("POST", "/schedules", NIGHTLY)

    taken = api("POST", "/schedules", NIGHTLY)
    assert (taken.status_code, taken.json()["error"]) == (409, "schedule_exists")
    assert api("PUT", "/schedules/nightly", NIGHTLY | {"name": "other"}).json()["field"] == "name"
    assert api("PUT", "/schedules/other", NIGHTLY | {"name": "other"}).status_code == 404
    for method, what in (("GET", ""), ("DELETE", ""), ("POST", "/suspend"), ("POST", "/resume"), ("POST", "/run"),
                         ("GET", "/explain"), ("GET", "/history")):  # fmt: skip
        for name in ("other", "..", "a%00b", "1x", "x" * 300):
            assert api(method, f"/schedules/{name}{what}").status_code == 404


def test_schedules_are_listed_by_filter_and_by_pages(api: AppClient) -> None:
    for number in range(5):
        api("POST", "/schedules", NIGHTLY | {"name": f"s{number}", "dag_id": f"dag_{number % 2}", "enabled": number > 1})

    def names(query: str) -> list[str]:
        return [one["name"] for one in api("GET", f"/schedules?{query}").json()["schedules"]]

    assert names("dag=dag_1") == ["s1", "s3"]
    assert names("enabled=false") == ["s0", "s1"]
    assert names("search=S4") == ["s4"]
    first = api("GET", "/schedules?limit=3").json()
    assert first["next"] == "s2"
    assert names(f"limit=3&cursor={first['next']}") == ["s3", "s4"]
    assert api("GET", "/schedules?dagg=x").status_code == 422


def test_an_event_counts_and_the_explanation_tells_how_far_it_is(api: AppClient, world: World) -> None:
    api("POST", "/schedules", NIGHTLY)
    for number in range(3):
        assert api("POST", "/events", {"name": "arrived", "source_id": f"{number}"}).status_code == 201
    work(world)

    explained = api("GET", "/schedules/nightly/explain").json()
    events, clock = explained["trigger"]["parts"]
    assert (events["says"], events["have"], events["want"]) == ("3 of 5 events named arrived", 3, 5)
    assert clock["have"] is None
    assert explained["pending"]["state"] == "pending_trigger"
    assert explained["sentences"][0] == "nightly is enabled and starts maintain_paused."
    assert explained["next_tick"] is not None


def test_an_explanation_has_the_sources_and_the_scheduler(api: AppClient, world: World) -> None:
    api("POST", "/schedules", NIGHTLY | {"trigger": {"all_of": [{"commits_added": "web.a"}, {"runs_succeeded": "gone"}]}})
    record_problems(world.store, {"dag:gone": SourceProblem.found(ProblemKind.MISSING, world.store.clock())}, {})
    explained = api("GET", "/schedules/nightly/explain").json()
    table, dag = explained["sources"]
    assert table == {"kind": "table", "name": "web.a", "read_at": None, "problem": None, "confirmed_at": None}
    assert (dag["kind"], dag["name"], dag["problem"]) == ("dag", "gone", "the DAG gone does not exist")
    assert explained["trigger"]["problem"] == explained["trigger"]["parts"][1]["problem"] == "the DAG gone does not exist"
    assert explained["scheduler"] == {"is_alive": False, "seen_at": None}


def test_the_queue_tells_state_reasons_and_next_check(api: AppClient, world: World) -> None:
    api("POST", "/schedules", NIGHTLY)
    for number in range(5):
        api("POST", "/events", {"name": "arrived", "source_id": f"{number}"})
    work(world)

    (job,) = api("GET", "/pending").json()["pending"]
    assert job["state"] == "pending_constraint"
    assert [(reason["what"], reason["met"]) for reason in job["reasons"]] == [("trigger", True), ("delay", False)]
    assert job["next_check_at"] == job["reasons"][1]["not_before"]
    assert api("GET", "/pending?state=pending_launch").json() == {"pending": [], "next": None}
    assert api("GET", "/pending?schedule=other").json()["pending"] == []
    assert api("GET", "/pending?state=launched").status_code == 422
    assert api("GET", "/pending?cursor=nonsense").status_code == 422


def test_running_now_says_which_run_it_will_be_and_why_it_has_not_started(api: AppClient, world: World) -> None:
    api("POST", "/schedules", NIGHTLY)
    asked = api("POST", "/schedules/nightly/run")
    work(world)

    assert asked.status_code == 202
    (job,) = api("GET", "/pending").json()["pending"]
    assert job["run_id"] == asked.json()["run_id"]
    assert job["problem"] == PAUSED
    whats = [entry["what"] for entry in api("GET", "/schedules/nightly/history").json()["entries"]]
    assert whats == ["launch_waits", "requested", "created"]


def test_events_are_recorded_once_and_listed_by_pages_and_what_cannot_be_recorded_is_refused(api: AppClient) -> None:
    for body in [
        {},
        {"name": ""},
        {"name": " "},
        {"name": "x", "key": "table:lake.a.b"},
        {"name": "x", "amounts": {"records": -1}},
        {"name": "x", "amounts": {"records": True}},
        {"name": "x", "at": "yesterday"},
        {"name": "x", "at": "2999-01-01T00:00:00Z"},
        {"name": "x", "detail": {"note": "a\x00b"}},
    ]:
        assert api("POST", "/events", body).status_code == 422
        assert api("GET", "/events").json() == {"events": [], "next": None}

    for number in range(5):
        api("POST", "/events", {"name": f"e{number % 2}"})

    first = api("GET", "/events?limit=3").json()
    rest = api("GET", f"/events?limit=3&cursor={first['next']}").json()
    assert [len(first["events"]), len(rest["events"]), rest["next"]] == [3, 2, None]
    assert len(api("GET", "/events?key=event:e1").json()["events"]) == 2

    body = {"name": "arrived", "amounts": {"records": 9}, "detail": {"by": "etl"}, "source_id": "7"}
    first, second = api("POST", "/events", body), api("POST", "/events", body)

    assert first.json() == second.json()
    assert second.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    (event,) = api("GET", "/events?key=event:arrived").json()["events"]
    assert event["amounts"] == {"records": 9}


def test_each_change_is_in_the_audit_trail_with_its_door(api: AppClient) -> None:
    api("POST", "/schedules", NIGHTLY)
    api("POST", "/schedules/nightly/run", **{"X-Snowpack-Page": "1"})
    api("POST", "/events", {"name": "arrived"})

    entries = api("GET", "/audit").json()["entries"]
    assert [(entry["change"], entry["via"], entry["subject"]) for entry in entries] == [
        ("send_event", "api", "event:arrived"),
        ("run_schedule", "page", "schedule:nightly"),
        ("create_schedule", "api", "schedule:nightly"),
    ]


def test_prometheus_reads_how_schedules_and_their_queue_are(api: AppClient, world: World) -> None:
    api("POST", "/schedules", NIGHTLY)
    api("POST", "/schedules", NIGHTLY | {"name": "other", "enabled": False})
    api("POST", "/events", {"name": "arrived"})
    work(world)
    api("POST", "/events", {"name": "arrived"})
    api("POST", "/schedules/nightly/run")
    lines = api("GET", "/metrics").text.splitlines()

    for line in (
        'snowpack_schedules{state="enabled"} 1.0',
        'snowpack_schedules{state="suspended"} 1.0',
        'snowpack_pending_jobs{state="pending_trigger"} 1.0',
        'snowpack_pending_jobs{state="pending_launch"} 1.0',
        "snowpack_events_newest 2.0",
        "snowpack_events_unread 1.0",
        "snowpack_launches_waiting 1.0",
        'snowpack_evaluations_total{state="pending_trigger"} 1.0',
        'snowpack_jobs_ended_total{status="failed"} 0.0',
        'snowpack_launch_seconds_bucket{le="+Inf"} 0.0',
    ):
        assert line in lines


@pytest.mark.parametrize("definition", [{"name": "nightly", "trigger": {"moon_phase": "full"}}, "what?", None], ids=str)
def test_a_schedule_that_cannot_be_read_is_told_with_the_reason_and_can_be_deleted(
    api: AppClient, world: World, definition: Any
) -> None:
    for name in ("nightly", "other"):
        assert api("POST", "/schedules", NIGHTLY | {"name": name}).status_code == 201
    change = sa.update(schedules).where(schedules.c.name == "nightly").values(definition=definition)
    world.store.transact(lambda conn: conn.execute(change))
    assert api("POST", "/events", {"name": "arrived"}).status_code == 201
    work(world)

    listed = {one["name"]: one for one in api("GET", "/schedules").json()["schedules"]}
    assert "is not usable" in listed["nightly"]["problem"]
    assert listed["other"]["problem"] is None
    explained = api("GET", "/schedules/nightly/explain").json()
    assert "cannot be read by this version" in explained["sentences"][1]
    assert "its definition cannot be read" in explained["pending"]["reasons"][0]["says"]
    assert 'snowpack_pending_jobs{state="pending_trigger"} 2.0' in api("GET", "/metrics").text
    for method, path in (("POST", "/schedules/nightly/run"), ("GET", "/schedules/nightly"), ("GET", "/pending")):
        assert api(method, path).status_code == (409 if method == "POST" else 200)
    assert api("POST", "/schedules/nightly/suspend").status_code == 200
    refused = api("POST", "/schedules/nightly/resume")
    assert (refused.status_code, "delete it" in refused.text) == (409, True)
    assert api("DELETE", "/schedules/nightly").status_code == 204
