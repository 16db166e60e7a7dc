"""Which tasks wait for an image, until its build has ended, and how the attempts to build it ended."""

from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy as sa
from clocks import MovedClock
from made_images import ImageMaker

from airflow_snowpack.runners.images import ImagePolicy
from airflow_snowpack.runners.images.explanation import explain
from airflow_snowpack.store import Store
from airflow_snowpack.store.retention import Pruner
from airflow_snowpack.store.tables.images import image_attempts, image_waits

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


@pytest.mark.parametrize("end", ["succeeds", "is forgotten"])
def test_a_task_that_begins_to_wait_as_the_build_ends_leaves_no_row(maker: ImageMaker, store: Store, end: str) -> None:
    key = maker.request()
    attempt = maker.begin(key)
    maker.succeed(attempt) if end == "succeeds" else maker.builds.forget(key)
    maker.builds._enter_wait(key, TASKS[0])
    assert rows(store) == 0


def test_an_image_is_forgotten_before_what_belongs_to_it(maker: ImageMaker, store: Store) -> None:
    key = maker.request()
    maker.begin(key)
    deleted: list[str] = []

    def note(_conn: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("DELETE FROM "):
            deleted.append(statement.split()[2])

    sa.event.listen(store.engine, "before_cursor_execute", note)
    maker.builds.forget(key)
    assert deleted[0] == "image_builds", "whose lock keeps other processes from adding to the rest"
    assert sorted(deleted) == ["image_attempts", "image_builds", "image_waits"]


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
    assert (pruned["image_builds"], pruned["image_waits"], pruned["image_attempts"], rows(store)) == (1, 1, 1, 0)


def test_each_attempt_keeps_its_end(maker: ImageMaker, clock: MovedClock) -> None:
    key = maker.request()
    assert maker.builds.attempts(key) == []
    maker.attempts.give_back(maker.begin(key, TASKS[0]))
    clock.move(timedelta(minutes=1))
    maker.begin(key, TASKS[1])
    clock.move(timedelta(minutes=1))
    taken_over = maker.begin(key, TASKS[1])
    clock.move(timedelta(hours=2))
    began = clock()
    attempt = maker.begin(key, TASKS[2])
    assert not maker.attempts.succeed(taken_over, "late", "sha256:1", ""), "its lease has expired"
    clock.move(timedelta(minutes=3))
    maker.fail(attempt, "no space left")
    history = maker.builds.attempts(key)
    assert [(past.number, past.outcome.value, past.holder, past.error) for past in history] == [
        (3, "failed", TASKS[2], "no space left"),
        (2, "lost", TASKS[1], None),
        (1, "lost", TASKS[1], None),
        (1, "stopped", TASKS[0], None),
    ]
    assert (history[0].started_at, history[0].ended_at) == (began, clock())
    assert history[1].ended_at == began


def test_an_image_whose_next_attempt_was_stopped_has_the_end_of_the_lost_one(maker: ImageMaker, clock: MovedClock) -> None:
    key = maker.request()
    maker.begin(key, TASKS[0])
    clock.move(timedelta(hours=2))
    maker.attempts.give_back(maker.begin(key, TASKS[1]))
    image = maker.builds.get(key)
    explained = str(explain(image, maker.builds.policy, clock(), "It"))
    assert f"attempt 1 of 3 failed: The lease of the last attempt, by {TASKS[0]}, expired at " in explained
    maker.succeed(maker.begin(key, TASKS[2]))
    assert maker.builds.get(key).error is None


def test_the_newest_attempts_are_kept_and_go_with_their_image(maker: ImageMaker, store: Store, clock: MovedClock) -> None:
    key, other = maker.request(), maker.request(commit="1" * 40)
    maker.begin(other)
    for _ in range(25):
        maker.attempts.give_back(maker.begin(key))
        clock.move(timedelta(minutes=1))
    kept = sa.select(sa.func.count()).select_from(image_attempts)
    assert store.scalar(kept) == 21
    assert len(maker.builds.attempts(key)) == 20
    maker.builds.forget(key)
    assert maker.builds.attempts(key) == []
    assert store.scalar(kept) == 1, "that of the other image"
