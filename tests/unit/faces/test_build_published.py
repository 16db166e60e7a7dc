"""Waiting for a publication: what counts, in the sensor and in its trigger."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from published_builds import publish_build
from trigger_rounds import fired

from airflow_snowpack import sensors, triggers
from airflow_snowpack.builds.errors import InvalidBuild
from airflow_snowpack.builds.publish import rollback
from airflow_snowpack.builds.registry.current_build import WantedBuild, current_build
from airflow_snowpack.builds.registry.model import PublishOutcome
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage
from tests.unit.faces.conftest import Runner

Publish = Callable[[datetime], PublishOutcome]
NIGHT = [datetime(2026, 1, day, tzinfo=UTC) for day in range(1, 5)]


@pytest.fixture
def storage(installation: Path) -> Storage:
    return Storage(installation / "features")


@pytest.fixture
def publish(builds: BuildRegistry, storage: Storage) -> Publish:
    """Publish ``features`` as of a night."""
    return lambda as_of: publish_build(builds, storage, "features", as_of=as_of, rows={"a": 1, "b": 2, "c": 3})


def test_what_is_served_counts_and_not_what_went_into_history(builds: BuildRegistry, publish: Publish) -> None:
    assert current_build(builds.store, "features") is None
    assert publish(NIGHT[2]).moved
    assert not publish(NIGHT[1]).moved
    served = current_build(builds.store, "features")

    assert served is not None
    assert (served.as_of, served.publication, served.rows) == (NIGHT[2], 1, 3)
    assert WantedBuild("features", NIGHT[1]).is_met(served)
    assert not WantedBuild("features", NIGHT[3]).is_met(served)
    assert "Waiting for data as of 2026-01-04" in WantedBuild("features", NIGHT[3]).unmet(served)


def test_a_rollback_is_a_newer_publication_of_older_data(builds: BuildRegistry, storage: Storage, publish: Publish) -> None:
    publish(NIGHT[0])
    publish(NIGHT[1])
    rollback(builds, storage, "features", "-1", by="ann")
    served = current_build(builds.store, "features")

    assert WantedBuild("features", newer_than=2).is_met(served)
    assert not WantedBuild("features", NIGHT[1]).is_met(served)


def test_a_moment_without_a_zone_is_refused() -> None:
    with pytest.raises(InvalidBuild, match="time zone"):
        WantedBuild("features", datetime(2026, 1, 1))  # noqa: DTZ001 - the very thing


def test_the_sensor_returns_what_is_served(run_operator: Runner, publish: Publish) -> None:
    publish(NIGHT[1])
    sensor = sensors.BuildPublishedSensor(task_id="wait", dataset="features", as_of="{{ params.night }}")
    outcome = run_operator(sensor, params={"night": NIGHT[0].isoformat()})

    assert outcome.state == "success"
    assert outcome.xcom == {
        "dataset": "features",
        "run_id": "20260102T000000Z",
        "publication": 1,
        "as_of": NIGHT[1].isoformat(),
        "rows": 3,
    }


def test_the_sensor_waits_in_the_triggerer_for_the_end_of_its_runs_interval(run_operator: Runner, publish: Publish) -> None:
    publish(NIGHT[1])
    outcome = run_operator(sensors.BuildPublishedSensor(task_id="wait", dataset="features"))

    assert outcome.state == "deferred"
    path, arguments = outcome.message.classpath, outcome.message.trigger_kwargs
    assert path == "airflow_snowpack.triggers.waits.BuildPublishedTrigger"
    assert "as_of" in str(arguments)


def test_the_sensor_looks_again_when_it_is_woken_and_waits_on_if_it_was_rolled_back(
    run_operator: Runner, builds: BuildRegistry, storage: Storage, publish: Publish
) -> None:
    sensor = sensors.BuildPublishedSensor(task_id="wait", dataset="features", as_of=NIGHT[1])
    publish(NIGHT[0])
    publish(NIGHT[1])
    woken = ("execute_complete", {"event": {"publication": 2}, "until": "9999-01-01T00:00:00+00:00"})
    assert run_operator(sensor, resume=woken).state == "success"
    rollback(builds, storage, "features", "-1", by="ann")

    assert run_operator(sensor, resume=woken).state == "deferred"


@pytest.mark.parametrize("as_of", ["yesterday", "2026-01-01T00:00:00"])
def test_what_is_no_moment_fails_for_good(run_operator: Runner, as_of: str) -> None:
    outcome = run_operator(sensors.BuildPublishedSensor(task_id="wait", dataset="features", as_of=as_of))

    assert outcome.state == "failed"
    assert "with its time zone" in str(outcome.error)


def test_the_trigger_fires_when_the_awaited_build_is_published(settled: None, publish: Publish) -> None:
    trigger = triggers.BuildPublishedTrigger("features", NIGHT[1].isoformat(), poll_seconds=0.01)

    assert fired(trigger, meanwhile=lambda: publish(NIGHT[2])) == {"dataset": "features", "publication": 1}


def test_the_trigger_reports_an_invalid_name(settled: None, installation: Path) -> None:
    assert "'a/b'" in fired(triggers.BuildPublishedTrigger("a/b"))["problem"]
