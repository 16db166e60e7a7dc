"""Which tasks wait for an image: entered when they have to wait, gone when the build has ended, whatever its end."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from made_images import ImageMaker

from airflow_snowpack.runners.images import ImagePolicy
from airflow_snowpack.store.retention import Pruner
from airflow_snowpack.store.tables.images import image_waits

if TYPE_CHECKING:
    from built_runs import MovedClock

    from airflow_snowpack.store import Store

TASKS = [f"flights/r{number}/score" for number in range(1, 31)]


@pytest.fixture
def maker(store: Store) -> ImageMaker:
    return ImageMaker(store, ImagePolicy(lease=timedelta(hours=1), retry_base=timedelta(minutes=1)))


def rows(store: Store) -> int:
    return int(store.scalar(sa.select(sa.func.count()).select_from(image_waits)))


def test_tasks_wait_in_the_order_in_which_they_came_and_each_once(maker: ImageMaker, clock: MovedClock) -> None:
    key = maker.request()
    maker.begin(key)
    began = clock()
    for task in TASKS:
        maker.wait(task)
        clock.move(timedelta(seconds=1))
    maker.wait(TASKS[0])
    assert maker.builds.get(key).waiting == len(TASKS)
    waits = maker.builds.waits(key)
    assert [(wait.task, wait.since) for wait in waits] == [
        (task, began + timedelta(seconds=second)) for second, task in enumerate(TASKS[:20])
    ]
    assert [image.waiting for image in maker.builds.list().items] == [len(TASKS)]


def test_the_task_that_takes_the_build_over_does_not_wait_any_more(maker: ImageMaker, clock: MovedClock) -> None:
    key = maker.request()
    maker.begin(key, TASKS[0])
    maker.wait(TASKS[1])
    maker.wait(TASKS[2])
    clock.move(timedelta(hours=2))
    maker.begin(key, TASKS[1])
    assert [wait.task for wait in maker.builds.waits(key)] == [TASKS[2]]
    assert maker.builds.get(key).waiting == 1


@pytest.mark.parametrize("end", ["succeeds", "fails", "is lost", "is forgotten"])
def test_no_task_waits_for_an_image_whose_build_has_ended(maker: ImageMaker, store: Store, clock: MovedClock, end: str) -> None:
    key = maker.request()
    other = maker.request(commit="1" * 40)
    maker.begin(other)
    maker.wait("flights/r1/other", commit="1" * 40)
    for _ in range(2):
        maker.fail(maker.begin(key))
        clock.move(timedelta(minutes=10))
    attempt = maker.begin(key)
    maker.wait(TASKS[0])
    match end:
        case "succeeds":
            maker.succeed(attempt)
        case "fails":
            maker.fail(attempt)
        case "is lost":
            clock.move(timedelta(hours=2))
            assert maker.attempts.claim(key, TASKS[1], is_task=True) is None
        case _:
            assert maker.builds.forget(key).waiting == 1
    assert maker.builds.waits(key) == []
    assert rows(store) == 1, "that of the other image"


def test_a_task_goes_on_waiting_for_the_next_attempt(maker: ImageMaker) -> None:
    key = maker.request()
    attempt = maker.begin(key)
    maker.wait(TASKS[0])
    maker.fail(attempt)
    assert [wait.task for wait in maker.builds.waits(key)] == [TASKS[0]]


def test_waits_are_pruned_with_their_image(maker: ImageMaker, store: Store, clock: MovedClock) -> None:
    from airflow_snowpack.installation import retained_rows

    key = maker.request()
    attempt = maker.begin(key)
    maker.wait(TASKS[0])
    maker.fail(attempt)
    clock.move(timedelta(days=40))
    pruned = Pruner(store, retained_rows(store), older_than=timedelta(days=30)).run(sleep=lambda _: None)
    assert (pruned["image_builds"], pruned["image_waits"], rows(store)) == (1, 1, 0)
