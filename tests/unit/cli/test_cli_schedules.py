"""``airflow snowpack schedules|events|pending``."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import yaml

from airflow_snowpack.jobs import Jobs
from airflow_snowpack.scheduling import Schedules
from airflow_snowpack.scheduling.events.event_intake import Subscriber
from airflow_snowpack.store import AuditTrail
from airflow_snowpack.store.tables.schedules import schedules as schedule_rows
from airflow_snowpack.wire.schedule import ScheduleShape

Run = Callable[..., Any]

NIGHTLY: dict[str, Any] = {
    "name": "nightly",
    "dag_id": "maintain",
    "trigger": {"custom_events": {"name": "arrived", "count": 5}},
    "enabled": True,
}


@pytest.fixture
def declare(tmp_path: Path) -> Callable[..., str]:
    """Write a file with schedules, and give its path."""

    def write(*schedules: dict[str, Any], name: str = "some_schedules.yaml") -> str:
        file = tmp_path / "files" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(yaml.safe_dump({"schedules": list(schedules)}))
        return str(file)

    return write


@pytest.fixture
def schedules(jobs: Jobs) -> Schedules:
    """The schedules, as another process would see them."""
    return Schedules(jobs.store, catalog="lake")


def test_a_schedule_is_created_from_a_file_or_standard_input_and_shown_as_it_is_declared(
    snowpack: Run, declare: Any, schedules: Schedules, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = snowpack("schedules", "create", declare(NIGHTLY))

    assert (said.code, said.out) == (0, "nightly  created, enabled\n")
    assert snowpack("schedules", "show", "nightly", "-o", "json").json == ScheduleShape.encode(schedules.get("nightly"))
    shown = snowpack("schedules", "show", "nightly").out
    fields, _, definition = shown.partition("\n\n")
    assert yaml.safe_load(definition)["trigger"] == NIGHTLY["trigger"]
    assert "by ann" in fields

    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(NIGHTLY | {"name": "alone"})))

    assert snowpack("schedules", "create", "-").code == 0
    assert schedules.get("alone").enabled


def test_a_file_that_cannot_be_used_changes_nothing_and_a_schedule_that_is_refused_does_not_keep_the_others(
    snowpack: Run, declare: Any, schedules: Schedules
) -> None:
    said = snowpack("schedules", "create", declare(NIGHTLY, NIGHTLY | {"name": "bad", "priority": "high"}))

    assert said.code == 2
    assert "some_schedules.yaml: bad.priority" in said.err
    assert schedules.list() == []
    assert snowpack("schedules", "create", "nowhere.yaml").code == 2

    snowpack("schedules", "create", declare(NIGHTLY))
    said = snowpack("schedules", "create", declare(NIGHTLY, NIGHTLY | {"name": "other"}))

    assert said.code == 1
    assert "already" in said.err
    assert [one.schedule.name for one in schedules.list()] == ["nightly", "other"]


def test_changing_suspending_resuming_and_deleting_and_the_history_is_still_told(
    snowpack: Run, declare: Any, schedules: Schedules
) -> None:
    snowpack("schedules", "create", declare(NIGHTLY))

    assert snowpack("schedules", "update", declare(NIGHTLY | {"priority": 7})).out == "nightly  changed, enabled\n"
    assert schedules.get("nightly").schedule.priority == 7
    assert snowpack("schedules", "suspend", "nightly").out == "nightly  suspended\n"
    assert snowpack("schedules", "resume", "nightly", "-o", "json").json[0]["enabled"] is True
    assert snowpack("schedules", "delete", "nightly").code == 2
    assert snowpack("schedules", "delete", "nightly", "--yes").out == "nightly  deleted\n"
    for command in ("show", "explain", "suspend", "resume", "run"):
        assert snowpack("schedules", command, "nightly").code == 4

    assert "deleted" in snowpack("schedules", "history", "nightly").out
    assert snowpack("schedules", "history", "never").code == 4


def test_events_that_wait_are_discarded_only_after_a_confirmation_with_their_number(
    snowpack: Run, declare: Any, schedules: Schedules, jobs: Jobs
) -> None:
    snowpack("schedules", "create", declare(NIGHTLY))
    for number in range(3):
        snowpack("events", "send", "arrived", "--source-id", str(number))
    Subscriber(jobs.store).step()
    assert snowpack("schedules", "update", declare(NIGHTLY | {"description": "Each night."})).code == 0

    changed = declare(NIGHTLY | {"dag_id": "another"})
    for refused in (snowpack("schedules", "update", changed), snowpack("schedules", "delete", "nightly")):
        assert refused.code == 2
        assert "discards 1 pending run with 3 events." in refused.err
        assert "Pass --yes" in refused.err
    assert "3 events that waited would be discarded." in snowpack("schedules", "sync", changed, "--dry-run").out
    assert schedules.waiting("nightly").events == 3
    assert snowpack("schedules", "update", changed, "--yes").out == "nightly  changed, enabled\n"
    assert schedules.waiting("nightly").events == 0


def test_the_list_tells_progress_and_the_explanation_why(snowpack: Run, declare: Any, jobs: Jobs) -> None:
    snowpack("schedules", "create", declare(NIGHTLY, NIGHTLY | {"name": "other", "enabled": False}))
    for number in range(3):
        snowpack("events", "send", "arrived", "--source-id", str(number))
    Subscriber(jobs.store).step()

    row, other = (line.split("|") for line in snowpack("schedules", "list").out.splitlines()[2:4])
    assert [cell.strip() for cell in row[:4]] == ["nightly", "maintain", "enabled", "3 of 5 events named arrived"]
    assert [cell.strip() for cell in other[:4]] == ["other", "maintain", "suspended", ""]
    assert "3 of 5 events named arrived" in snowpack("schedules", "explain", "nightly").out
    told = snowpack("schedules", "explain", "nightly", "-o", "json").json
    assert (told["trigger"]["have"], told["trigger"]["want"]) == (3, 5)
    assert [one["name"] for one in snowpack("schedules", "list", "--no-enabled", "-o", "json").json["schedules"]] == ["other"]
    first = snowpack("schedules", "list", "--limit", "1")
    assert "--cursor nightly" in first.err


def test_running_now_tells_the_run_the_queue_has_it_and_each_change_is_in_the_audit_trail(
    snowpack: Run, declare: Any, jobs: Jobs
) -> None:
    snowpack("schedules", "create", declare(NIGHTLY))
    job = snowpack("schedules", "run", "nightly", "-o", "json").json

    (pending,) = snowpack("pending", "list", "-o", "json").json["pending"]
    assert pending["run_id"] == job["run_id"]
    assert "its start" in snowpack("pending", "list").out
    assert snowpack("pending", "list", "--state", "pending_trigger").out == "No pending runs match the filter.\n"
    whats = [entry["what"] for entry in snowpack("schedules", "history", "nightly", "-o", "json").json["entries"]]
    assert whats == ["requested", "created"]

    snowpack("events", "send", "arrived")

    trail = AuditTrail(jobs.store).latest()
    assert [entry.change for entry in trail] == ["send_event", "run_schedule", "create_schedule"]
    assert {(entry.actor, entry.via) for entry in trail} == {("ann", "cli")}
    assert snowpack("audit", "--subject", "schedule:nightly", "-o", "json").json["entries"][0]["change"] == "run_schedule"


def test_an_event_that_no_scheduler_counts_is_sent_with_the_advice_to_start_one(snowpack: Run, declare: Any) -> None:
    snowpack("schedules", "create", declare(NIGHTLY))
    first, second = snowpack("events", "send", "arrived").out.splitlines()
    assert first == "event:arrived is event 1."
    assert second.startswith("No scheduler is running; unpause the DAG snowpack_dispatcher, or run `airflow snowpack scheduler`")


def test_an_event_is_sent_once_for_each_source_id_and_one_that_cannot_be_understood_is_refused(snowpack: Run) -> None:
    for more in [("--amount", "records"), ("--amount", "records=-1"), ("--detail", "[]"), ("--detail", "{")]:
        assert snowpack("events", "send", "arrived", *more).code == 2
        assert snowpack("events", "list", "-o", "json").json["events"] == []

    send = ("events", "send", "arrived", "--amount", "records=900", "--detail", '{"day": "mon"}', "--source-id", "mon")
    assert snowpack(*send).out == "event:arrived is event 1.\n"
    assert snowpack(*send).out == "event:arrived is event 1, which was sent before.\n"

    (event,) = snowpack("events", "list", "--key", "event:arrived", "-o", "json").json["events"]
    assert (event["amounts"], event["detail"]) == ({"records": 900}, {"day": "mon"})
    assert "records=900" in snowpack("events", "list").out
    assert snowpack("events", "list", "--key", "event:other").out == "No events match the filter.\n"


def test_a_sync_follows_the_files_and_a_dry_run_only_tells(snowpack: Run, declare: Any, schedules: Schedules) -> None:
    folder = declare(NIGHTLY, NIGHTLY | {"name": "goes"}).rpartition("/")[0]

    assert snowpack("schedules", "sync", folder, "--dry-run").out == "Would be created: goes, nightly.\n"
    assert schedules.list() == []
    assert snowpack("schedules", "sync", folder).out == "Created: goes, nightly.\n"
    assert snowpack("schedules", "sync", folder).out == "The store and the files agree.\n"
    declare(NIGHTLY | {"priority": 1})
    planned = snowpack("schedules", "sync", folder, "--dry-run", "-o", "json").json
    assert planned.pop("problems")[0]["schedule"] is None, "no scheduler is running"
    assert planned == {"created": [], "updated": ["nightly"], "deleted": ["goes"], "left": [], "discards": 0}


def test_without_update_schedules_or_without_its_file_a_sync_leaves_what_is_there(
    snowpack: Run, declare: Any, schedules: Schedules
) -> None:
    snowpack("schedules", "sync", declare(NIGHTLY))
    file = declare(NIGHTLY | {"priority": 1})

    said = snowpack("schedules", "sync", file, "--no-update-schedules")
    assert said.out == "Not changed, although the files differ: nightly.\n"
    assert schedules.get("nightly").schedule.priority == 0

    snowpack("schedules", "sync", declare(NIGHTLY))

    assert snowpack("schedules", "sync", "nowhere").code == 2
    assert len(schedules.list()) == 1


def test_a_schedule_that_cannot_be_read_is_shown_with_the_reason_and_deleted(
    snowpack: Run, declare: Any, jobs: Jobs, schedules: Schedules
) -> None:
    snowpack("schedules", "create", declare(NIGHTLY, NIGHTLY | {"name": "other"}))
    change = sa.update(schedule_rows).where(schedule_rows.c.name == "nightly").values(definition={"trigger": 7})
    jobs.store.transact(lambda conn: conn.execute(change))

    assert "enabled, not readable" in snowpack("schedules", "list").out
    assert "cannot be read" in snowpack("schedules", "show", "nightly").out
    assert "is missing" in snowpack("schedules", "explain", "nightly").out
    refused = snowpack("schedules", "run", "nightly")
    assert (refused.code != 0, "cannot be read by this version" in refused.err) == (True, True)
    assert snowpack("schedules", "delete", "nightly", "--yes").code == 0
    assert [one.name for one in schedules.list()] == ["other"]
