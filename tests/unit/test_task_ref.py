"""The text form of a task instance, which owners, workers and lineage share."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from airflow_snowpack.airflow.task_ref import TaskRef


@pytest.mark.parametrize(
    ("ref", "text"),
    [
        (TaskRef("orders", "manual__1", "clean"), "orders/manual__1/clean"),
        (TaskRef("orders", "manual__1", "group.clean", 3), "orders/manual__1/group.clean[3]"),
        (TaskRef("orders", "a/run/of its own", "clean", -1, 2), "orders/a/run/of its own/clean try 2"),
        (TaskRef("orders", "manual__1", "clean", 0, 12), "orders/manual__1/clean[0] try 12"),
    ],
)
def test_a_reference_can_be_parsed_from_its_text(ref: TaskRef, text: str) -> None:
    assert str(ref) == text
    assert TaskRef.parse(text) == ref


def test_the_host_of_a_worker_is_not_part_of_the_reference() -> None:
    assert TaskRef.parse("orders/manual__1/clean try 2 on host:4711") == TaskRef("orders", "manual__1", "clean", -1, 2)


@pytest.mark.parametrize("text", [None, "", "ada", "api/orders", "worker on host:4711", "orders/manual__1/clean[x]"])
def test_other_names_are_no_references(text: str | None) -> None:
    assert TaskRef.parse(text) is None


def test_all_tries_of_a_task_instance_have_one_name_and_one_prefix() -> None:
    tries = [TaskRef("orders", "manual__1", "clean", 3, number) for number in (1, 2)]
    assert {ref.name for ref in tries} == {"orders/manual__1/clean[3]"}
    assert all(str(ref).startswith(tries[0].any_try) for ref in tries)
    assert not str(TaskRef("orders", "manual__1", "clean", 31, 1)).startswith(tries[0].any_try)


def test_a_task_that_is_not_mapped_may_have_no_map_index() -> None:
    instance = SimpleNamespace(dag_id="orders", run_id="manual__1", task_id="clean", map_index=None, try_number=1)
    assert TaskRef.of(instance) == TaskRef("orders", "manual__1", "clean", -1, 1)
