"""docs/images.md: its example is a task, and its tables are those of the code."""

from __future__ import annotations

import configparser
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from made_images import make_images

from airflow_snowpack.runners.images import ImageBuild, ImageState, errors
from airflow_snowpack.runners.images.explanation import explain
from airflow_snowpack.runners.images.target import BUILDERS

if TYPE_CHECKING:
    from airflow_snowpack.jobs import Jobs

pytestmark = pytest.mark.one_database
PAGE = (Path(__file__).parents[3] / "docs" / "images.md").read_text()
REMOTE = "https://github.com/acme/score.git"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def first_column(heading: str) -> list[str]:
    """What the first column of the table below a heading has in backquotes."""
    table = re.search(rf"^\| {heading} \|[^\n]*\n\|-(.*?)\n\n", PAGE, re.MULTILINE | re.DOTALL)
    assert table is not None
    return re.findall(r"^\| `(\w+)`", table[1], re.MULTILINE)


def test_the_task_of_the_page_builds_its_image() -> None:
    (code,) = blocks("python")
    names: dict[str, object] = {}
    exec(compile(code.replace("RunEntryOperator(\n", "task = RunEntryOperator(\n"), "docs/images.md", "exec"), names)
    task = names["task"]
    source = task.build  # type: ignore[attr-defined]  # an operator's
    assert source == ImageBuild(REMOTE, "main", "docker/Dockerfile", {"PYTHON": "3.12"})
    assert set(first_column("parameter")) == set(ImageBuild.__dataclass_fields__)


def test_the_explanation_of_the_page_is_the_one_of_the_code(jobs: Jobs) -> None:
    made = make_images(jobs.store)
    image = replace(made.building, holder="flights/r1/score", started_at=datetime(2026, 11, 21, 21, 57, tzinfo=UTC))
    assert f"```text\n{explain(image, made.builds.policy, jobs.store.clock())}\n```" in PAGE


def test_the_tables_of_the_page_have_what_the_code_has() -> None:
    from airflow_snowpack.provider_info import CONFIG

    assert first_column("state") == [state.value for state in ImageState]
    assert first_column("`image_builder`") == list(BUILDERS)
    assert all(hasattr(errors, name) for name in first_column("error"))
    (settings,) = blocks("ini")
    parser = configparser.ConfigParser()
    parser.read_string(settings)
    assert set(parser["snowpack"]) <= set(CONFIG["snowpack"]["options"])
    assert parser["snowpack"]["image_builder"] in BUILDERS
