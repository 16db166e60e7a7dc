"""A list without entries says whether there are none at all, or none that match the filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Run

pytestmark = pytest.mark.one_database


def test_an_empty_list_says_why_it_is_empty(snowpack: Run) -> None:
    for command, said in [
        ("jobs list", "No jobs yet. Submit one: airflow snowpack jobs submit"),
        ("jobs list --status failed", "No jobs match the filter."),
        ("jobs list --no-dry-run", "No jobs match the filter."),
        ("workers", "No worker has run."),
        ("locks list", "No table is locked."),
        ("audit", "No changes yet."),
        ("audit --subject drain", "No changes match the filter."),
        ("schedules list", "No schedules yet."),
        ("schedules list --no-enabled", "No schedules match the filter."),
        ("events list", "No events yet."),
        ("events list --key event:x", "No events match the filter."),
        ("pending list", "No runs are pending."),
        ("pending list --state pending_trigger", "No pending runs match the filter."),
        ("runs list", "No registered runs yet."),
        ("runs list --search x", "No registered runs match the filter."),
        ("builds list", "No datasets yet."),
        ("builds list --cursor x", "No more datasets."),
        ("interim list", "No interim tables yet."),
        ("interim list --state ready", "No interim tables match the filter."),
        ("images list", "No images yet."),
        ("images list --state failed", "No images match the filter."),
    ]:
        answer = snowpack(*command.split())
        assert (answer.code, answer.out) == (0, f"{said}\n")
    assert snowpack("jobs", "list", "-o", "json").json == []
