"""``airflow snowpack runs``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_snowpack.jobs import Jobs
from airflow_snowpack.scheduling import Every, RegisteredRuns, Schedule, Schedules
from airflow_snowpack.store import AuditTrail
from airflow_snowpack.store.tables.schedules import launches
from airflow_snowpack.wire.run import RegisteredRunShape

Run = Callable[..., Any]

PAGE = (Path(__file__).parents[3] / "docs" / "registered-runs.md").read_text()
FEATURES = ("features", "--dag", "make_features")
DAILY = (*FEATURES, "--conf", '{"days": 7}', "--cron", "0 8 * * *", "--tz", "Europe/Berlin", "--preservation", "FULL")


@pytest.fixture
def runs(jobs: Jobs) -> RegisteredRuns:
    """The catalogue, as another process would see it."""
    return RegisteredRuns(jobs.store, catalog="lake")


def test_a_run_is_registered_and_shown_as_it_was_said_and_its_schedule_is_left_alone(snowpack: Run, runs: RegisteredRuns) -> None:
    said = snowpack("runs", "register", *DAILY)
    assert (said.code, said.out) == (0, "features  registered, enabled\n")

    stored = runs.get("features")
    assert (stored.cron, stored.tz, stored.conf, stored.updated_by) == ("0 8 * * *", "Europe/Berlin", {"days": 7}, "ann")
    assert snowpack("runs", "show", "features", "-o", "json").json == RegisteredRunShape.encode(stored)
    assert snowpack("runs", "list", "-o", "json").json == {"runs": [RegisteredRunShape.encode(stored)], "next": None}
    for command in (("show", "features"), ("list",)):
        shown = snowpack("runs", *command).out
        assert "0 8 * * *" in shown
        assert "make_features" in shown

    for command in (("suspend", "features"), ("resume", "features"), ("delete", "features", "--yes")):
        said = snowpack("schedules", *command)
        assert said.code == 1
        assert "is a registered run" in said.err

    assert runs.get("features").enabled
    assert snowpack("schedules", "explain", "features").code == 0


def test_an_upsert_says_what_it_did(snowpack: Run) -> None:
    said = [
        snowpack("runs", "upsert", *DAILY).out,
        snowpack("runs", "upsert", *DAILY).out,
        snowpack("runs", "upsert", *FEATURES, "--no-enabled").out,
        snowpack("runs", "upsert", *DAILY).out,
    ]
    assert said == [
        "features  registered, enabled\n",
        "features  unchanged, enabled\n",
        "features  changed, disabled\n",
        "features  changed, disabled\n",
    ]


def test_enable_and_disable_take_several_and_one_that_is_refused_does_not_keep_the_others(
    snowpack: Run, runs: RegisteredRuns
) -> None:
    for name in ("a", "b"):
        snowpack("runs", "register", name, "--dag", "d")
    said = snowpack("runs", "disable", "a", "nobody", "b")

    assert said.code == 4
    assert said.out == "a  disabled\nb  disabled\n"
    assert "There is no registered run 'nobody'" in said.err
    assert [one.name for one in runs.list(enabled=False)] == ["a", "b"]
    assert [one["name"] for one in snowpack("runs", "enable", "a", "-o", "json").json] == ["a"]
    assert [one["name"] for one in snowpack("runs", "list", "--enabled", "-o", "json").json["runs"]] == ["a"]


def test_unregistering_asks_first(snowpack: Run, runs: RegisteredRuns, terminal: Callable[[str], None]) -> None:
    snowpack("runs", "register", *FEATURES)
    terminal("n\n")
    assert snowpack("runs", "unregister", "features").code == 1
    assert len(runs.list()) == 1

    assert snowpack("runs", "unregister", "features", "--yes").code == 0
    assert runs.list() == []


def test_a_start_takes_values_for_this_run_alone_and_is_in_the_audit_trail(snowpack: Run, jobs: Jobs) -> None:
    snowpack("runs", "register", *DAILY)
    said = snowpack("runs", "run", "features", "--conf", '{"days": 30}', "--preservation", "NONE", "-o", "json")

    assert said.json["state"] == "pending_launch"
    (launch,) = jobs.store.read(lambda conn: conn.execute(launches.select()).all())
    assert launch.run_id == said.json["run_id"]
    assert launch.conf["days"] == 30
    assert launch.conf["snowpack_run"] == {"name": "features", "preservation": "NONE", "explicit": True}
    assert f"make_features starts as snowpack__features__{launch.run_id[20:28]}" in snowpack("runs", "run", "features").out
    assert "starting" in snowpack("runs", "show", "features").out

    assert [(entry.actor, entry.via, entry.change) for entry in AuditTrail(jobs.store).latest(subject="run:features")] == [
        ("ann", "cli", "run_registered"),
        ("ann", "cli", "run_registered"),
        ("ann", "cli", "register_run"),
    ]


def test_what_is_refused_ends_with_its_code_and_says_why(snowpack: Run, jobs: Jobs) -> None:
    Schedules(jobs.store, catalog="lake").create(Schedule("nightly", "d", Every("1h")))
    snowpack("runs", "register", *FEATURES)
    for command, code, says in [
        (("register", *FEATURES), 1, "is registered already"),
        (("register", "nightly", "--dag", "d"), 1, "A schedule 'nightly' exists already"),
        (("upsert", "no name", "--dag", "d"), 2, "name ="),
        (("upsert", *FEATURES, "--cron", "at eight"), 2, "cron ="),
        (("upsert", *FEATURES, "--tz", "Berlin"), 2, "no such time zone"),
        (("upsert", *FEATURES, "--conf", "{"), 2, "is not valid JSON"),
        (("upsert", *FEATURES, "--conf", "[7]"), 2, "is not a JSON object"),
        (("run", "features", "--conf", '{"snowpack_run": {}}'), 2, "is reserved"),
        (("run", "nobody"), 4, "There is no registered run 'nobody'"),
        (("show", "nobody"), 4, "There is no registered run 'nobody'"),
        (("enable", "nobody"), 4, "There is no registered run 'nobody'"),
    ]:
        said = snowpack("runs", *command)

        assert said.code == code
        assert says in said.err
        assert jobs.store.read(lambda conn: conn.execute(launches.select()).all()) == []


def test_the_commands_and_the_python_of_the_page_do_what_it_says(snowpack: Run, runs: RegisteredRuns, jobs: Jobs) -> None:
    for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL):
        for line in block.replace("\\\n", "").splitlines():
            assert snowpack(*shlex.split(line.removeprefix("airflow snowpack "))).code == 0, line
    assert (runs.get("features_daily").cron, runs.get("features_daily").preservation) == ("0 9 * * *", "FULL")

    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(example, "registered-runs.md", "exec"), {})
    assert runs.get("features_daily").conf == {"days": 7}
    newest = launches.select().order_by(launches.c.enqueued_at.desc())
    launch = jobs.store.read(lambda conn: conn.execute(newest).first())
    assert launch is not None
    assert launch.conf["snowpack_run"] == {"name": "features_daily", "preservation": "FULL", "explicit": True}
