"""The parts of ``make cluster``: each starts after those that it needs."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from examples.cluster.errors import UnknownPart
from examples.cluster.parts import PARTS, parts_in_order


def test_a_part_brings_what_it_needs_and_follows_it() -> None:
    assert [part.name for part in parts_in_order(["rest"])] == ["postgres", "s3", "rest"]


def test_a_part_that_several_need_starts_once_and_as_early_as_it_was_named() -> None:
    assert [part.name for part in parts_in_order(["s3", "rest", "s3"])] == ["s3", "postgres", "rest"]


def test_all_parts_start_in_an_order_that_works() -> None:
    started: set[str] = set()
    for part in parts_in_order(PARTS):
        assert {needed.name for needed in part.needs} <= started
        started.add(part.name)
    assert started == set(PARTS)


def test_an_unknown_part_is_refused_with_the_names_of_all_parts() -> None:
    with pytest.raises(UnknownPart, match=r"^The cluster has no part 'minio'\. Its parts are .*postgres.*s3"):
        parts_in_order(["s3", "minio"])


@pytest.mark.parametrize("name", PARTS)
def test_a_part_takes_a_folder_and_the_parts_that_it_needs_in_this_order(name: str) -> None:
    part = PARTS[name]
    parameters = [each for each in inspect.signature(part, eval_str=False).parameters.values() if each.default is each.empty]

    assert [each.annotation for each in parameters] == [Path.__name__, *(needed.__name__ for needed in part.needs)]
