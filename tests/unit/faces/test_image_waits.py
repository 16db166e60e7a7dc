"""Tasks that wait in the triggerer for images: what they cost together, and which of them is resumed when."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from counted_reads import counted_reads
from made_images import ImageMaker
from trigger_rounds import Tasks, TriggerRounds, connections, while_waiting

from airflow_snowpack import triggers
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.runners.images import ImagePolicy
from airflow_snowpack.store import Store

pytestmark = pytest.mark.usefixtures("settled")
LONG, EXPIRED = timedelta(hours=1), timedelta(0)


class Minutes:
    """The time of this process."""

    passed = 0

    def monotonic(self) -> float:
        return 60.0 * self.passed


@pytest.fixture
def minutes(monkeypatch: pytest.MonkeyPatch) -> Minutes:
    """The time between two tasks that are resumed for one image."""
    from airflow_snowpack.triggers import image_builds

    clock = Minutes()
    monkeypatch.setattr(image_builds, "time", clock)
    return clock


@pytest.fixture(autouse=True)
def none_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_snowpack.triggers import image_builds

    monkeypatch.setattr(image_builds, "_resumed_at", {})


def events(tasks: Sequence[asyncio.Task[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [task.result() for task in tasks if task.done()]


def test_1000_tasks_wait_for_20_images_with_one_connection_and_one_statement_for_each_round(
    rounds: TriggerRounds, far_store: Store, postgres_database: str
) -> None:
    maker = ImageMaker(far_store, ImagePolicy(lease=LONG))
    keys = [maker.request(commit=f"{number:040x}") for number in range(20)]
    attempts = {key: maker.begin(key) for key in keys}
    waits = [triggers.ImageBuildTrigger(keys[number % 20]) for number in range(1_000)]
    far_store.close()

    async def look(tasks: Tasks) -> None:
        for _ in range(2):
            reads.statements.clear()
            await rounds.run(1_000)
            assert len(reads.of_store) == 1, "whatever they wait for"
        assert await asyncio.to_thread(connections, postgres_database) == 1
        assert events(tasks) == []

        await asyncio.to_thread(maker.succeed, attempts[keys[0]])
        await rounds.run(950)
        assert events(tasks) == [{"key": keys[0], "state": "ready"}] * 50

    with counted_reads(far_store.engine) as reads:
        while_waiting(rounds, waits, look)


@pytest.mark.one_database
def test_of_the_tasks_that_wait_for_a_free_image_one_per_minute_is_resumed_to_build_it(
    rounds: TriggerRounds, jobs: Jobs, minutes: Minutes
) -> None:
    maker = ImageMaker(jobs.store, ImagePolicy(lease=EXPIRED))
    lost, requested = maker.request(), maker.request(commit="1" * 40)
    maker.begin(lost)
    waits = [triggers.ImageBuildTrigger((lost, requested)[number % 2]) for number in range(20)]

    async def look(tasks: Tasks) -> None:
        for resumed in (1, 2, 3):
            found = events(tasks)
            assert Counter(event["key"] for event in found) == {lost: resumed, requested: resumed}
            assert {event["state"] for event in found} == {"free"}
            await rounds.run(20 - 2 * resumed)
            assert len(events(tasks)) == 2 * resumed, "they may be on their way to a worker"
            if resumed < 3:
                minutes.passed += 1
                await rounds.run(18 - 2 * resumed)
        assert all(task.done() for task in tasks[2:6]), "after the first, those that have waited longest"

    while_waiting(rounds, waits, look, parked=18)


@pytest.mark.one_database
def test_every_task_is_resumed_when_an_image_has_failed_or_was_forgotten(rounds: TriggerRounds, jobs: Jobs) -> None:
    maker = ImageMaker(jobs.store, ImagePolicy(lease=LONG, retry_base=LONG))
    failing, forgotten, retried = (maker.request(commit=digit * 40) for digit in "123")
    waits = [triggers.ImageBuildTrigger((failing, forgotten, retried)[number % 3]) for number in range(9)]
    attempt = maker.begin(failing)
    maker.begin(forgotten)
    maker.fail(maker.begin(retried))

    async def look(tasks: Tasks) -> None:
        assert events(tasks) == []
        await asyncio.to_thread(maker.fail, attempt, is_final=True)
        await asyncio.to_thread(maker.builds.forget, forgotten)
        await rounds.run(3)
        assert events(tasks) == [{"key": failing, "state": "failed"}, {"key": forgotten, "state": "forgotten"}] * 3
        assert not any(task.done() for task in tasks[2::3]), "their image waits for its next attempt"

    while_waiting(rounds, waits, look)
